"""The state of a running broker as log lines (SIGUSR1): tasks, connections, partitions, groups, transactions, ..."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kwire.base.logging import get_logger

if TYPE_CHECKING:
    from kwire.server.broker import Broker

_log = get_logger("kwire.dump")


def dump(broker: Broker) -> None:
    """Write one line for each task, connection, partition and so on, or a single line if the broker is still starting.
    If a part fails, that is logged and the others follow."""
    try:
        _ = broker.parts
    except RuntimeError:
        _log.info("the broker is still starting")
        return
    for part in (_tasks, _connections, _requests, _partitions, _groups, _transactions, _metrics):
        try:
            part(broker)
        except Exception:
            _log.exception("dump failed", part=part.__name__)
    _log.info("dump complete")


def _tasks(_: Broker) -> None:
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        frames = task.get_stack(limit=1)
        where = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else ""
        _log.info("task", name=task.get_name(), function=getattr(task.get_coro(), "__qualname__", ""), where=where)


def _connections(broker: Broker) -> None:
    for connection in broker.net.connections:
        client = connection.context
        _log.info(
            "connection",
            connection=connection.id,
            listener=connection.listener,
            client_id=client.id if client is not None else None,
            software=f"{client.software_name} {client.software_version}" if client is not None else None,
            pending=connection.pending,
        )


def _requests(broker: Broker) -> None:
    for exchange in broker.dispatcher.pending.values():
        _log.info(
            "request",
            api=exchange.route.name,
            version=exchange.route.version,
            connection=exchange.connection_id,
            correlation_id=exchange.correlation_id,
        )


def _partitions(broker: Broker) -> None:
    for partition in broker.replicas.partitions():
        log = partition.log
        _log.info(
            "partition",
            topic=partition.topic,
            partition=partition.index,
            leader_epoch=partition.leader_epoch,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            size=log.size,
        )


def _groups(broker: Broker) -> None:
    for facts in broker.groups.dump():
        _log.info("group", **facts)


def _transactions(broker: Broker) -> None:
    for facts in broker.transactions.dump():
        _log.info("transaction", **facts)


def _metrics(broker: Broker) -> None:
    for name, value in broker.metrics.snapshot().items():
        _log.info("metric", name=name, value=value)

"""Brokers: who is there, what they lead and hold, and their configurations."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kwire.cli.connection.cluster import Cluster
from kwire.console.api.sizes import log_dirs
from kwire.console.api.topics import ConfigRow, configurations
from kwire.console.calls import Call
from kwire.console.failures import unknown


class BrokerRow(NamedTuple):
    """A broker. ``state``: ``up``, or ``gone`` if it has replicas but is not there; then it has no address. ``bytes``:
    of its replicas; ``disk_bytes``, ``free_bytes``: of its volumes; None if it does not say."""

    id: int
    host: str | None
    port: int | None
    rack: str | None
    controller: bool
    leaders: int
    replicas: int
    bytes: int | None
    disk_bytes: int | None
    free_bytes: int | None
    state: str


async def list_brokers(cluster: Cluster, call: Call) -> list[BrokerRow]:
    """The brokers that are there, and those that partitions name. `CommandError`."""
    metadata = await cluster.metadata()
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for topic in metadata.topics:
        for partition in topic.partitions:
            leaders[partition.leader_id] += 1
            replicas.update(partition.replica_nodes)
    held, disks, free = await _disks(cluster)
    up = {each.node_id: each for each in metadata.brokers}
    rows = []
    for node in sorted(up.keys() | replicas.keys()):
        broker = up.get(node)
        rows.append(
            BrokerRow(
                node,
                broker.host if broker else None,
                broker.port if broker else None,
                broker.rack if broker else None,
                node == metadata.controller_id,
                leaders[node],
                replicas[node],
                held.get(node),
                disks.get(node),
                free.get(node),
                "up" if broker else "gone",
            )
        )
    return rows


async def _disks(cluster: Cluster) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """Bytes of replicas, of volumes, and those that are free, by broker, as far as brokers answer."""
    held: dict[int, int] = {}
    total: dict[int, int] = {}
    free: dict[int, int] = {}
    for node, answer in (await log_dirs(cluster, None)).items():
        directories = [each for each in answer.results if not each.error_code]
        held[node] = sum(
            part.partition_size for each in directories for topic in each.topics for part in topic.partitions
        )
        if directories and all(each.total_bytes >= 0 for each in directories):
            total[node] = sum(each.total_bytes for each in directories)
            free[node] = sum(each.usable_bytes for each in directories)
    return held, total, free


async def broker_configs(cluster: Cluster, call: Call) -> list[ConfigRow]:
    """The configurations of a broker. `CommandError`, `Refusal`."""
    text = call.path["id"]
    nodes = await cluster.nodes()
    if not text.isdecimal() or len(text) > 9 or int(text) not in nodes:
        raise unknown("broker", f"there is no broker {text}")
    return await configurations(cluster, "broker", text, int(text))

"""The command lines of the brokers of ``kwire start --brokers``: the options of that command, and the properties in
which brokers differ.

Each broker has directories of its own below those of `log.dirs`; ports are counted up from those of the listeners.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kwire.base.free_ports import free_ports
from kwire.cli.brokers.numbers import AUTO, BROKERS_MAX
from kwire.server.directories.layout import METADATA, broker_name

if TYPE_CHECKING:
    from kwire.base.config import Endpoint, KafkaConfig
    from kwire.server.metrics_endpoint.cluster import ClusterMetrics

REPLICAS_MAX: Final = 3
"""The replicas of topics in a cluster that was asked for by its number of brokers."""


def commands(
    config: KafkaConfig, arguments: argparse.Namespace, ids: Sequence[int], metrics: ClusterMetrics | None = None
) -> list[list[str]]:
    """The command line of each broker."""
    chosen = free_ports()
    stride = _stride([each.port for each in config.endpoints()], BROKERS_MAX if arguments.brokers == AUTO else len(ids))
    made = []
    for node_id in ids:
        own = {name: value for name, value in _shared(config, arguments).items() if name not in config.static}
        own["node.id"] = str(node_id)
        if metrics is not None:
            own["kwire.metrics.listen"] = metrics.listen(node_id)
        own["log.dirs"] = ",".join(os.path.join(each, broker_name(node_id)) for each in _directories(config))
        own |= _addresses(config, (node_id - ids[0]) * stride, chosen)
        command = [sys.executable, "-m", "kwire", "start"]
        if arguments.file or arguments.config:
            command += ["--config", arguments.file or arguments.config]
        for name, value in {**dict(arguments.properties), **own}.items():
            command += ["--set", f"{name}={value}"]
        made.append(command)
    return made


def _directories(config: KafkaConfig) -> list[str]:
    return [os.path.abspath(each) for each in config.data_dirs]


def _shared(config: KafkaConfig, arguments: argparse.Namespace) -> dict[str, str]:
    """The properties that are the same for all brokers, unless the configuration has them. One broker per core is one
    broker to its users: a host has one fate, and a second replica on it would only cost."""
    shared: dict[str, str] = {}
    if not config.is_clustered:
        shared["kwire.metadata.dir"] = os.path.join(_directories(config)[0], METADATA)
    if arguments.brokers == AUTO:
        return {**shared, "kwire.balance.enable": "true"}
    return {**shared, **_replicated(arguments.brokers)}


def _replicated(count: int) -> Mapping[str, str]:
    replicas = str(min(count, REPLICAS_MAX))
    return {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, count)),
        "default.replication.factor": replicas,
    }


def _stride(ports: Sequence[int], count: int) -> int:
    """How far the ports of one broker are from those of the next: 1, unless ports of two listeners would meet."""
    given = sorted({port for port in ports if port})
    if all(after - before >= count for before, after in pairwise(given)):
        return 1
    return given[-1] - given[0] + 1


def _addresses(config: KafkaConfig, offset: int, chosen: Iterator[int]) -> dict[str, str]:
    """A broker's listeners, with what is added to their ports."""
    found = {"listeners": ",".join(_counted(each, offset, chosen) for each in config.endpoints())}
    if config.static.get("advertised.listeners"):
        found["advertised.listeners"] = ",".join(
            _counted(each, offset, chosen) for each in config.advertised_endpoints()
        )
    return found


def _counted(endpoint: Endpoint, offset: int, chosen: Iterator[int]) -> str:
    """A listener with its port counted up. A free port is chosen here instead of port 0, so that a restarted broker has
    the same address."""
    return str(endpoint._replace(port=endpoint.port + offset if endpoint.port else next(chosen)))

"""``kwire cluster``: the status of a cluster on one screen, and the end of a broker's registration.

``status [HOST:PORT]``, also without the word: brokers, controller, and the partitions in trouble: under-replicated (a
replica is not in sync) or offline (no leader). Exit status 1 if there are any.
``unregister [HOST:PORT] --id N``: remove a broker that will not come back.

The requests (DescribeCluster, Metadata, UnregisterBroker) go to any broker, of Apache Kafka as well.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.addresses import Address
from kwire.cli import connection, fail, output

if TYPE_CHECKING:
    from kwire.cli.connection.cluster import Cluster

LISTED_MAX: Final = 20
FENCED_VERSION: Final = 2
"""The first version of DescribeCluster that lists fenced brokers (KIP-1073)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire cluster``."""
    parser.add_argument("action", choices=["status", "unregister"], nargs="?", default="status")
    parser.add_argument("address", metavar="HOST:PORT", nargs="?", help="short for --bootstrap-server HOST:PORT")
    parser.add_argument("--id", type=int, metavar="N", help="unregister: the broker that will not come back")
    output.add_arguments(parser)
    connection.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Send the requests and print; 0 if all is well."""
    if (arguments.action == "unregister") != (arguments.id is not None):
        needs = "`unregister` needs --id N, the broker to unregister"
        return fail(needs if arguments.id is None else "status takes no --id", 2)
    from kwire.cli.connection.running import run

    if arguments.address is not None:
        arguments.bootstrap_server = arguments.address
    return run(arguments, _unregister if arguments.action == "unregister" else _status)


async def _unregister(cluster: Cluster, arguments: argparse.Namespace) -> int:
    from kwire.codec.messages.unregister_broker_request import UnregisterBrokerRequest

    response = await cluster.call(UnregisterBrokerRequest(broker_id=arguments.id))
    connection.check(response.error_code, f"broker {arguments.id}", response.error_message)
    line = f"broker {arguments.id} is not expected any more; it registers again when it is started"
    output.show_one_done(UnregisteredBroker(arguments.id), arguments.output, line)
    return 0


async def _status(cluster: Cluster, arguments: argparse.Namespace) -> int:
    from kwire.codec.messages.describe_cluster_request import DescribeClusterRequest

    fenced = await cluster.highest(DescribeClusterRequest.API_KEY) >= FENCED_VERSION
    brokers = await cluster.call(DescribeClusterRequest(include_fenced_brokers=fenced))
    found = status(brokers, await cluster.metadata())
    if arguments.output == "table":
        print("\n".join(_lines(found)))
    else:
        output.show_one(found, arguments.output)
    return 0 if found.well else 1


class UnregisteredBroker(NamedTuple):
    """A broker of ``unregister``."""

    broker: int


class BrokerRow(NamedTuple):
    """A broker. ``host`` and ``port``: None if it is not registered any more. ``live``: it is there."""

    id: int
    host: str | None
    port: int | None
    rack: str | None
    live: bool
    leads: int
    replicas: int


class ClusterStatus(NamedTuple):
    """What is shown of a cluster. ``controller``: None if there is none. ``well``: nothing is in trouble."""

    cluster_id: str
    controller: int | None
    well: bool
    brokers: list[BrokerRow]
    topics: int
    partitions: int
    offline: list[str]
    under_replicated: list[str]


def status(cluster: Any, metadata: Any) -> ClusterStatus:
    """What a DescribeCluster and a Metadata response say."""
    led: dict[int, int] = {broker.broker_id: 0 for broker in cluster.brokers}
    held = dict(led)
    behind, offline, total = [], [], 0
    for topic in metadata.topics:
        for partition in topic.partitions:
            total += 1
            name = f"{topic.name}-{partition.partition_index}"
            for replica in partition.replica_nodes:
                held[replica] = held.get(replica, 0) + 1
            if partition.leader_id < 0:
                offline.append(f"{name}: no leader, replicas {_ids(partition.replica_nodes)}")
                continue
            led[partition.leader_id] = led.get(partition.leader_id, 0) + 1
            if len(partition.isr_nodes) < len(partition.replica_nodes):
                missing = [each for each in partition.replica_nodes if each not in partition.isr_nodes]
                behind.append(f"{name}: leader {partition.leader_id}, not in sync {_ids(missing)}")
    known = {broker.broker_id: broker for broker in cluster.brokers}
    brokers = [_broker(each, known.get(each), led.get(each, 0), held[each]) for each in sorted(held)]
    controller = cluster.controller_id if cluster.controller_id >= 0 else None
    well = not (behind or offline) and controller is not None and all(each.live for each in brokers)
    return ClusterStatus(cluster.cluster_id, controller, well, brokers, len(metadata.topics), total, offline, behind)


def _broker(broker_id: int, broker: Any, leads: int, replicas: int) -> BrokerRow:
    if broker is None:
        return BrokerRow(broker_id, None, None, None, False, leads, replicas)
    return BrokerRow(broker_id, broker.host, broker.port, broker.rack, not broker.is_fenced, leads, replicas)


def _lines(found: ClusterStatus) -> list[str]:
    """The status on one screen."""
    controller = -1 if found.controller is None else found.controller
    lines = [f"cluster {found.cluster_id}   controller {controller}", ""]
    lines += [f"{'broker':>6}  {'address':<28} {'rack':<10} {'leads':>7} {'replicas':>9}"]
    for each in found.brokers:
        address = "" if each.host is None or each.port is None else str(Address(each.host, each.port))
        if not each.live:
            address = f"{address} away".lstrip()
        lines.append(f"{each.id:>6}  {address:<28} {each.rack or '':<10} {each.leads:>7} {each.replicas:>9}")
    counts = f"under-replicated {len(found.under_replicated)}   offline {len(found.offline)}"
    lines += ["", f"topics {found.topics}   partitions {found.partitions}   {counts}"]
    for title, names in (("offline", found.offline), ("under-replicated", found.under_replicated)):
        if names:
            more = [f"  ... and {len(names) - LISTED_MAX} more"] if len(names) > LISTED_MAX else []
            lines += ["", f"{title}:", *(f"  {each}" for each in names[:LISTED_MAX]), *more]
    return lines


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))

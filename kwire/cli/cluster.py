"""``kwire cluster``: the status of a cluster on one screen, and the end of a broker's registration.

``status [HOST:PORT]``: brokers, controller, and the partitions in trouble: under-replicated (a replica is not in
sync) or offline (no leader). Exit status 1 if there are any.
``unregister [HOST:PORT] --id N``: remove a broker that will not come back.

The requests (DescribeCluster, Metadata, UnregisterBroker) go to any broker, of Apache Kafka as well.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any, Final

from kwire.base.addresses import Address
from kwire.cli import configuration, fail
from kwire.cli.running.client import ClusterError, cluster_client

TIMEOUT_S: Final = 5.0
LISTED_MAX: Final = 20
FENCED_VERSION: Final = 2
"""The first version of DescribeCluster that lists fenced brokers (KIP-1073)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire cluster``."""
    parser.add_argument("action", choices=["status", "unregister"])
    parser.add_argument("address", metavar="HOST:PORT", nargs="?", default="localhost:9092")
    configuration.add_client_arguments(parser)
    parser.add_argument("--id", type=int, metavar="N", help="unregister: the broker that will not come back")


def run(arguments: argparse.Namespace) -> int:
    """Send the requests and print; 0 if all is well."""
    if (arguments.action == "unregister") != (arguments.id is not None):
        return fail(
            "`unregister` needs --id N, the broker to unregister" if arguments.id is None else "status takes no --id"
        )
    try:
        responses = asyncio.run(_ask(arguments))
    except ClusterError as error:
        return fail(error)
    if arguments.action == "unregister":
        return _unregistered(arguments.id, *responses)
    lines, well = status(*responses)
    print("\n".join(lines))
    return 0 if well else 1


async def _ask(arguments: argparse.Namespace) -> list[Any]:
    from kwire.codec.messages.api_versions_request import ApiVersionsRequest
    from kwire.codec.messages.describe_cluster_request import DescribeClusterRequest
    from kwire.codec.messages.metadata_request import MetadataRequest
    from kwire.codec.messages.unregister_broker_request import UnregisterBrokerRequest
    from kwire.codec.protocol import ApiKey

    async with cluster_client(arguments.address, arguments.command_config, TIMEOUT_S) as client:
        if arguments.id is not None:
            return [await client.call(UnregisterBrokerRequest(broker_id=arguments.id), 0)]
        served = {each.api_key: each.max_version for each in (await client.call(ApiVersionsRequest(), 0)).api_keys}
        version = min(FENCED_VERSION, served.get(ApiKey.DESCRIBE_CLUSTER, 0))
        brokers = DescribeClusterRequest(include_fenced_brokers=version >= FENCED_VERSION)
        everything = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return [await client.call(brokers, version), await client.call(everything, 12)]


def _unregistered(broker_id: int, response: Any) -> int:
    if response.error_code:
        return fail(response.error_message or f"broker {broker_id}: error {response.error_code}")
    print(f"broker {broker_id} is not expected any more; it registers again when it is started")
    return 0


def status(cluster: Any, metadata: Any) -> tuple[list[str], bool]:
    """What is printed of a DescribeCluster and a Metadata response, and whether all is well."""
    led: dict[int, int] = {broker.broker_id: 0 for broker in cluster.brokers}
    held = dict(led)
    behind, offline, away, total = [], [], [], 0
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
    lines = [f"cluster {cluster.cluster_id}   controller {cluster.controller_id}", ""]
    lines += [f"{'broker':>6}  {'address':<28} {'rack':<10} {'leads':>7} {'replicas':>9}"]
    known = {broker.broker_id: broker for broker in cluster.brokers}
    for broker_id in sorted(held):
        broker = known.get(broker_id)
        address = "" if broker is None else str(Address(broker.host, broker.port))
        if broker is None or broker.is_fenced:
            away.append(broker_id)
            address = f"{address} away".lstrip()
        rack = "" if broker is None else broker.rack or ""
        lines.append(f"{broker_id:>6}  {address:<28} {rack:<10} {led.get(broker_id, 0):>7} {held[broker_id]:>9}")
    counts = f"under-replicated {len(behind)}   offline {len(offline)}"
    lines += ["", f"topics {len(metadata.topics)}   partitions {total}   {counts}"]
    for title, found in (("offline", offline), ("under-replicated", behind)):
        if found:
            more = [f"  ... and {len(found) - LISTED_MAX} more"] if len(found) > LISTED_MAX else []
            lines += ["", f"{title}:", *(f"  {each}" for each in found[:LISTED_MAX]), *more]
    return lines, not (behind or offline or away) and cluster.controller_id >= 0


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))

"""``kwire txn find-hanging`` and ``abort-hanging``: transactions in partitions that no coordinator will end (KIP-664).

A producer of a version before KIP-890 can leave a transaction open in a partition that its coordinator knows nothing
of: consumers with read_committed then stop there, and the log is not compacted behind it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import Partition, leaders
from kwire.cli.output import show
from kwire.cli.transactions.actions import described
from kwire.codec.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kwire.codec.messages.list_transactions_request import ListTransactionsRequest
from kwire.codec.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition. ``coordinator_epoch``: -1 before the producer's first marker there;
    ``last_timestamp``: of its latest record, in milliseconds."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int


async def find_hanging(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Transactions that have been open for longer than any may, and that their coordinators do not know."""
    before_ms = time.time_ns() // 1_000_000 - round(arguments.open_for * 1000)
    opened = [each for each in await _opened(cluster, arguments.topics) if each.last_timestamp < before_ms]
    known = await _known(cluster, {each.producer_id for each in opened})
    show(
        sorted(each for each in opened if (each.producer_id, each.topic, each.partition) not in known), arguments.output
    )
    return 0


async def abort_hanging(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Write the marker with which a transaction ends that begins at an offset of a partition."""
    topic, indexes = arguments.partition
    if len(indexes) != 1:
        raise CommandError("name one partition, as TOPIC:0")
    found = [each for each in await _opened(cluster, [(topic, indexes)]) if each.start_offset == arguments.start_offset]
    if not found:
        raise CommandError(f"{topic}-{indexes[0]}: no open transaction begins at offset {arguments.start_offset}")
    [one] = found
    await cluster.until_done(lambda: _abort(cluster, one))
    if arguments.output != "table":
        show(found, arguments.output)
    else:
        print(f"{one.topic}-{one.partition}: aborted the transaction of producer {one.producer_id}")
    return 0


async def _abort(cluster: Cluster, one: OpenTransaction) -> None:
    marker = WritableTxnMarker(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        coordinator_epoch=max(one.coordinator_epoch, 0),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=one.topic, partition_indexes=[one.partition])],
    )
    [leader] = await leaders(cluster, [(one.topic, one.partition)])
    response = await cluster.call(WriteTxnMarkersRequest(markers=[marker]), leader)
    check(response.markers[0].topics[0].partitions[0].error_code, f"{one.topic}-{one.partition}")


async def _opened(cluster: Cluster, topics: Iterable[tuple[str, list[int]]]) -> list[OpenTransaction]:
    """The transactions that are open in partitions of topics (all topics by default). `CommandError`."""
    wanted = await _partitions(cluster, dict(topics))

    async def ask() -> list[OpenTransaction]:
        found: list[OpenTransaction] = []
        for leader, partitions in (await leaders(cluster, wanted)).items():
            found += _of_response(await cluster.call(_request(partitions), leader))
        return found

    return await cluster.until_done(ask) if wanted else []


async def _partitions(cluster: Cluster, named: dict[str, list[int]]) -> list[Partition]:
    metadata = await cluster.metadata(named or None)
    found = []
    for topic in metadata.topics:
        check(topic.error_code, f"topic {topic.name}")
        indexes = named.get(topic.name) or [each.partition_index for each in topic.partitions]
        found += [(topic.name, index) for index in indexes]
    return found


def _request(partitions: Iterable[Partition]) -> DescribeProducersRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()]
    )


def _of_response(response: Any) -> Iterable[OpenTransaction]:
    for topic in response.topics:
        for partition in topic.partitions:
            check(partition.error_code, f"{topic.name}-{partition.partition_index}", partition.error_message)
            for each in partition.active_producers:
                if each.current_txn_start_offset >= 0:
                    yield OpenTransaction(
                        topic.name,
                        partition.partition_index,
                        each.producer_id,
                        each.producer_epoch,
                        each.coordinator_epoch,
                        each.current_txn_start_offset,
                        each.last_timestamp,
                    )


async def _known(cluster: Cluster, producers: set[int]) -> set[tuple[int, str, int]]:
    """What coordinators know to be open: producer id, topic, partition. `CommandError`."""
    if not producers:
        return set()
    request = ListTransactionsRequest(producer_id_filters=sorted(producers))
    names: set[str] = set()
    for node in sorted(await cluster.nodes()):
        response = await cluster.call(request, node)
        check(response.error_code, f"broker {node}")
        names.update(each.transactional_id for each in response.transaction_states)
    found = [await described(cluster, name) for name in sorted(names)]
    return {
        (each.producer_id, topic.topic, index)
        for each in found
        for topic in each.partitions
        for index in topic.partitions
    }

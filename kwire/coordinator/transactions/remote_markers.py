"""Transaction markers for partitions that other brokers lead: WriteTxnMarkers.

Markers sent to one broker in the same iteration of the event loop share a request. A request with an unknown outcome
counts as failed: writing a marker twice does no harm. Markers on this broker are in `transactions.markers`, retries in
`transactions.coordinator`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import fail
from kwire.base.topic_partition import TopicPartition
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.codec.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import MetadataCache
    from kwire.cluster.replication.peers import Peers
    from kwire.codec.messages.write_txn_markers_response import WriteTxnMarkersResponse

VERSION: Final = 2
"""The version of WriteTxnMarkers that is sent."""
TIMEOUT_S: Final = 30.0
"""How long to wait for a response to WriteTxnMarkers."""


class Marker(NamedTuple):
    """The marker that ends a producer's transaction. With ``version`` 2, every transaction has its own producer epoch,
    so that the marker's epoch must be greater than that of the records (KIP-1228)."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    version: int


class _Sent(NamedTuple):
    marker: Marker
    commits: dict[TopicPartition, asyncio.Future[None]]


class RemoteMarkers:
    """Sends markers to other brokers. All methods run on the event loop."""

    def __init__(self, peers: Peers, metadata: MetadataCache, broker_id: int) -> None:
        self._peers = peers
        self._metadata = metadata
        self._broker_id = broker_id
        self._queues: dict[int, list[_Sent]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    def leader_of(self, partition: TopicPartition) -> int | None:
        """The other broker that leads a partition, or None if this broker or none leads it."""
        state = self._metadata.image.partition(*partition)
        if state is None or state.leader in (-1, self._broker_id):
            return None
        return state.leader

    def send(
        self, leader: int, marker: Marker, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, asyncio.Future[None]]:
        """Send a marker. Returns a future per partition, which completes when the marker is committed there and fails
        with KafkaError otherwise."""
        loop = asyncio.get_running_loop()
        commits: dict[TopicPartition, asyncio.Future[None]] = {each: loop.create_future() for each in partitions}
        queue = self._queues.setdefault(leader, [])
        queue.append(_Sent(marker, commits))
        if len(queue) == 1:
            loop.call_soon(self._flush, leader)
        return commits

    def _flush(self, leader: int) -> None:
        task = asyncio.get_running_loop().create_task(self._send_batch(leader, self._queues.pop(leader)))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _send_batch(self, leader: int, sent: list[_Sent]) -> None:
        request = WriteTxnMarkersRequest(markers=[_writable(each) for each in sent])
        failure = ErrorCode.NETWORK_EXCEPTION
        try:
            response = await self._peers.call(leader, request, VERSION, timeout_s=TIMEOUT_S)
            failure = ErrorCode.UNKNOWN_SERVER_ERROR
            _settle(sent, response)
        except (PeerUnavailable, KafkaError):
            pass
        finally:
            for each in sent:
                for commit in each.commits.values():
                    fail(commit, KafkaError(failure))


def _writable(sent: _Sent) -> WritableTxnMarker:
    marker = sent.marker
    topics: dict[str, list[int]] = {}
    for name, index in sent.commits:
        topics.setdefault(name, []).append(index)
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.commit,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.version,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
    )


def _settle(sent: list[_Sent], response: WriteTxnMarkersResponse) -> None:
    for each, result in zip(sent, response.markers, strict=False):
        for topic in result.topics:
            for partition in topic.partitions:
                commit = each.commits.get((topic.name, partition.partition_index))
                if commit is None or commit.done():
                    continue
                if partition.error_code:
                    fail(commit, KafkaError(ErrorCode(partition.error_code)))
                else:
                    commit.set_result(None)

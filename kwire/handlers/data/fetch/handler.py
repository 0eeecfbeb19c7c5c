"""Fetch (API key 1): read record batches from partitions, waiting for data where there is too little.

Behaviour:

- answered at once when ``min_bytes`` are there, a partition has an error or has diverged, nothing is asked for, or
  ``max_wait_ms`` is 0; otherwise when appends have brought enough, or after ``max_wait_ms`` with what there is.
- partitions are read in the order of the request or session, each up to its own limit and all up to ``max_bytes`` (and
  `fetch.max.bytes`); the first batch of the first partition with data comes whole, however large it is (KIP-74).
- ``read_committed`` reads up to the last stable offset and is told the aborted transactions in what it gets (KIP-98).
- incremental sessions: `fetch_sessions` (KIP-227).
- who leads instead is told to who comes too late (`current_leader`).
- from version 11 on a consumer may read any replica, up to its high watermark; an offset between that and the end of
  its log brings nothing, one beyond the end OFFSET_OUT_OF_RANGE, also where the leader has more. With
  `replica.selector.class` a leader names the in-sync follower in the consumer's rack, instead of records (KIP-392).
- a follower that sends another request behind one that waits is answered at once, with what there is.
- a follower that is not in sync gets nothing of throttled partitions while the leader's quota is exceeded (KIP-73).
- batches leave as ranges of the log's files, uncopied.

Versions: 4 isolation level (KIP-98); 5 ``log_start_offset`` (KIP-107); 7 sessions (KIP-227); 9 leader epochs (KIP-320);
10 zstd (KIP-110); 11 closest replica (KIP-392); 12 flexible, ``last_fetched_epoch`` and divergence (KIP-595); 13 topic
ids (KIP-516); 14 tiered storage's error (KIP-405); 15 ``replica_state`` (KIP-903); 16 ``node_endpoints`` (KIP-951);
17 directory ids (KIP-853); 18 the follower's high watermark (KIP-1166).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.file_range import FileRange
from kwire.cluster.replication.selector import closest
from kwire.codec.messages.fetch_request import FetchRequest
from kwire.codec.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, error_of, top_level_error
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType
from kwire.handlers.data.current_leader import OVERTAKEN, current_leader, endpoints
from kwire.handlers.data.fetch.sessions import FetchContext, FetchedPartition, FetchSessions, Key, records_size
from kwire.handlers.partitions import find_partition

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition
    from kwire.cluster.replication.throttles import ReplicationQuota

READ_COMMITTED: Final = 1
_NO_EPOCH: Final = EpochEndOffset()
_NO_LEADER: Final = LeaderIdAndEpoch()
_NO_SNAPSHOT: Final = SnapshotId()
_NOT_FOUND: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | Awaitable[FetchResponse]:
    """Read once; wait only if that is not enough."""
    try:
        fetch_context = context.services.kept(FetchSessions).context(request, context.api_version)
    except KafkaError as error:
        return top_level_error(FetchResponse, error.code)  # type: ignore[no-any-return]
    fetch = _Fetch(request, context, fetch_context)
    if fetch.follower >= 0:
        refuse_strangers(context)
        fetch.note_follower(request.replica_state.replica_epoch)
    fetch.read_all()
    if fetch.is_enough():
        return fetch.response()
    waiting = _WaitingFetch(fetch, request.max_wait_ms)
    if fetch.followed is not None:
        context.hurry = waiting.hurry
    return waiting.answer


def refuse_strangers(context: RequestContext) -> None:
    """Only brokers may fetch as replicas. CLUSTER_AUTHORIZATION_FAILED."""
    authorizer = context.services.authorizer
    if not authorizer.allows_all:
        authorizer.require(context, Operation(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME))


class _Fetch:
    """One Fetch request on its way: the partitions found, what was read of each, and how much that is."""

    __slots__ = (
        "_any_replica",
        "_by_id",
        "_committed_only",
        "_context",
        "_fetch_context",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_quota",
        "_rack",
        "_read",
        "_size",
        "_urgent",
        "followed",
        "follower",
    )  # fmt: skip

    def __init__(self, request: FetchRequest, context: RequestContext, fetch_context: FetchContext) -> None:
        limit: int = context.services.config.fetch_max_bytes
        self._context = context
        self._fetch_context = fetch_context
        self._by_id = context.api_version >= 13
        self._committed_only = request.isolation_level == READ_COMMITTED
        self.follower = max(request.replica_id, request.replica_state.replica_id)
        self.followed = fetch_context.followed
        self._any_replica = self.follower < 0 and context.api_version >= 11
        self._rack = request.rack_id if self._any_replica and context.services.config.replica_selector_class else ""
        self._quota: ReplicationQuota | None = None
        if self.follower >= 0 and not context.services.replicas.throttles.leader.idle:
            self._quota = context.services.replicas.throttles.leader
        self._max_bytes = min(request.max_bytes, limit)
        self._min_bytes = min(request.min_bytes, limit)
        self._max_wait_ms = request.max_wait_ms
        self._read: dict[Key, tuple[FetchedPartition, Partition | None, PartitionData]] = {}
        self._size = 0
        self._urgent = False

    def read_all(self) -> None:
        """Read every partition anew; what an earlier round found is given back."""
        self.release()
        self._size = 0
        self._urgent = not self._fetch_context.known
        self._read = {key: self._read_one(asked) for key, asked in self._fetch_context.partitions.items()}

    def read_again(self, changed: Mapping[Key, None]) -> None:
        """Read these partitions anew, and those that had data; the others are as they were."""
        self.release()
        self._size = 0
        for key, (asked, _, data) in self._read.items():
            if data.records or key in changed:
                self._read[key] = self._read_one(asked)
        for key in changed:
            if key not in self._read and key in self._fetch_context.known:  # it was quiet
                self._read[key] = self._read_one(self._fetch_context.known[key])

    def _read_one(self, asked: FetchedPartition) -> tuple[FetchedPartition, Partition | None, PartitionData]:
        partition: Partition | None = None
        try:
            partition = self._find(asked)
            if self.followed is not None:
                self.followed.watch((asked.topic, asked.index), partition)
            data = self._read_partition(partition, asked)
        except Exception as error:
            data = self._failure(asked, error)
            self._urgent = True
        return asked, partition, data

    def note_follower(self, broker_epoch: int) -> None:
        """A follower's positions, once a request: whatever it asks for is what it has not."""
        heard = None if self.followed is None else self.followed.heard
        for asked in self._fetch_context.partitions.values():
            want = asked.asked
            try:
                partition = self._find(asked)
                partition.require_leader(want.current_leader_epoch)
                if self._parts(partition, want.last_fetched_epoch, want.fetch_offset) is None:
                    log = partition.log
                    if log.log_start_offset <= want.fetch_offset <= log.log_end_offset:
                        partition.follower_at(
                            self.follower,
                            want.fetch_offset,
                            start_offset=want.log_start_offset,
                            broker_epoch=broker_epoch,
                            heard=heard,
                        )
            except KafkaError:
                continue  # reading comes to the same, and tells
        if heard is not None:
            heard.ms = int(asyncio.get_running_loop().time() * 1000)

    def _find(self, asked: FetchedPartition) -> Partition:
        services = self._context.services
        if self.follower >= 0 or services.authorizer.allows_all:
            if self._by_id:
                return services.replicas.partition_by_id(asked.topic, asked.index)  # type: ignore[arg-type]
            return services.replicas.partition(asked.topic, asked.index)  # type: ignore[arg-type]
        name, topic_id = ("", asked.topic) if self._by_id else (asked.topic, b"")
        return find_partition(
            self._context,
            name,  # type: ignore[arg-type]
            topic_id,  # type: ignore[arg-type]
            asked.index,
            by_id=self._by_id,
            operation=AclOperation.READ,
        )

    def _read_partition(self, partition: Partition, asked: FetchedPartition) -> PartitionData:
        want = asked.asked
        if self._any_replica:
            partition.require_replica(want.current_leader_epoch)
        else:
            partition.require_leader(want.current_leader_epoch)
        log = partition.log
        data = PartitionData(
            partition_index=asked.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging_epoch=_NO_EPOCH,
            current_leader=_NO_LEADER,
            snapshot_id=_NO_SNAPSHOT,
            aborted_transactions=[] if self._committed_only else None,
            records=b"",
        )
        if self._rack and self._is_closer_elsewhere(partition, want.fetch_offset, data):
            return data
        if want.last_fetched_epoch >= 0 and self._diverges(partition, asked, data):
            return data
        limit = min(want.partition_max_bytes, self._max_bytes - self._size)
        follows = self.follower >= 0
        if follows:
            if self.follower not in partition.replicas:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if self._quota is not None and self._must_wait(partition, self._quota):
                return data
            self._urgent |= partition.high_watermark > want.high_watermark  # KIP-1166
        fetched = partition.read(
            want.fetch_offset,
            max(limit, 0),
            committed_only=self._committed_only,
            min_one=self._size == 0,
            to_end=follows,
            from_follower=self._any_replica,
        )
        data.records = fetched.records
        self._size += fetched.size
        if self._committed_only and fetched.size:
            data.aborted_transactions = _aborted(partition, want.fetch_offset, fetched.size)
        return data

    def _must_wait(self, partition: Partition, quota: ReplicationQuota) -> bool:
        """Whether a throttled follower gets nothing now. One that is in sync is never kept from staying so."""
        return (
            self.follower not in partition.isr
            and quota.is_throttled(partition.topic, partition.index)
            and quota.is_exceeded()
        )

    def _is_closer_elsewhere(self, partition: Partition, offset: int, data: PartitionData) -> bool:
        """Whether the consumer is sent to a follower (KIP-392)."""
        if not partition.leading:
            return False
        found = closest(partition, offset, self._rack, self._context.listener, self._context.services.image)
        if found is None:
            return False
        data.preferred_read_replica = found
        self._urgent = True
        return True

    def _diverges(self, partition: Partition, asked: FetchedPartition, data: PartitionData) -> bool:
        """Whether the client's log is not a prefix of this one: then it is told where they part (KIP-595)."""
        parts = self._parts(partition, asked.asked.last_fetched_epoch, asked.asked.fetch_offset)
        if parts is None:
            return False
        data.diverging_epoch = EpochEndOffset(epoch=parts[0], end_offset=parts[1])
        self._urgent = True
        return True

    def _parts(self, partition: Partition, last_epoch: int, offset: int) -> tuple[int, int] | None:
        """Epoch and offset in which this log ends what another one has that ends with ``last_epoch`` at ``offset``;
        None if that one is a prefix of this one. OFFSET_OUT_OF_RANGE where that is not known any more."""
        if last_epoch < 0:
            return None
        epoch, end_offset = partition.log.end_offset_for_epoch(last_epoch)
        if epoch < 0 or end_offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return None if epoch >= last_epoch and end_offset >= offset else (epoch, end_offset)

    def _failure(self, asked: FetchedPartition, error: Exception) -> PartitionData:
        code, _ = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._context.services.log_failure("fetch", error)
        aborted: list[AbortedTransaction] | None = (
            [] if code in _NOT_FOUND else None
        )  # Kafka's answer has them where it did not get to the partition
        data = PartitionData(
            partition_index=asked.index, error_code=code, high_watermark=-1, aborted_transactions=aborted, records=b""
        )
        if code in OVERTAKEN and self._context.api_version >= 16:
            data.current_leader = current_leader(self._context, asked.topic, asked.index, code, LeaderIdAndEpoch)
        return data

    def is_enough(self) -> bool:
        """Whether the answer may leave."""
        return self._urgent or self._size >= self._min_bytes or self._max_wait_ms <= 0

    def watched(self) -> list[tuple[Key, Partition]]:
        """The partitions whose appends may make the answer complete."""
        return [(key, partition) for key, (_, partition, _) in self._read.items() if partition is not None]

    def response(self) -> FetchResponse:
        """The answer: the partitions grouped by topic, in the order in which they were read."""
        response = FetchResponse(session_id=self._fetch_context.session_id)
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        leaders: dict[int, None] = {}
        for asked, partition, data in self._read.values():
            if partition is not None:
                partition.metrics.total_fetch_requests += 1
                partition.metrics.failed_fetch_requests += data.error_code != 0
                self._count(partition, records_size(data.records))
            must_tell = self._fetch_context.must_tell(asked, data)
            if partition is not None and self.followed is not None:
                self.followed.told(self.follower, partition, asked, data)
            if not must_tell:
                continue
            topic = topics.get(asked.topic)
            if topic is None:
                topic = topics[asked.topic] = self._topic(asked.topic)
                response.responses.append(topic)
            topic.partitions.append(data)
            self._fetch_context.read(asked, bool(data.records))
            if data.current_leader.leader_id >= 0:
                leaders[data.current_leader.leader_id] = None
        if leaders:
            response.node_endpoints = endpoints(self._context, leaders, NodeEndpoint)
        return response

    def _count(self, partition: Partition, size: int) -> None:
        """Account for bytes that leave. The quota counts those of in-sync followers as well."""
        if self.follower < 0:
            partition.metrics.bytes_out += size
            return
        partition.metrics.replication_bytes_out += size
        if self._quota is not None and size and self._quota.is_throttled(partition.topic, partition.index):
            self._quota.record(size)

    def _topic(self, key: str | bytes) -> FetchableTopicResponse:
        if isinstance(key, str):
            return FetchableTopicResponse(topic=key)
        return FetchableTopicResponse(topic_id=key)

    def release(self) -> None:
        """Give back file ranges that are not going to be sent."""
        for _, _, data in self._read.values():
            if data.records.__class__ is FileRange:
                data.records.release()


class _WaitingFetch:
    """A fetch that sleeps until appends to its partitions have brought enough, or its time is over. An append costs the
    reading of its own partition only, however many are waited for.

    ``answer`` ends with the response. It is a bare future: a waiting consumer costs no task. Cancelling it (the
    connection is gone) stops the watching.
    """

    __slots__ = ("_changed", "_fetch", "_loop", "_timer", "_watched", "answer")

    def __init__(self, fetch: _Fetch, max_wait_ms: int) -> None:
        self._loop = loop = asyncio.get_running_loop()
        fetch.release()
        self._fetch = fetch
        self._changed: dict[Key, None] = {}
        self.answer: asyncio.Future[FetchResponse] = loop.create_future()
        self._timer = loop.call_later(max_wait_ms / 1000, self._time_is_over)
        self._watched: list[tuple[Partition, Callable[[], None]]] = []
        if fetch.followed is not None:
            fetch.followed.on_change = self._note
        else:
            self._watched = [(partition, partial(self._note, key)) for key, partition in fetch.watched()]
        for partition, callback in self._watched:
            partition.on_change(callback)
        self.answer.add_done_callback(self._stop)

    def _note(self, key: Key) -> None:
        """Something happened to a partition. All that one request has written is read together."""
        if not self._changed:
            self._loop.call_soon(self._look)
        self._changed[key] = None

    def _look(self) -> None:
        if self.answer.done():
            return
        changed, self._changed = self._changed, {}
        self._fetch.read_again(changed)
        if self._fetch.is_enough():
            self._answer()
        else:
            self._fetch.release()

    def hurry(self) -> None:
        """A follower has something new to say, which it can when this is answered."""
        if not self.answer.done():
            changed, self._changed = self._changed, {}
            self._fetch.read_again(changed)
            self._answer()

    def _time_is_over(self) -> None:
        if not self.answer.done():
            self._fetch.read_all()
            self._answer()

    def _answer(self) -> None:
        self.answer.set_result(self._fetch.response())
        self._stop(self.answer)  # at once, so that the next append does not call in vain

    def _stop(self, _: asyncio.Future[FetchResponse]) -> None:
        self._timer.cancel()
        followed = self._fetch.followed
        if followed is not None and followed.on_change == self._note:
            followed.on_change = None
        watched, self._watched = self._watched, []
        for partition, callback in watched:
            partition.off_change(callback)


def _aborted(partition: Partition, offset: int, size: int) -> list[AbortedTransaction]:
    """The aborted transactions that reach into what was read; a client passes over those that begin behind that."""
    found = partition.log.aborted_transactions(offset, partition.last_stable_offset)
    if len(found) > 1:
        end = partition.log.offset_beyond(offset, size)
        found = [one for one in found if one.first_offset < end]
    return [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in found]


API = Api(ApiKey.FETCH, served=(4, 18), handle=handle, cancel_on_disconnect=True)

"""Reading the partitions of one Fetch request, and the response made of what was read.

What lives elsewhere: waiting for more data (`fetch.handler`), and which partitions a session reads and which the
response contains (`fetch.sessions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.file_range import FileRange
from kwire.base.futures import at_once
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
from kwire.handlers.api import error_of
from kwire.handlers.authorization import CLUSTER_ACTION, is_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.data.current_leader import LEADER_CHANGED, current_leader, endpoints
from kwire.handlers.data.fetch.consumer_quota import charge, client_bytes_max
from kwire.handlers.data.fetch.fetched_partition import FetchedPartition, PartitionKey, TopicKey, records_size
from kwire.handlers.data.fetch.sessions import FetchContext
from kwire.handlers.partitions import find_partition
from kwire.handlers.slices import SLICE_PARTITIONS
from kwire.security.acls.operations import AclOperation, ResourceType

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition
    from kwire.cluster.replication.throttles import ReplicationQuota

READ_COMMITTED: Final = 1
_READ: Final = AclOperation.READ
_TOPIC: Final = ResourceType.TOPIC
_NO_EPOCH: Final = EpochEndOffset()
_NO_LEADER: Final = LeaderIdAndEpoch()
_NO_SNAPSHOT: Final = SnapshotId()

LARGE_PARTITIONS: Final = 200
"""A request that reads more partitions is handled in slices."""

_NOT_READ: Final[dict[int, int]] = {
    ErrorCode.UNKNOWN_TOPIC_ID: 1,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 2,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2,
}
"""Errors of partitions that were not found or may not be read, and their places in the response behind the others."""


def is_follower_allowed(context: RequestContext) -> bool:
    """Whether the client may fetch as a follower, as brokers do."""
    return is_allowed(context, *CLUSTER_ACTION)


class Fetch:
    """One Fetch request: the partitions found, what was read from each, and how many bytes that is."""

    __slots__ = (
        "_any_replica",
        "_by_id",
        "_committed_only",
        "_context",
        "_fetch_context",
        "_is_charged",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_not_read",
        "_number",
        "_quota",
        "_rack",
        "_read",
        "_reads_all",
        "_size",
        "_urgent",
        "follower",
        "follower_session",
        "is_refused",
    )

    def __init__(
        self,
        request: FetchRequest,
        context: RequestContext,
        fetch_context: FetchContext,
        follower: int,
        *,
        is_refused: bool,
    ) -> None:
        services = context.services
        limit: int = services.config.fetch_max_bytes
        self._context = context
        self._fetch_context = fetch_context
        self._by_id = context.api_version >= 13
        self._committed_only = request.isolation_level == READ_COMMITTED
        self.follower = follower
        self.follower_session = fetch_context.follower_session
        self.is_refused = is_refused
        """Whether a client that is no broker fetches as a follower: it gets TOPIC_AUTHORIZATION_FAILED only."""
        self._reads_all = services.authorizer.allows_all or (follower >= 0 and not is_refused)
        self._any_replica = follower < 0 and context.api_version >= 11
        self._rack = request.rack_id if self._any_replica and services.config.replica_selector_class else ""
        self._quota: ReplicationQuota | None = None
        if follower >= 0 and not services.replicas.throttles.leader.idle:
            self._quota = services.replicas.throttles.leader
        self._is_charged = follower < 0 and services.quotas.active
        if self._is_charged:
            limit = min(limit, client_bytes_max(context))
        self._max_bytes = min(request.max_bytes, limit)
        self._min_bytes = min(request.min_bytes, limit)
        self._max_wait_ms = request.max_wait_ms
        self._read: dict[PartitionKey, tuple[FetchedPartition, Partition | None, PartitionData]] = {}
        self._size = 0
        self._urgent = False
        self._not_read = False
        self._number = 0 if self.follower_session is None else self.follower_session.requests

    def read_all(self) -> None:
        """Read all partitions; release what an earlier reading gave."""
        at_once(self.read_in_steps())

    def read_in_steps(self) -> Generator[None, None, None]:
        """`read_all`, with a step after every `SLICE_PARTITIONS`; see `require_current`."""
        if self._read:
            self.release()
        self._size = 0
        self._urgent = not self._fetch_context.known
        self._read = {}
        for count, (key, fetched) in enumerate(self._to_read()):
            if count % SLICE_PARTITIONS == 0 and count:
                yield
                self.require_current()
            self._read[key] = self._read_one(fetched)

    def _to_read(self) -> Sequence[tuple[PartitionKey, FetchedPartition]]:
        """The partitions to read; those of a session may change between two steps."""
        return list(self._fetch_context.partitions.items())

    def read_again(self, changed: Mapping[PartitionKey, None]) -> None:
        """Read the changed partitions, and those that had data, again; keep the results of the others."""
        self.release()
        self._size = 0
        for key, (fetched, _, data) in self._read.items():
            if data.records or key in changed:
                self._read[key] = self._read_one(fetched)
        for key in changed:
            if key not in self._read and key in self._fetch_context.known:  # it was idle
                self._read[key] = self._read_one(self._fetch_context.known[key])

    def _read_one(self, fetched: FetchedPartition) -> tuple[FetchedPartition, Partition | None, PartitionData]:
        partition: Partition | None = None
        try:
            partition = self._find(fetched)
            if self.follower_session is not None:
                self.follower_session.watch((fetched.topic, fetched.index), partition)
            data = self._read_partition(partition, fetched)
        except Exception as error:
            data = self._failure(fetched, error)
            self._urgent = True
        return fetched, partition, data

    def note_follower(self, broker_epoch: int) -> Generator[None, None, None]:
        """Note the fetch offsets of a follower, once per request: they are the ends of its logs. A step after every
        `SLICE_PARTITIONS`; see `require_current`."""
        last_fetch = None if self.follower_session is None else self.follower_session.last_fetch
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        for count, (_, fetched) in enumerate(self._to_read()):
            if count % SLICE_PARTITIONS == 0 and count:
                yield
                self.require_current()
            requested = fetched.requested
            try:
                partition = self._find(fetched)
                partition.require_leader(requested.current_leader_epoch)
                if self._divergence(partition, requested.last_fetched_epoch, requested.fetch_offset) is None:
                    log = partition.log
                    if log.log_start_offset <= requested.fetch_offset <= log.log_end_offset:
                        partition.follower_at(
                            self.follower,
                            requested.fetch_offset,
                            start_offset=requested.log_start_offset,
                            broker_epoch=broker_epoch,
                            last_fetch=last_fetch,
                        )
            except KafkaError:
                continue  # reading fails with the same error, which the response has
        if last_fetch is not None:
            last_fetch.ms = now_ms

    def _find(self, fetched: FetchedPartition) -> Partition:
        if self.is_refused:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        services = self._context.services
        if self._reads_all:
            if self._by_id:
                return services.replicas.partition_by_id(fetched.topic, fetched.index)  # type: ignore[arg-type]
            return services.replicas.partition(fetched.topic, fetched.index)  # type: ignore[arg-type]
        find = services.replicas.partition_by_id if self._by_id else services.replicas.partition
        try:
            partition = find(fetched.topic, fetched.index)  # type: ignore[arg-type]
            if services.authorizer.has_allowed(self._context.decisions, (_READ, _TOPIC, partition.topic)):
                return partition
        except KafkaError:
            pass  # the client is told so only if it may know
        name, topic_id = ("", fetched.topic) if self._by_id else (fetched.topic, b"")
        return find_partition(
            self._context,
            name,  # type: ignore[arg-type]
            topic_id,  # type: ignore[arg-type]
            fetched.index,
            by_id=self._by_id,
            operation=_READ,
        )

    def _read_partition(self, partition: Partition, fetched: FetchedPartition) -> PartitionData:
        requested = fetched.requested
        self._require_readable(partition, fetched)
        log = partition.log
        data = PartitionData(
            partition_index=fetched.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            diverging_epoch=_NO_EPOCH,
            current_leader=_NO_LEADER,
            snapshot_id=_NO_SNAPSHOT,
            aborted_transactions=[] if self._committed_only else None,
            records=b"",
        )
        if self._rack and self._is_closer_elsewhere(partition, requested.fetch_offset, data):
            return data
        if requested.last_fetched_epoch >= 0 and self._diverges(partition, fetched, data):
            return data
        limit = min(requested.partition_max_bytes, self._max_bytes - self._size)
        follows = self.follower >= 0
        if follows:
            if self.follower not in partition.replicas or self.follower == self._context.services.broker_id:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if self._quota is not None and self._is_throttled(partition, self._quota):
                return data
            self._urgent |= partition.high_watermark > requested.high_watermark  # KIP-1166
        result = partition.read(
            requested.fetch_offset,
            max(limit, 0),
            committed_only=self._committed_only,
            min_one=self._size == 0,
            to_end=follows,
            from_follower=self._any_replica,
        )
        data.records = result.records
        self._size += result.size
        if self._committed_only and result.size:
            data.aborted_transactions = _aborted(partition, requested.fetch_offset, result.size)
        return data

    def _require_readable(self, partition: Partition, fetched: FetchedPartition) -> None:
        """Raise KafkaError if this broker may not serve the partition to this client."""
        if self._any_replica:
            partition.require_replica(fetched.requested.current_leader_epoch)
        else:
            partition.require_leader(fetched.requested.current_leader_epoch)

    def _is_throttled(self, partition: Partition, quota: ReplicationQuota) -> bool:
        """Whether a throttled follower gets no records now. One in sync always gets them, so that it stays in sync."""
        return (
            self.follower not in partition.isr
            and quota.is_throttled(partition.topic, partition.index)
            and quota.is_exceeded()
        )

    def _is_closer_elsewhere(self, partition: Partition, offset: int, data: PartitionData) -> bool:
        """Whether the consumer is to fetch from a follower (KIP-392), which ``data`` then names."""
        if not partition.leading:
            return False
        found = closest(partition, offset, self._rack, self._context.listener, self._context.services.image)
        if found is None:
            return False
        data.preferred_read_replica = found
        self._urgent = True
        return True

    def _diverges(self, partition: Partition, fetched: FetchedPartition, data: PartitionData) -> bool:
        """Whether the client's log diverges from this one; ``data`` then has the epoch and offset (KIP-595)."""
        divergence = self._divergence(partition, fetched.requested.last_fetched_epoch, fetched.requested.fetch_offset)
        if divergence is None:
            return False
        data.diverging_epoch = EpochEndOffset(epoch=divergence[0], end_offset=divergence[1])
        self._urgent = True
        return True

    def _divergence(self, partition: Partition, last_epoch: int, offset: int) -> tuple[int, int] | None:
        """The diverging epoch and its end offset in this log, for a log that ends at ``offset`` in ``last_epoch``; None
        if that log is a prefix of this one. OFFSET_OUT_OF_RANGE if this log does not reach back that far."""
        if last_epoch < 0:
            return None
        epoch, end_offset = partition.log.end_offset_for_epoch(last_epoch)
        if epoch < 0 or end_offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return None if epoch >= last_epoch and end_offset >= offset else (epoch, end_offset)

    def _failure(self, fetched: FetchedPartition, error: Exception) -> PartitionData:
        code, _ = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._context.services.log_failure("fetch", error)
        aborted: list[AbortedTransaction] | None = None
        if code in _NOT_READ:
            aborted = []  # in Kafka's response it is null for other errors only
            self._not_read = True
        data = PartitionData(
            partition_index=fetched.index, error_code=code, high_watermark=-1, aborted_transactions=aborted, records=b""
        )
        if code in LEADER_CHANGED and self._context.api_version >= 16:
            data.current_leader = current_leader(self._context, fetched.topic, fetched.index, code, LeaderIdAndEpoch)
        return data

    def is_enough(self) -> bool:
        """Whether the response can be sent without waiting for more data."""
        return self._urgent or self._size >= self._min_bytes or self._max_wait_ms <= 0

    @property
    def is_large(self) -> bool:
        """Whether it reads so many partitions that it is handled in slices. A consumer whose bytes are charged is not:
        that depends on the whole response. Nor is a follower without a session, which could not be told from its
        predecessor (`require_current`)."""
        if len(self._fetch_context.partitions) <= LARGE_PARTITIONS or self._is_charged:
            return False
        return self.follower < 0 or self.follower_session is not None

    def require_current(self) -> None:
        """FETCH_SESSION_ID_NOT_FOUND if the follower has begun another session, or sent another request in this one,
        since this request came: what it says about the follower's logs may no longer be true."""
        session = self.follower_session
        if session is not None and (session.is_closed or session.requests != self._number):
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def watched(self) -> list[tuple[PartitionKey, Partition]]:
        """The partitions whose appends may complete the response."""
        return [(key, partition) for key, (_, partition, _) in self._read.items() if partition is not None]

    def has_changed(self, key: PartitionKey) -> bool:
        """Whether a partition that was read would give something else now."""
        fetched, partition, data = self._read[key]
        assert partition is not None
        log = partition.log
        try:
            self._require_readable(partition, fetched)
            return self._find(fetched) is not partition or (
                (log.high_watermark, log.last_stable_offset) != (data.high_watermark, data.last_stable_offset)
            )
        except KafkaError:
            return True

    def response(self) -> FetchResponse:
        """The response: the partitions in the order in which they were read, after them those that were not found or
        may not be read; partitions of one topic that follow each other are in one element. If a quota of the consumer
        is exceeded, it is empty, and the session is as if nothing had been read."""
        return at_once(self.response_in_steps())

    def response_in_steps(self) -> Generator[None, None, FetchResponse]:
        """`response`, with a step after every `SLICE_PARTITIONS`; see `require_current`."""
        if self._is_charged and (throttle_ms := charge(self._context, self._preview)):
            self.release()
            session_id = self._context.services.fetch_sessions.throttled(self._fetch_context)
            return FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id)
        fetch_context, session = self._fetch_context, self.follower_session
        response = FetchResponse(session_id=fetch_context.session_id)
        last: TopicKey | None = None
        leaders: dict[int, None] = {}
        ordered = self._in_order() if self._not_read else list(self._read.values())
        for count, (fetched, partition, data) in enumerate(ordered):
            if count % SLICE_PARTITIONS == 0 and count:
                yield
                self.require_current()
            if partition is not None:
                metrics = partition.metrics
                metrics.total_fetch_requests += 1
                if data.error_code:
                    metrics.failed_fetch_requests += 1
                elif data.records:
                    self._count(partition, records_size(data.records))
            included = fetch_context.includes(fetched, data)
            if partition is not None and session is not None:
                session.responded(self.follower, partition, fetched, data)
            if not included:
                continue
            if fetched.topic != last:
                last = fetched.topic
                response.responses.append(self._topic(last))
            response.responses[-1].partitions.append(data)
            fetch_context.read(fetched, bool(data.records))
            if data.current_leader.leader_id >= 0:
                leaders[data.current_leader.leader_id] = None
        if leaders:
            response.node_endpoints = endpoints(self._context, leaders, NodeEndpoint)
        return response

    def _in_order(self) -> Sequence[tuple[FetchedPartition, Partition | None, PartitionData]]:
        return sorted(self._read.values(), key=lambda read: _NOT_READ.get(read[2].error_code, 0))

    def _preview(self) -> FetchResponse:
        """What the response will be unless the client is throttled: the same, with nothing counted or remembered."""
        response = FetchResponse(session_id=self._fetch_context.session_id)
        last: TopicKey | None = None
        for fetched, _, data in self._in_order():
            if self._fetch_context.would_include(fetched, data):
                if fetched.topic != last:
                    last = fetched.topic
                    response.responses.append(self._topic(last))
                response.responses[-1].partitions.append(data)
        leaders = [data.current_leader.leader_id for _, _, data in self._read.values()]
        if any(leader >= 0 for leader in leaders):
            known = dict.fromkeys(leader for leader in leaders if leader >= 0)
            response.node_endpoints = endpoints(self._context, known, NodeEndpoint)
        return response

    def _count(self, partition: Partition, size: int) -> None:
        """Count the bytes sent. The replication quota includes those sent to in-sync followers."""
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
        """Release the file ranges that are not going to be sent."""
        for _, _, data in self._read.values():
            if data.records.__class__ is FileRange:
                data.records.release()


def _aborted(partition: Partition, offset: int, size: int) -> list[AbortedTransaction]:
    """The aborted transactions that overlap what was read, without those that begin after its end."""
    found = partition.log.aborted_transactions(offset, partition.last_stable_offset)
    if len(found) > 1:
        end = partition.log.offset_beyond(offset, size)
        found = [each for each in found if each.first_offset < end]
    return [AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in found]

"""One partition on the broker that leads it: who may append, what is committed, who waits for that.

`append` is synchronous: check the office, append to the log, move the high watermark, and only then (in a later turn
of the loop, so that the producer's answer is under way first) tell those who wait for data. The high watermark is the
lowest end offset among the in-sync replicas; where this broker is the only one, that is the end of its own log, held
back while `flush.messages` still waits for the disk.

Nothing here polls: waiting for a commit is a future in a heap, waiting for data is a callback.

What lives elsewhere: bytes and offsets (`kwire.log`), which partitions exist and who leads them (`replica_manager`,
`image`), what requests make of all this (`kwire.handlers`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.metrics import TopicMetrics
from kwire.cluster.keys import PartitionState
from kwire.log.append_info import AppendInfo, FetchedData, Origin
from kwire.log.producer_state import NOT_ASKED, Verification

if TYPE_CHECKING:
    from kwire.log.partition_log import PartitionLog

ACKS_ALL = -1


class Partition:
    """A replica on this broker.

    ``leader_epoch``, ``isr`` and ``replicas`` are the cluster's decision (`update`); `log` is the local log. Methods
    that only a leader may serve raise NOT_LEADER_OR_FOLLOWER elsewhere, KAFKA_STORAGE_ERROR when the disk failed.
    """

    __slots__ = (
        "_announcing",
        "_broker_id",
        "_failure",
        "_followers",
        "_listeners",
        "_min_isr",
        "_tickets",
        "_unflushed",
        "_waiters",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "metrics",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
    )

    def __init__(self, broker_id: int, log: PartitionLog, metrics: TopicMetrics | None = None) -> None:
        self._broker_id = broker_id
        self.metrics = metrics or TopicMetrics()
        self.log = log
        self.topic: str = log.topic
        self.index: int = log.partition
        self.topic_id: bytes = log.topic_id
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self._min_isr = 1
        self._failure: ErrorCode | None = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._followers: dict[int, int] = {}  # end offset by in-sync follower
        self._unflushed: dict[asyncio.Future[None], int] = {}  # first offset by the sync that it waits for
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tickets = 0  # equal offsets are served in the order in which they came
        self._listeners: dict[Callable[[], None], None] = {}
        self._announcing = False

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, leader={self.leader}, epoch={self.leader_epoch})"

    # What the cluster decides

    def update(self, state: PartitionState) -> bool:
        """Follow the cluster's decision; whether this broker's leadership began anew, ended, or changed its epoch."""
        if state.partition_epoch <= self.partition_epoch:
            return False
        changed = state.leader_epoch != self.leader_epoch
        self.leader, self.leader_epoch, self.partition_epoch = state.leader, state.leader_epoch, state.partition_epoch
        self.replicas, self.isr = state.replicas, state.isr
        if state.leader != self._broker_id:
            self._resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return changed
        if self._failure != ErrorCode.KAFKA_STORAGE_ERROR:
            self._failure = None
        if changed and not self._begin_epoch():
            return changed
        start = self.log.high_watermark
        self._followers = {
            replica: start if changed else self._followers.get(replica, start)
            for replica in state.isr
            if replica != self._broker_id
        }
        self._advance()
        return changed

    def _begin_epoch(self) -> bool:
        try:
            self.log.begin_leader_epoch(self.leader_epoch)
        except (OSError, KafkaError):
            self.fail()
            return False
        return True

    def replace_log(self, log: PartitionLog) -> None:
        """The log goes on in another data directory, with the same records, all of them synced."""
        self.log = log
        self._unflushed = {}
        if self._failure is None:
            self._advance()
        self._announce()

    def set_min_isr(self, replicas: int) -> None:
        """`min.insync.replicas` of the topic: what acks=all needs at the moment of the append."""
        self._min_isr = replicas

    @property
    def leading(self) -> bool:
        """Whether this broker leads the partition and its disk works."""
        return self._failure is None

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, but not more than there are replicas."""
        return min(self._min_isr, len(self.replicas))

    def fail(self) -> None:
        """The disk under the log failed: from now on everything is answered with KAFKA_STORAGE_ERROR."""
        self._resign(ErrorCode.KAFKA_STORAGE_ERROR)

    def remove(self) -> None:
        """The partition is gone from this broker (deleted topic, moved replica)."""
        self._resign(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this broker leads the partition, and in the epoch that the client believes in.

        ``current_leader_epoch`` is -1 for a client that does not say. FENCED_LEADER_EPOCH: the client is behind;
        UNKNOWN_LEADER_EPOCH: this broker is (KIP-320).
        """
        if self._failure is not None:
            raise KafkaError(self._failure)
        if current_leader_epoch not in (-1, self.leader_epoch):
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # Offsets

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are committed (exclusive)."""
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open (exclusive); never above the high watermark."""
        return self.log.last_stable_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    # Reading and writing

    def append(
        self,
        records: memoryview,
        *,
        required_acks: int,
        origin: Origin = Origin.CLIENT,
        verification: Verification | None = NOT_ASKED,
    ) -> AppendInfo:
        """Append whole batches; the log assigns offsets. KafkaError for what leader, ISR or log refuse.

        ``verification``: what a transaction's coordinator was asked with (`producer_state`). With acks=all (-1) the
        append needs `min.insync.replicas`, and the answer belongs after `wait_committed(info.last_offset)`.
        """
        if self._failure is not None:
            raise KafkaError(self._failure)
        if required_acks == ACKS_ALL and len(self.isr) < self._min_isr:
            self._require_enough_replicas()
        try:
            info = self.log.append_as_leader(
                records, leader_epoch=self.leader_epoch, origin=origin, verification=verification
            )
        except KafkaError as error:
            if _is_lasting(error):
                self.fail()
            raise
        if info.flushed is not None:
            self._hold_back(info.first_offset, info.flushed)
        if not info.duplicate:
            self.metrics.bytes_in += info.size
            self.metrics.messages_in += info.last_offset - info.first_offset + 1
        self._advance()
        self._announce()
        return info

    def read(self, offset: int, max_bytes: int, *, committed_only: bool = False, min_one: bool = True) -> FetchedData:
        """Committed batches from an offset on; ``committed_only`` (isolation level read_committed) stops at the last
        stable offset. OFFSET_OUT_OF_RANGE below the log's start or above what may be read."""
        if self._failure is not None:
            raise KafkaError(self._failure)
        log = self.log
        upto = log.last_stable_offset if committed_only else log.high_watermark
        try:
            return log.read(offset, max_bytes, upto=upto, min_one=min_one, on_verified=self._announce)
        except KafkaError as error:
            if _is_lasting(error):
                self.fail()
            raise

    def wait_committed(self, offset: int) -> asyncio.Future[None] | None:
        """A future that ends when the record at ``offset`` is committed; None if it is already.

        It fails with NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR or UNKNOWN_TOPIC_OR_PARTITION when that can no
        longer be told here.
        """
        if offset < self.log.high_watermark:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            future.set_exception(KafkaError(self._failure))
        else:
            self._tickets += 1
            heapq.heappush(self._waiters, (offset, self._tickets, future))
        return future

    def on_change(self, callback: Callable[[], None]) -> None:
        """Have a callback called after every append, move of the high watermark, and loss of leadership, until
        `off_change`; changes of one turn of the loop are one call."""
        self._listeners[callback] = None

    def off_change(self, callback: Callable[[], None]) -> None:
        """Undo `on_change`; content if it was not there."""
        self._listeners.pop(callback, None)

    def follower_at(self, replica: int, end_offset: int) -> None:
        """An in-sync follower has everything below ``end_offset``; the high watermark may move."""
        if replica in self._followers:
            self._followers[replica] = end_offset
            self._advance()

    # Inside

    def _require_enough_replicas(self) -> None:
        if len(self.isr) < self.effective_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(self.isr)} in-sync replicas, {self.effective_min_isr} needed"
            )

    def _hold_back(self, first_offset: int, flushed: asyncio.Future[None]) -> None:
        """Nothing from this offset on is committed before the sync ends. One sync can cover several appends."""
        if not flushed.done() and flushed not in self._unflushed:
            self._unflushed[flushed] = first_offset
            flushed.add_done_callback(self._on_flushed)

    def _committable(self) -> Iterable[int]:
        """How far each in-sync replica has the data, this one first."""
        yield next(iter(self._unflushed.values()), self.log.log_end_offset)
        yield from self._followers.values()

    def _advance(self) -> None:
        """Move the high watermark to where the in-sync replicas are; never back."""
        log = self.log
        if self._followers or self._unflushed:
            target = min(self._committable())
        else:
            target = log.log_end_offset
        if target <= log.high_watermark:
            return
        log.advance_high_watermark(target)
        waiters = self._waiters
        while waiters and waiters[0][0] < target:
            future = heapq.heappop(waiters)[2]
            if not future.done():
                future.set_result(None)
        self._announce()

    def _on_flushed(self, flushed: asyncio.Future[None]) -> None:
        if flushed not in self._unflushed:
            return
        error = None if flushed.cancelled() else flushed.exception()
        if flushed.cancelled() or (error is not None and _is_lasting(error)):
            self.fail()
            return
        if error is not None:
            return  # the next sync that succeeds covers this one's records
        # Syncs may end out of order; a later one covers what was written before it.
        for future in list(self._unflushed):
            del self._unflushed[future]
            if future is flushed:
                break
        if self._failure is None:
            self._advance()

    def _resign(self, code: ErrorCode) -> None:
        if self._failure != ErrorCode.KAFKA_STORAGE_ERROR or code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._failure = code
        self._followers = {}
        self._unflushed = {}
        waiters, self._waiters = self._waiters, []
        for _, _, future in sorted(waiters):
            if not future.done():
                future.set_exception(KafkaError(code))
        self._announce()

    def _announce(self) -> None:
        if self._listeners and not self._announcing:
            self._announcing = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._announcing = False
        for callback in list(self._listeners):
            callback()


def _is_lasting(error: BaseException) -> bool:
    """Whether a partition cannot go on after an error: its disk has failed, and not only no room."""
    if isinstance(error, KafkaError) and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
        return False
    return not getattr(error, "transient", False)

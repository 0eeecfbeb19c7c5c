"""One partition on this broker: who may append, what is committed, who waits for that, who is in sync.

`append` is synchronous: check the office, append to the log, move the high watermark, and only then (in a later turn
of the loop, so that the producer's answer is under way first) tell those who wait for data. The high watermark is the
lowest end offset among the in-sync replicas; where this broker is the only one, that is the end of its own log, held
back while `flush.messages` still waits for the disk. It stands still while fewer than `min.insync.replicas` are in sync
(KIP-966), and it waits for a replica from the moment in which the leader asks for it to be counted in: the store may
have said yes long before that is known here.

A follower's log grows by what its fetcher brings (`append_fetched`), is cut where it parts from the leader's, and takes
the leader's high watermark.

Nothing here polls: waiting for a commit is a future in a heap, waiting for data is a callback.

What lives elsewhere: bytes and offsets (`kwire.log`), which partitions exist and who leads them (`replica_manager`,
`image`), how the ISR is changed in the store (`isr_writer`), fetching (`replica_fetcher`), what requests make of all
this (`kwire.handlers`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import fail
from kwire.base.metrics import TopicMetrics
from kwire.cluster.replication.followers import Follower, Heard
from kwire.cluster.store.keys import PartitionState
from kwire.codec.records import HEADER_SIZE, parse_header
from kwire.log.common.append_info import AppendInfo, FetchedData, Origin
from kwire.log.state.producer_state import NOT_ASKED, Verification

if TYPE_CHECKING:
    from kwire.log.partition.partition_log import PartitionLog

ACKS_ALL = -1

ProposeIsr = Callable[["Partition", "tuple[int, ...]"], None]
"""(partition, ISR): the leader wants the cluster to decide so; what becomes of it comes back by `Partition.update`."""


def keep_isr(_partition: Partition, _isr: tuple[int, ...]) -> None:
    """For partitions without a cluster around them."""


class Partition:
    """A replica on this broker.

    ``leader_epoch``, ``isr`` and ``replicas`` are the cluster's decision (`update`); `log` is the local log. Methods
    that only a leader may serve raise NOT_LEADER_OR_FOLLOWER elsewhere, KAFKA_STORAGE_ERROR when the disk failed.
    """

    __slots__ = (
        "_announcing",
        "_broker_id",
        "_epoch_start",
        "_failure",
        "_followers",
        "_in_sync",
        "_listeners",
        "_may_commit",
        "_min_isr",
        "_pending_isr",
        "_propose",
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

    def __init__(
        self,
        broker_id: int,
        log: PartitionLog,
        metrics: TopicMetrics | None = None,
        propose_isr: ProposeIsr = keep_isr,
    ) -> None:
        self._broker_id = broker_id
        self._propose = propose_isr
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
        self._followers: dict[int, Follower] = {}  # all other replicas, while this broker leads
        self._in_sync: tuple[Follower, ...] = ()  # those that the high watermark waits for
        self._pending_isr: tuple[int, ...] | None = None  # asked for, not yet decided
        self._may_commit = True
        self._epoch_start = 0
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
        self._pending_isr = None
        if state.leader != self._broker_id:
            self._resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return changed
        if self._failure != ErrorCode.KAFKA_STORAGE_ERROR:
            self._failure = None
        if changed and not self._begin_epoch():
            return changed
        now_ms = self._now_ms()
        known = {} if changed else self._followers
        self._followers = {
            replica: known.get(replica) or Follower(now_ms) for replica in state.replicas if replica != self._broker_id
        }
        self._count_in_sync()
        self._advance()
        self._announce()
        return changed

    def _count_in_sync(self) -> None:
        """Who has to have the data before it is committed: the ISR, and who is about to be in it."""
        members = dict.fromkeys((*self.isr, *(self._pending_isr or ())))
        self._in_sync = tuple(self._followers[each] for each in members if each in self._followers)
        self._may_commit = len(self.isr) >= self.effective_min_isr

    def _begin_epoch(self) -> bool:
        try:
            self._epoch_start = self.log.log_end_offset
            self.log.begin_leader_epoch(self.leader_epoch)
            flushed = self.log.flush_if_due()
            if flushed is not None:  # what came while this broker followed
                self._hold_back(self.log.recovery_point, flushed)
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
        self._may_commit = len(self.isr) >= self.effective_min_isr
        if self._failure is None and self.replicas:
            self._advance()

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

    def fence(self) -> None:
        """This broker's registration is over: it leads and follows nothing until the cluster decides anew."""
        self.leader = self.leader_epoch = self.partition_epoch = -1
        self._resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def remove(self) -> None:
        """The partition is gone from this broker (deleted topic, moved replica)."""
        self._resign(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this broker leads the partition, and in the epoch that the client believes in.

        ``current_leader_epoch`` is -1 for a client that does not say. FENCED_LEADER_EPOCH: the client is behind;
        UNKNOWN_LEADER_EPOCH: this broker is (KIP-320).
        """
        if self._failure is not None:
            if self._failure == ErrorCode.NOT_LEADER_OR_FOLLOWER and self.leader_epoch >= 0:
                self._check_epoch(current_leader_epoch)  # told first, as in Kafka
            raise KafkaError(self._failure)
        self._check_epoch(current_leader_epoch)

    def require_replica(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this broker has a replica that consumers may read, as leader or follower (KIP-392)."""
        if self._failure is not None:
            if self._failure != ErrorCode.NOT_LEADER_OR_FOLLOWER or self.leader_epoch < 0:
                raise KafkaError(self._failure)
            if self._broker_id not in self.replicas:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._check_epoch(current_leader_epoch)

    def _check_epoch(self, current_leader_epoch: int) -> None:
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
    def high_watermark_lags(self) -> bool:
        """Whether this leader may not know yet all that its predecessors have committed."""
        return self.log.high_watermark < self._epoch_start

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

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        committed_only: bool = False,
        min_one: bool = True,
        to_end: bool = False,
        from_follower: bool = False,
    ) -> FetchedData:
        """Committed batches from an offset on; ``committed_only`` (isolation level read_committed) stops at the last
        stable offset, ``to_end`` (a follower reads) at the end of the log; ``from_follower``: see `require_replica`.
        OFFSET_OUT_OF_RANGE below the log's start or above its end; nothing between what may be read and the end."""
        if self._failure is not None:
            if not from_follower:
                raise KafkaError(self._failure)
            self.require_replica()
        log = self.log
        if to_end:
            upto = log.log_end_offset
        else:
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
            fail(future, KafkaError(self._failure))
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

    # In-sync replicas, on the leader

    def follower_at(
        self,
        replica: int,
        end_offset: int,
        *,
        start_offset: int = 0,
        broker_epoch: int = -1,
        heard: Heard | None = None,
    ) -> None:
        """A follower has everything below ``end_offset``; the high watermark may move, the ISR may grow.

        NOT_LEADER_OR_FOLLOWER for a broker that has no replica.
        """
        follower = self._followers.get(replica)
        if follower is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        follower.fetched(end_offset, start_offset, log.log_end_offset, broker_epoch, self._now_ms(), heard)
        self._advance()
        if replica not in self.isr and self._pending_isr is None and self._has_caught_up(follower):
            self._ask_for((*self.isr, replica))

    def follower_epoch(self, replica: int) -> int:
        """The broker epoch that a follower last fetched with; -1 if it has not."""
        follower = self._followers.get(replica)
        return -1 if follower is None else follower.broker_epoch

    def in_sync_followers(self) -> list[tuple[int, Follower]]:
        """The leader's followers that are in sync, as far as it knows of each."""
        return [(each, self._followers[each]) for each in self.isr if each in self._followers]

    def _has_caught_up(self, follower: Follower) -> bool:
        """Whether a follower has all that is committed, and whatever this leader began with."""
        return follower.end_offset >= max(self.log.high_watermark, self._epoch_start)

    def drop_laggards(self, lag_max_ms: int) -> None:
        """Ask for an ISR without those that have not kept up for `replica.lag.time.max.ms`."""
        if self._failure is not None or self._pending_isr is not None or len(self.isr) < 2:
            return
        now_ms, end = self._now_ms(), self.log.log_end_offset
        kept = tuple(
            each
            for each in self.isr
            if each == self._broker_id or self._followers[each].keeps_up(end, now_ms, lag_max_ms)
        )
        if kept != self.isr:
            self._ask_for(kept)

    def _ask_for(self, isr: tuple[int, ...]) -> None:
        self._pending_isr = tuple(each for each in self.replicas if each in isr)
        self._count_in_sync()
        self._propose(self, self._pending_isr)

    def isr_refused(self) -> None:
        """The ISR that was asked for will not come true: from now on it can be asked for anew."""
        if self._pending_isr is not None:
            self._pending_isr = None
            self._count_in_sync()
            if self._failure is None:
                self._advance()

    # Following a leader

    @property
    def following(self) -> bool:
        """Whether this broker's replica has another leader to follow, and a disk that works."""
        return (
            self._failure == ErrorCode.NOT_LEADER_OR_FOLLOWER
            and self.leader not in (-1, self._broker_id)
            and self._broker_id in self.replicas
        )

    def append_fetched(self, records: bytes | memoryview, high_watermark: int, leader_start: int) -> int:
        """What the leader sent: batches (perhaps none), its high watermark and log start. Returns the new end.

        KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE (it does not follow the end), KAFKA_STORAGE_ERROR.
        """
        log = self.log
        try:
            if len(records):
                self._begin_inside(records)
                log.append_as_follower(records)
            moved = log.advance_high_watermark(min(high_watermark, log.log_end_offset))
            if leader_start > log.log_start_offset:
                self._follow_start(leader_start)
        except KafkaError as error:
            if _is_lasting(error):
                self.fail()
            raise
        if moved:
            self._announce()
        return log.log_end_offset

    def _begin_inside(self, records: bytes | memoryview) -> None:
        """An empty log whose first batch began before what was asked for (the leader's log starts inside it)."""
        log = self.log
        if log.log_start_offset < log.log_end_offset or len(records) < HEADER_SIZE:
            return
        header = parse_header(records)
        if header.base_offset < log.log_end_offset <= header.last_offset:
            self.start_anew_at(header.base_offset)

    def _follow_start(self, leader_start: int) -> None:
        log = self.log
        if leader_start > log.log_end_offset:
            self.start_anew_at(leader_start)
        else:
            log.advance_log_start_offset(leader_start)
            log.delete_old_segments()

    def truncate_to(self, offset: int) -> None:
        """Drop what the leader does not have. KAFKA_STORAGE_ERROR."""
        self._cut(self.log.truncate_to, offset)

    def start_anew_at(self, offset: int) -> None:
        """Drop everything: the leader begins behind this log's end. KAFKA_STORAGE_ERROR."""
        self._cut(self.log.start_anew_at, offset)

    def _cut(self, cut: Callable[[int], None], offset: int) -> None:
        try:
            cut(offset)
        except KafkaError as error:
            if _is_lasting(error):
                self.fail()
            raise

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
        for follower in self._in_sync:
            yield follower.end_offset

    def _advance(self) -> None:
        """Move the high watermark to where the in-sync replicas are; never back."""
        log = self.log
        if not self._may_commit:
            return
        if self._in_sync or self._unflushed:
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
        self._in_sync = ()
        self._pending_isr = None
        self._unflushed = {}
        waiters, self._waiters = self._waiters, []
        for _, _, future in sorted(waiters):
            fail(future, KafkaError(code))
        self._announce()

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

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

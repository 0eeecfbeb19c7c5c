"""`Partition`: one replica on this broker, with leadership, high watermark, ISR, and the requests that wait.

`append` is synchronous: it checks the leadership, appends to the log, advances the high watermark, and calls the
listeners in a later turn of the loop, so that the producer's response is sent first. The high watermark is the lowest
log end offset of the in-sync replicas; if this broker is the only one, it is the end of its own log, or less while
`flush.messages` waits for the disk. It does not advance while fewer than `min.insync.replicas` replicas are in sync
(KIP-966). It waits for the *maximal* ISR: a replica counts as soon as the leader proposes to add it, because the store
may have accepted the change long before the image here shows it.

A follower's log grows by what its fetcher receives (`append_fetched`), is truncated where it diverges from the
leader's, and takes over the leader's high watermark.

Nothing here polls: a request that waits for a commit is a future in a heap, and one that waits for data is a listener.

What lives elsewhere: bytes and offsets (`kwire.log`), partitions and leaders in the metadata (`replica_manager`,
`image`), writing ISR changes to the store (`isr_writer`), fetching (`replication.fetcher`), the requests
(`kwire.handlers`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import fail
from kwire.cluster.metadata.image import INTERNAL_TOPICS
from kwire.cluster.replication.followers import Follower, LastFetch
from kwire.cluster.store.keys import PartitionState
from kwire.codec.records import HEADER_SIZE, parse_header
from kwire.log.common.append_info import AppendInfo, FetchedData, Origin
from kwire.log.state.producer_state import NOT_REQUIRED, VerificationGuard

if TYPE_CHECKING:
    from kwire.base.metrics import TopicMetrics
    from kwire.log.partition.partition_log import PartitionLog

ACKS_ALL = -1

ProposeIsr = Callable[["Partition", "tuple[int, ...]"], None]
"""(partition, ISR): propose an ISR to the cluster. The decision comes back by `Partition.update` or `isr_refused`."""


class Partition:
    """A replica on this broker.

    ``leader_epoch``, ``isr`` and ``replicas`` are the cluster's decision (`update`); ``log`` is the local log. Methods
    for leaders raise NOT_LEADER_OR_FOLLOWER on other replicas, and KAFKA_STORAGE_ERROR if the disk failed.
    """

    __slots__ = (
        "_broker_id",
        "_epoch_start",
        "_failure",
        "_followers",
        "_in_sync",
        "_isr_proposer",
        "_listeners",
        "_may_commit",
        "_min_isr",
        "_notifying",
        "_pending_isr",
        "_unflushed",
        "_waiters",
        "_waiters_added",
        "index",
        "internal",
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

    def __init__(self, broker_id: int, log: PartitionLog, metrics: TopicMetrics, propose_isr: ProposeIsr) -> None:
        self._broker_id = broker_id
        self._isr_proposer = propose_isr
        self.metrics = metrics
        self.log = log
        self.topic: str = log.topic
        self.internal = log.topic in INTERNAL_TOPICS
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
        self._in_sync: tuple[Follower, ...] = ()  # the remote part of the maximal ISR
        self._pending_isr: tuple[int, ...] | None = None  # proposed, not yet decided
        self._may_commit = True
        self._epoch_start = 0
        self._unflushed: dict[asyncio.Future[None], int] = {}  # first offset by the sync that covers it
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waiters_added = 0  # orders waiters for the same offset
        self._listeners: dict[Callable[[], None], None] = {}
        self._notifying = False

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index}, leader={self.leader}, epoch={self.leader_epoch})"

    # -- cluster decisions ---------------------------------------------------------------------------------------------

    def update(self, state: PartitionState) -> bool:
        """Apply the cluster's decision; returns whether the leader epoch changed. An older state is ignored."""
        if state.partition_epoch <= self.partition_epoch:
            return False
        changed = state.leader_epoch != self.leader_epoch
        self.leader, self.leader_epoch, self.partition_epoch = state.leader, state.leader_epoch, state.partition_epoch
        self.replicas, self.isr = state.replicas, state.isr
        self._pending_isr = None
        if state.leader != self._broker_id:
            self._stop_serving(ErrorCode.NOT_LEADER_OR_FOLLOWER)
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
        self._update_maximal_isr()
        self._advance()
        self._notify_soon()
        return changed

    def _update_maximal_isr(self) -> None:
        """Recompute the maximal ISR: the replicas that must have the data before it is committed."""
        members = dict.fromkeys((*self.isr, *(self._pending_isr or ())))
        self._in_sync = tuple(self._followers[each] for each in members if each in self._followers)
        self._may_commit = len(self.isr) >= self.effective_min_isr

    def _begin_epoch(self) -> bool:
        try:
            self._epoch_start = self.log.log_end_offset
            self.log.begin_leader_epoch(self.leader_epoch)
            flushed = self.log.flush_if_due()
            if flushed is not None:  # records from the time as a follower
                self._wait_for_flush(self.log.recovery_point, flushed)
        except (OSError, KafkaError):
            self.fail()
            return False
        return True

    def replace_log(self, log: PartitionLog) -> None:
        """Continue with the log in another log directory; it has the same records, all of them synced."""
        self.log = log
        self._unflushed = {}
        if self._failure is None:
            self._advance()
        self._notify_soon()

    def set_min_isr(self, replicas: int) -> None:
        """Set `min.insync.replicas` of the topic."""
        self._min_isr = replicas
        self._may_commit = len(self.isr) >= self.effective_min_isr
        if self._failure is None and self.replicas:
            self._advance()

    @property
    def leading(self) -> bool:
        """Whether this broker leads the partition and its log directory works."""
        return self._failure is None

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, at most the number of replicas."""
        return min(self._min_isr, len(self.replicas))

    def fail(self) -> None:
        """The log directory failed: from now on every request gets KAFKA_STORAGE_ERROR."""
        self._stop_serving(ErrorCode.KAFKA_STORAGE_ERROR)

    def fence(self) -> None:
        """This broker lost its registration: it neither leads nor follows the partition until the next `update`."""
        self.leader = self.leader_epoch = self.partition_epoch = -1
        self._stop_serving(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def remove(self) -> None:
        """This broker no longer has the replica (topic deleted, replica reassigned)."""
        self._stop_serving(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def require_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise unless this broker leads the partition in the leader epoch that the client has (KIP-320).

        ``current_leader_epoch`` is -1 for a client that sends none. FENCED_LEADER_EPOCH: the client's metadata is
        older than this broker's; UNKNOWN_LEADER_EPOCH: it is newer.
        """
        if self._failure is not None:
            if self._failure == ErrorCode.NOT_LEADER_OR_FOLLOWER and self.leader_epoch >= 0:
                self._check_epoch(current_leader_epoch)  # checked first, as in Kafka
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

    # -- offsets -------------------------------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are committed (exclusive)."""
        return self.log.high_watermark

    @property
    def high_watermark_lags(self) -> bool:
        """Whether earlier leaders may have committed records above this leader's high watermark."""
        return self.log.high_watermark < self._epoch_start

    @property
    def last_stable_offset(self) -> int:
        """The offset below which no transaction is open (exclusive); never above the high watermark."""
        return self.log.last_stable_offset

    @property
    def log_start_offset(self) -> int:
        """The first offset of the log."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record to be appended."""
        return self.log.log_end_offset

    # -- reading and writing -------------------------------------------------------------------------------------------

    def append(
        self,
        records: memoryview,
        *,
        required_acks: int,
        origin: Origin = Origin.CLIENT,
        guard: VerificationGuard | None = NOT_REQUIRED,
    ) -> AppendInfo:
        """Append whole batches; the log assigns the offsets. KafkaError if leader, ISR or log refuse them.

        ``guard`` is that of the transaction verification (KIP-890). With acks=all (-1) the append
        needs `min.insync.replicas`, and the response must wait for `wait_committed(info.last_offset)`.
        """
        if self._failure is not None:
            raise KafkaError(self._failure)
        if required_acks == ACKS_ALL and len(self.isr) < self._min_isr:
            self._require_enough_replicas()
        try:
            info = self.log.append_as_leader(records, leader_epoch=self.leader_epoch, origin=origin, guard=guard)
        except KafkaError as error:
            if _is_lasting(error):
                self.fail()
            raise
        if info.flushed is not None:
            self._wait_for_flush(info.first_offset, info.flushed)
        if not info.duplicate:
            metrics = self.metrics
            metrics.bytes_in += info.size
            metrics.messages_in += info.last_offset - info.first_offset + 1
        self._advance()
        if self._listeners:
            self._notify_soon()
        return info

    def append_together(self, batches: list[memoryview]) -> list[AppendInfo | Exception]:
        """Append the batches of several Produce requests, one each, with as few writes as possible. Of each its outcome
        or its error: see `append`. Not if acks=all might be refused (`appends_freely`)."""
        results = self.log.append_together(batches, leader_epoch=self.leader_epoch)
        bytes_in = messages_in = 0
        for info in results:
            if isinstance(info, Exception):
                if isinstance(info, KafkaError) and _is_lasting(info):
                    self.fail()
                continue
            if info.flushed is not None:
                self._wait_for_flush(info.first_offset, info.flushed)
            if not info.duplicate:
                bytes_in += info.size
                messages_in += info.last_offset - info.first_offset + 1
        self.metrics.bytes_in += bytes_in
        self.metrics.messages_in += messages_in
        if self._failure is None:
            self._advance()
        self._notify_soon()
        return results

    @property
    def appends_freely(self) -> bool:
        """Whether this broker leads the partition, with enough in-sync replicas for every append."""
        return self._failure is None and len(self.isr) >= self._min_isr

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
        """Batches from an offset on, up to the high watermark; ``committed_only`` (isolation level read_committed): up
        to the last stable offset; ``to_end`` (a follower fetches): up to the log end. ``from_follower``: see
        `require_replica`. OFFSET_OUT_OF_RANGE outside the log; no data from the limit to the log end."""
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
            return log.read(offset, max_bytes, upto=upto, min_one=min_one, on_verified=self._notify_soon)
        except KafkaError as error:
            if _is_lasting(error):
                self.fail()
            raise

    def wait_committed(self, offset: int) -> asyncio.Future[None] | None:
        """A future that ends when the record at ``offset`` is committed; None if it already is.

        It fails with NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR or UNKNOWN_TOPIC_OR_PARTITION if this broker stops
        leading the partition first.
        """
        if offset < self.log.high_watermark:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            fail(future, KafkaError(self._failure))
        else:
            self._waiters_added += 1
            heapq.heappush(self._waiters, (offset, self._waiters_added, future))
        return future

    def delete_records_before(self, offset: int) -> None:
        """Delete the records below an offset; followers learn of it with their next fetch. KafkaError if this broker
        does not lead, or OFFSET_OUT_OF_RANGE."""
        self.require_leader()
        self.log.delete_records_before(offset)
        self._notify_soon()

    def low_watermark(self, live: Container[int]) -> int:
        """The lowest log start offset of the replicas on ``live`` brokers; -1 if one has not told it yet."""
        others = (follower.start_offset for replica, follower in self._followers.items() if replica in live)
        return min((self.log.log_start_offset, *others))

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after every append, advance of the high watermark, deletion of records here or at a
        follower, and loss of leadership, until `off_change`; changes in the same turn of the loop cause one call."""
        self._listeners[callback] = None

    def off_change(self, callback: Callable[[], None]) -> None:
        """Undo `on_change`; no error if there is no such listener."""
        self._listeners.pop(callback, None)

    # -- in-sync replicas (leader) -------------------------------------------------------------------------------------

    def follower_at(
        self,
        replica: int,
        end_offset: int,
        *,
        start_offset: int = 0,
        broker_epoch: int = -1,
        last_fetch: LastFetch | None = None,
    ) -> None:
        """A follower fetched at ``end_offset``, so it has everything below: advance the high watermark, and propose a
        larger ISR if it has caught up.

        ``last_fetch``: see `Follower.fetched`. NOT_LEADER_OR_FOLLOWER for a broker that has no replica.
        """
        follower = self._followers.get(replica)
        if follower is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        if start_offset != follower.start_offset:
            self._notify_soon()
        follower.fetched(end_offset, start_offset, log.log_end_offset, broker_epoch, self._now_ms(), last_fetch)
        self._advance()
        if replica not in self.isr and self._pending_isr is None and self._has_caught_up(follower):
            self._propose_isr((*self.isr, replica))

    def follower_epoch(self, replica: int) -> int:
        """The broker epoch of a follower's last fetch; -1 if it has not fetched."""
        follower = self._followers.get(replica)
        return -1 if follower is None else follower.broker_epoch

    def in_sync_followers(self) -> list[tuple[int, Follower]]:
        """The in-sync followers, by broker id."""
        return [(each, self._followers[each]) for each in self.isr if each in self._followers]

    def _has_caught_up(self, follower: Follower) -> bool:
        """Whether a follower may join the ISR: it has reached the high watermark and the start of the leader epoch."""
        return follower.end_offset >= max(self.log.high_watermark, self._epoch_start)

    def shrink_isr(self, lag_max_ms: int) -> None:
        """Propose an ISR without the followers that have not caught up for `replica.lag.time.max.ms`."""
        if self._failure is not None or self._pending_isr is not None or len(self.isr) < 2:
            return
        now_ms, end = self._now_ms(), self.log.log_end_offset
        kept = tuple(
            each
            for each in self.isr
            if each == self._broker_id or self._followers[each].keeps_up(end, now_ms, lag_max_ms)
        )
        if kept != self.isr:
            self._propose_isr(kept)

    def _propose_isr(self, isr: tuple[int, ...]) -> None:
        self._pending_isr = tuple(each for each in self.replicas if each in isr)
        self._update_maximal_isr()
        self._isr_proposer(self, self._pending_isr)

    def isr_refused(self) -> None:
        """The cluster refused the proposed ISR; another one can be proposed now."""
        if self._pending_isr is not None:
            self._pending_isr = None
            self._update_maximal_isr()
            if self._failure is None:
                self._advance()

    # -- following a leader (follower) ---------------------------------------------------------------------------------

    @property
    def following(self) -> bool:
        """Whether this replica has another broker to follow, and its log directory works."""
        return (
            self._failure == ErrorCode.NOT_LEADER_OR_FOLLOWER
            and self.leader not in (-1, self._broker_id)
            and self._broker_id in self.replicas
        )

    def append_fetched(self, records: bytes | memoryview, high_watermark: int, leader_start: int) -> int:
        """Append batches (perhaps none) from the leader, with its high watermark and log start; returns the log end.

        KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE (the batches do not continue the log), KAFKA_STORAGE_ERROR.
        """
        log = self.log
        try:
            if len(records):
                self._accept_earlier_first_batch(records)
                log.append_as_follower(records)
            moved = log.advance_high_watermark(min(high_watermark, log.log_end_offset))
            if leader_start > log.log_start_offset:
                self._follow_leader_start(leader_start)
        except KafkaError as error:
            if _is_lasting(error):
                self.fail()
            raise
        if moved:
            self._notify_soon()
        return log.log_end_offset

    def _accept_earlier_first_batch(self, records: bytes | memoryview) -> None:
        """Accept a first batch that begins before the requested offset, because the leader's log starts inside it."""
        log = self.log
        if log.log_start_offset < log.log_end_offset or len(records) < HEADER_SIZE:
            return
        header = parse_header(records)
        if header.base_offset < log.log_end_offset <= header.last_offset:
            self.truncate_fully_and_start_at(header.base_offset)

    def _follow_leader_start(self, leader_start: int) -> None:
        log = self.log
        if leader_start > log.log_end_offset:
            self.truncate_fully_and_start_at(leader_start)
        else:
            log.advance_log_start_offset(leader_start)
            log.delete_old_segments()

    def truncate_to(self, offset: int) -> None:
        """Drop the records from ``offset`` on, which the leader does not have. KAFKA_STORAGE_ERROR."""
        self._truncate(self.log.truncate_to, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records and continue at ``offset``: the leader's log starts there. KAFKA_STORAGE_ERROR."""
        self._truncate(self.log.truncate_fully_and_start_at, offset)

    def _truncate(self, truncate: Callable[[int], None], offset: int) -> None:
        try:
            truncate(offset)
        except KafkaError as error:
            if _is_lasting(error):
                self.fail()
            raise

    # -- internals -----------------------------------------------------------------------------------------------------

    def _require_enough_replicas(self) -> None:
        if len(self.isr) < self.effective_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(self.isr)} in-sync replicas, {self.effective_min_isr} needed"
            )

    def _wait_for_flush(self, first_offset: int, flushed: asyncio.Future[None]) -> None:
        """Commit nothing from this offset on before the sync has ended. One sync can cover several appends."""
        if not flushed.done() and flushed not in self._unflushed:
            self._unflushed[flushed] = first_offset
            flushed.add_done_callback(self._on_flushed)

    def _committable(self) -> Iterable[int]:
        """The log end offsets of the maximal ISR, this broker's first."""
        yield next(iter(self._unflushed.values()), self.log.log_end_offset)
        for follower in self._in_sync:
            yield follower.end_offset

    def _advance(self) -> None:
        """Advance the high watermark to the lowest log end offset of the maximal ISR; it never goes back."""
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
        if self._listeners:
            self._notify_soon()

    def _on_flushed(self, flushed: asyncio.Future[None]) -> None:
        if flushed not in self._unflushed:
            return
        error = None if flushed.cancelled() else flushed.exception()
        if flushed.cancelled() or (error is not None and _is_lasting(error)):
            self.fail()
            return
        if error is not None:
            return  # the next successful sync covers these records, too
        # Syncs may end out of order; each one covers everything that was written before it began.
        for future in list(self._unflushed):
            del self._unflushed[future]
            if future is flushed:
                break
        if self._failure is None:
            self._advance()

    def _stop_serving(self, code: ErrorCode) -> None:
        if self._failure != ErrorCode.KAFKA_STORAGE_ERROR or code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._failure = code
        self._followers = {}
        self._in_sync = ()
        self._pending_isr = None
        self._unflushed = {}
        waiters, self._waiters = self._waiters, []
        for _, _, future in sorted(waiters):
            fail(future, KafkaError(code))
        self._notify_soon()

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _notify_soon(self) -> None:
        if self._listeners and not self._notifying:
            self._notifying = True
            asyncio.get_running_loop().call_soon(self._notify)

    def _notify(self) -> None:
        self._notifying = False
        for callback in list(self._listeners):
            callback()


def _is_lasting(error: BaseException) -> bool:
    """Whether an error takes the partition offline: the disk failed, and is not just full."""
    if isinstance(error, KafkaError) and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
        return False
    return not getattr(error, "transient", False)

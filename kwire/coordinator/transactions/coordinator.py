"""The transaction coordinator that handlers call: finds the shard of a transactional id and runs operations on it.

Every operation returns its response, or a future of the response if records have to be committed first. It raises
KafkaError if the coordinator cannot serve the request: COORDINATOR_NOT_AVAILABLE (the broker shuts down),
NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS. The operations themselves are in `transactions.shard`.

The coordinator also completes transactions whose Prepare record is committed. It writes the markers to all partitions
(`transactions.markers`) and, when those are committed, the Complete record. Both are retried until they succeed, if
necessary by the next leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.base.logging import get_logger
from kwire.base.topic_partition import TopicPartition
from kwire.cluster.metadata.features import TRANSACTION_VERSION
from kwire.cluster.metadata.image import TRANSACTIONS_TOPIC
from kwire.coordinator.runtime.java_hash import partition_for
from kwire.coordinator.runtime.machine import Instant, Result
from kwire.coordinator.runtime.runtime import LogSettings, Phase, Runtime
from kwire.coordinator.transactions.markers import MarkerWriter, OffsetMarkers, committed
from kwire.coordinator.transactions.producer_ids import ProducerIds
from kwire.coordinator.transactions.records import NONE, Transaction, TransactionState
from kwire.coordinator.transactions.remote_markers import Marker, RemoteMarkers
from kwire.coordinator.transactions.shard import NoProducerId, Outcome, Producer, TransactionShard

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.metadata.image import MetadataCache
    from kwire.cluster.replication.partition import Partition
    from kwire.cluster.replication.peers import Peers
    from kwire.cluster.replication.replica_manager import ReplicaManager

A = TypeVar("A")

RETRY_S: Final = 0.1
"""The time between two attempts to complete a transaction."""

DUMPED: Final = 20
"""The maximum number of partitions per transaction in a diagnostic dump."""

ENDED_PER_TURN: Final = 10
"""Transactions that are aborted, or ids that are deleted, in one turn of the event loop: a millisecond or two."""

_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_log = get_logger("kwire.coordinator")


class TransactionCoordinator:
    """The transactional ids that this broker coordinates. All methods run on the event loop."""

    def __init__(
        self,
        doors: Doors,
        config: KafkaConfig,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        groups: OffsetMarkers,
        allocate: Callable[[], Awaitable[range]],
        peers: Peers,
    ) -> None:
        self._doors = doors
        self._config = config
        self._replicas = replicas
        self._metadata = metadata
        self.producer_ids = ProducerIds(allocate)
        self.markers = MarkerWriter(doors, replicas, groups, RemoteMarkers(peers, metadata, config.node_id))
        self._runtimes: dict[int, Runtime[TransactionShard]] = {}
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._timers: dict[str, asyncio.Handle] = {}
        self._load_times_ms: list[int] = []
        self._retrying: dict[_Ending, None] = {}
        self._open = False

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Coordinate the partitions that this broker leads, now and later. Returns when the present ones are loaded."""
        self._open = True
        self._replicas.on_leadership(TRANSACTIONS_TOPIC, self._on_leadership)
        self._repeat("time-outs", self._time_out_s, self._abort_timed_out)
        self._repeat("expiry", self._expiry_s, self._expire)
        loading = [task for task in self._tasks if task.get_name().startswith("load")]
        await asyncio.gather(*loading)

    async def close(self) -> None:
        """Accept no more operations. The next leader completes prepared transactions after it has loaded the log."""
        self._open = False
        for timer in self._timers.values():
            timer.cancel()
        for runtime in self._runtimes.values():
            runtime.end()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_leadership(self, index: int, partition: Partition | None) -> None:
        former = self._runtimes.pop(index, None)
        if former is not None:
            former.end()
        for task, its_index in list(self._tasks.items()):
            if its_index == index:
                task.cancel()
        if partition is None or not self._open:
            return
        shard = TransactionShard(self._config, self._take_id, self.level)
        runtime = self._runtimes[index] = Runtime(shard, partition, self._doors, LogSettings())
        if runtime.is_empty_log:
            runtime.begin()
        else:
            self._spawn(self._load(runtime), index, f"load {TRANSACTIONS_TOPIC}-{index}")

    async def _load(self, runtime: Runtime[TransactionShard]) -> None:
        clock = self._doors.clock
        started_s = clock.monotonic()
        await runtime.load()
        self._load_times_ms.append(int((clock.monotonic() - started_s) * 1000))
        self._go_on(runtime)

    def _spawn(self, work: Any, index: int, name: str) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = index
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def level(self) -> int:
        """The finalized `transaction.version`."""
        return self._metadata.image.features.get(TRANSACTION_VERSION, 0)

    def _take_id(self) -> int:
        producer_id = self.producer_ids.take()
        if producer_id is None:
            raise NoProducerId
        return producer_id

    # -- finding the shard ---------------------------------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int | None:
        """The partition of `TRANSACTIONS_TOPIC` that an id belongs to, or None if the topic does not exist."""
        topic = self._metadata.image.topics.get(TRANSACTIONS_TOPIC)
        return None if topic is None else partition_for(transactional_id, len(topic.partitions))

    def _perform(
        self, transactional_id: str, operation: Callable[[TransactionShard, Instant], Result[A]]
    ) -> A | asyncio.Future[A]:
        if not self._open:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        index = self.partition_of(transactional_id)
        runtime = None if index is None else self._runtimes.get(index)
        if runtime is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        response = runtime.perform(partial(operation, runtime.shard))
        if runtime.shard.unfinished:
            self._go_on(runtime)
        return response

    async def _perform_with_id(
        self, transactional_id: str, operation: Callable[[TransactionShard, Instant], Result[A]]
    ) -> A:
        """Run an operation after getting a new block of producer ids."""
        while True:
            try:
                await self.producer_ids.refill()
            except KafkaError:  # no controller or no metadata store: the producer retries
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from None
            try:
                response = self._perform(transactional_id, operation)
            except NoProducerId:
                continue
            return await resolved(response)

    def _perform_or_wait(
        self, transactional_id: str, operation: Callable[[TransactionShard, Instant], Result[A]]
    ) -> A | Awaitable[A]:
        try:
            return self._perform(transactional_id, operation)
        except NoProducerId:
            return self._perform_with_id(transactional_id, operation)

    # -- operations ----------------------------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None
    ) -> Outcome | Awaitable[Outcome]:
        """InitProducerId with a transactional id and a valid timeout."""
        return self._perform_or_wait(
            transactional_id, lambda shard, now: shard.init(transactional_id, timeout_ms, expected, now)
        )

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], client_version: int
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Add partitions to the transaction, which begins with the first ones."""
        return self._perform(
            transactional_id,
            lambda shard, now: shard.add_partitions(transactional_id, producer, partitions, client_version, now),
        )

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode] | asyncio.Future[dict[TopicPartition, ErrorCode]]:
        """Whether partitions are part of the ongoing transaction: an error per partition."""
        return self._perform(transactional_id, lambda shard, _: shard.verify(transactional_id, producer, partitions))

    def end(
        self, transactional_id: str, producer: Producer, *, commit: bool, client_version: int
    ) -> Outcome | Awaitable[Outcome]:
        """EndTxn."""
        return self._perform_or_wait(
            transactional_id,
            lambda shard, now: shard.end(
                transactional_id, producer, commit=commit, client_version=client_version, now=now
            ),
        )

    # -- describe and list ---------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Transaction | None:
        """The state of an id, or None if it does not exist. Raises KafkaError."""
        if not self._open:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        index = self.partition_of(transactional_id)
        runtime = None if index is None else self._runtimes.get(index)
        if runtime is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if runtime.phase is not Phase.ACTIVE:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return runtime.shard.find(transactional_id)

    def transactions(self) -> Iterator[Transaction]:
        """All ids that this broker coordinates. Raises COORDINATOR_LOAD_IN_PROGRESS while one of its shards is being
        loaded."""
        if not self._open:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        runtimes = [self._runtimes[index] for index in sorted(self._runtimes)]
        if any(runtime.phase is Phase.LOADING for runtime in runtimes):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for runtime in runtimes:
            if runtime.phase is Phase.ACTIVE:
                yield from runtime.shard

    # -- completing transactions ---------------------------------------------------------------------------------------

    def _go_on(self, runtime: Runtime[TransactionShard]) -> None:
        """Complete the prepared transactions once their Prepare records are committed, at once if possible."""
        prepared = runtime.shard.take_unfinished()
        if not prepared or runtime.phase is not Phase.ACTIVE:
            return
        barrier = runtime.barrier()
        for transaction in prepared:
            ending = _Ending(transaction, runtime.partition.leader_epoch)
            if barrier is not None or not self._try_to_end(runtime, ending):
                name = f"end {transaction.transactional_id}"
                self._spawn(self._end(runtime, ending, barrier), runtime.partition.index, name)

    def _try_to_end(self, runtime: Runtime[TransactionShard], ending: _Ending) -> bool:
        """Write the markers and the Complete record at once. Returns False if a commit is not complete yet or an
        attempt has failed."""
        ending.take(*self.markers.write(ending.marker, ending.left))
        return not ending.left and not ending.commits and (ending.fenced or self._complete(runtime, ending))

    async def _end(
        self, runtime: Runtime[TransactionShard], ending: _Ending, barrier: asyncio.Future[None] | None
    ) -> None:
        """Complete a transaction with waiting and retries. Gives up when this broker no longer leads the partition: the
        next leader continues."""
        if barrier is not None:
            await asyncio.wait([barrier])
            if barrier.exception() is not None:
                return
        try:
            await self._persist(runtime, ending)
        finally:
            self._retrying.pop(ending, None)

    async def _persist(self, runtime: Runtime[TransactionShard], ending: _Ending) -> None:
        while runtime.phase is Phase.ACTIVE:
            ending.commits_are_over(await committed(ending.commits))
            if not ending.left and (ending.fenced or self._complete(runtime, ending)):
                return
            if ending.written:
                self._retrying[ending] = None
                await asyncio.sleep(RETRY_S)
            ending.take(*self.markers.write(ending.marker, ending.left))

    def _complete(self, runtime: Runtime[TransactionShard], ending: _Ending) -> bool:
        producer = Producer(ending.marker.producer_id, ending.marker.producer_epoch)
        try:
            runtime.perform(lambda now: runtime.shard.complete(ending.transactional_id, producer, now))
        except KafkaError as error:
            _log.warning(
                "transaction cannot be completed yet", transactional_id=ending.transactional_id, error=str(error)
            )
            return False
        return True

    # -- timers --------------------------------------------------------------------------------------------------------

    def _time_out_s(self) -> float:
        return self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000

    def _expiry_s(self) -> float:
        return self._config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000

    def _repeat(self, name: str, interval_s: Callable[[], float], work: Callable[[], Iterator[None]]) -> None:
        """Do work in steps, again and again, ``interval_s`` after its end."""
        loop = asyncio.get_running_loop()

        def begin() -> None:
            go_on(work())

        def go_on(steps: Iterator[None]) -> None:
            for _ in steps:
                self._timers[name] = loop.call_soon(go_on, steps)
                return
            if self._open:
                self._timers[name] = loop.call_later(interval_s(), begin)

        self._timers[name] = loop.call_later(interval_s(), begin)

    def _abort_timed_out(self) -> Iterator[None]:
        for runtime in list(self._runtimes.values()):
            while self._abort_some(runtime):
                yield

    def _abort_some(self, runtime: Runtime[TransactionShard]) -> int:
        """Abort transactions of one partition that have timed out; how many."""
        aborted = 0
        try:
            aborted = runtime.perform_in_parts(partial(runtime.shard.abort_timed_out, limit=ENDED_PER_TURN))
        except NoProducerId:
            self._spawn(self._refill(), runtime.partition.index, "producer ids")
        self._go_on(runtime)
        return aborted

    async def _refill(self) -> None:
        try:
            await self.producer_ids.refill()
        except KafkaError as error:
            _log.warning("no producer ids", error=str(error))

    def _expire(self) -> Iterator[None]:
        for runtime in list(self._runtimes.values()):
            while runtime.perform_in_parts(partial(runtime.shard.expire, limit=ENDED_PER_TURN)):
                yield

    # -- metrics -------------------------------------------------------------------------------------------------------

    def add_metrics(self, metrics: MetricsRegistry) -> None:
        """Register Kafka's metrics of the transaction coordinator. Values are computed when a metric is read. Load
        times cover the time since start-up; Kafka's cover the last 30 s."""
        channel = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
        metrics.gauge(channel + "UnknownDestinationQueueSize", lambda: sum(len(one.left) for one in self._retrying))
        metrics.gauge(channel + "LogAppendRetryQueueSize", self._waiting_for_completion)
        server, times = "kafka.server:type=transaction-coordinator-metrics,name=", self._load_times_ms
        metrics.gauge(server + "partition-load-time-max", lambda: max(times, default=0))
        metrics.gauge(server + "partition-load-time-avg", lambda: sum(times) / len(times) if times else 0)

    def _waiting_for_completion(self) -> int:
        """The number of transactions with all markers written whose Complete record could not be appended."""
        return sum(not ending.left and not ending.commits for ending in self._retrying)

    # -- diagnostic dump -----------------------------------------------------------------------------------------------

    def dump(self) -> Iterator[dict[str, Any]]:
        """A summary of each transactional id, for the diagnostic dump on SIGUSR1."""
        now_ms = self._doors.clock.time_ms()
        for index in sorted(self._runtimes):
            for one in self._runtimes[index].shard:
                yield {
                    "transactional_id": one.transactional_id,
                    "state": one.state.text,
                    "producer_id": one.producer_id,
                    "producer_epoch": one.producer_epoch,
                    "version": one.client_version,
                    "partitions": [f"{topic}-{number}" for topic, number in list(one.partitions)[:DUMPED]],
                    "partitions_in_all": len(one.partitions),
                    "running_ms": now_ms - one.start_ms if one.partitions else 0,
                    "timeout_ms": one.timeout_ms,
                    "partition": index,
                }


class _Ending:
    """One prepared transaction that is being completed. ``left``: the partitions that still need the marker;
    ``commits``: those that have it, not committed yet; ``fenced``: a newer coordinator or producer has refused the
    marker."""

    __slots__ = ("commits", "fenced", "left", "marker", "transactional_id", "written")

    def __init__(self, transaction: Transaction, coordinator_epoch: int) -> None:
        self.transactional_id = transaction.transactional_id
        self.marker = Marker(
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch,
            transaction.client_version,
        )
        self.left: dict[TopicPartition, None] = dict(transaction.partitions)
        self.commits: dict[TopicPartition, asyncio.Future[None]] = {}
        self.fenced = False
        self.written = False

    def take(
        self, errors: dict[TopicPartition, ErrorCode], commits: dict[TopicPartition, asyncio.Future[None]]
    ) -> None:
        """Take over the outcome of an attempt."""
        self.written = True
        self.commits = commits
        for partition, error in errors.items():
            self._settle(partition, error)

    def commits_are_over(self, errors: dict[TopicPartition, ErrorCode]) -> None:
        """Take over the outcome of the commits. A marker that was not committed is written again: the partition has a
        new leader."""
        self.commits = {}
        for partition, error in errors.items():
            if error is not ErrorCode.NONE and error not in _GONE:
                self.left[partition] = None
                self._settle(partition, error)
                if self.fenced:
                    return

    def _settle(self, partition: TopicPartition, error: ErrorCode) -> None:
        if error is ErrorCode.NONE or error in _GONE:
            self.left.pop(partition, None)
        elif error in _FENCED:
            # A newer coordinator or producer has taken over. As in Kafka, this one writes nothing more.
            _log.warning("marker refused", transactional_id=self.transactional_id, topic=partition[0], error=error.name)
            self.fenced = True
            self.left.clear()


__all__ = ["NONE", "TRANSACTIONS_TOPIC", "Outcome", "Producer", "TransactionCoordinator"]

"""The transaction coordinator that handlers call: finds the shard of a transactional id and runs operations on it.

Every operation returns its answer, or a future of it where it has to wait for a commit, and raises KafkaError where
the coordinator itself cannot serve: COORDINATOR_NOT_AVAILABLE (shutting down), NOT_COORDINATOR,
COORDINATOR_LOAD_IN_PROGRESS. What an operation does is the machine's business (`transaction_shard`).

A transaction whose Prepare record is committed is completed here: markers to all its partitions
(`transaction_markers`), then, when those are committed, the Complete record. Both are tried again until they succeed,
by the next leader, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.metadata.features import TRANSACTION_VERSION
from kwire.coordinator.runtime.java_hash import partition_for
from kwire.coordinator.runtime.machine import Instant, Result
from kwire.coordinator.runtime.runtime import Phase, Runtime
from kwire.coordinator.transactions.markers import MarkerWriter, committed
from kwire.coordinator.transactions.producer_ids import ProducerIds
from kwire.coordinator.transactions.records import NONE, Partition, Transaction, TransactionState
from kwire.coordinator.transactions.remote_markers import Marker, RemoteMarkers
from kwire.coordinator.transactions.shard import NoProducerId, Outcome, Producer, TransactionShard

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.metadata.image import MetadataCache
    from kwire.cluster.replication.partition import Partition as Replica
    from kwire.cluster.replication.peers import Peers
    from kwire.cluster.replication.replica_manager import ReplicaManager
    from kwire.coordinator.groups.coordinator import GroupCoordinator

A = TypeVar("A")

TRANSACTIONS_TOPIC: Final = "__transaction_state"
RETRY_S: Final = 0.1
"""Between two attempts to end a transaction."""

DUMPED: Final = 20
"""So many partitions of a transaction are named in a dump."""

_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_log = get_logger("kwire.coordinator")


class _LogSettings:
    """How `Runtime` writes this log: uncompressed, and answers wait no longer than the producer would."""

    offsets_commit_timeout_ms = 5000
    offsets_topic_compression_codec = 0


class TransactionCoordinator:
    """All transactional ids that this broker coordinates. All methods belong to the event loop."""

    def __init__(
        self,
        doors: Doors,
        config: KafkaConfig,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        groups: GroupCoordinator,
        allocate: Callable[[], Awaitable[range]],
        peers: Peers | None = None,
    ) -> None:
        self._doors = doors
        self._config = config
        self._replicas = replicas
        self._metadata = metadata
        self.producer_ids = ProducerIds(allocate)
        self.markers = MarkerWriter(
            doors, replicas, groups, None if peers is None else RemoteMarkers(peers, metadata, config.node_id)
        )
        self._runtimes: dict[int, Runtime[TransactionShard]] = {}
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._load_times_ms: list[int] = []
        self._retrying: dict[_Ending, None] = {}
        self._open = False

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take over the partitions that this broker leads, now and later; return when the present ones are loaded."""
        self._open = True
        self._replicas.on_leadership(TRANSACTIONS_TOPIC, self._on_leadership)
        self._repeat("time-outs", self._time_out_s, self._abort_timed_out)
        self._repeat("expiry", self._expiry_s, self._expire)
        loading = [task for task in self._tasks if task.get_name().startswith("load")]
        await asyncio.gather(*loading)

    async def close(self) -> None:
        """Take no more operations. Half-ended transactions go on when the next leader has loaded them."""
        self._open = False
        for timer in self._timers.values():
            timer.cancel()
        for runtime in self._runtimes.values():
            runtime.end()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_leadership(self, index: int, replica: Replica | None) -> None:
        former = self._runtimes.pop(index, None)
        if former is not None:
            former.end()
        for task, its_index in list(self._tasks.items()):
            if its_index == index:
                task.cancel()
        if replica is None or not self._open:
            return
        shard = TransactionShard(self._config, self._take_id, self.level)
        runtime = self._runtimes[index] = Runtime(shard, replica, self._doors, _LogSettings())
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
        """The finalised `transaction.version`."""
        return self._metadata.image.features.get(TRANSACTION_VERSION, 0)

    def _take_id(self) -> int:
        producer_id = self.producer_ids.take()
        if producer_id is None:
            raise NoProducerId
        return producer_id

    # --- whose transaction -----------------------------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int | None:
        """The partition of `TRANSACTIONS_TOPIC` that an id belongs to; None while there is no such topic."""
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
        answer = runtime.perform(partial(operation, runtime.shard))
        if runtime.shard.unfinished:
            self._go_on(runtime)
        return answer

    async def _perform_with_id(
        self, transactional_id: str, operation: Callable[[TransactionShard, Instant], Result[A]]
    ) -> A:
        """The same, once there are producer ids again."""
        while True:
            try:
                await self.producer_ids.refill()
            except KafkaError:  # no controller, or no store: this producer shall come again
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from None
            try:
                answer = self._perform(transactional_id, operation)
            except NoProducerId:
                continue
            return await answer if isinstance(answer, asyncio.Future) else answer

    def _perform_or_wait(
        self, transactional_id: str, operation: Callable[[TransactionShard, Instant], Result[A]]
    ) -> A | Awaitable[A]:
        try:
            return self._perform(transactional_id, operation)
        except NoProducerId:
            return self._perform_with_id(transactional_id, operation)

    # --- operations ------------------------------------------------------------------------------------------------

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer | None
    ) -> Outcome | Awaitable[Outcome]:
        """InitProducerId with a transactional id and a valid time-out."""
        return self._perform_or_wait(
            transactional_id, lambda shard, now: shard.init(transactional_id, timeout_ms, expected, now)
        )

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[Partition], client_version: int
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Partitions become part of the transaction; it begins with the first ones."""
        return self._perform(
            transactional_id,
            lambda shard, now: shard.add_partitions(transactional_id, producer, partitions, client_version, now),
        )

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[Partition]
    ) -> dict[Partition, ErrorCode] | asyncio.Future[dict[Partition, ErrorCode]]:
        """Whether partitions are part of the transaction under way."""
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

    # --- for those who look ----------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Transaction | None:
        """The state of an id; None where there is no such id."""
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
        """All ids that this broker coordinates. COORDINATOR_LOAD_IN_PROGRESS while one of its shards is not loaded."""
        if not self._open:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        runtimes = [self._runtimes[index] for index in sorted(self._runtimes)]
        if any(runtime.phase is Phase.LOADING for runtime in runtimes):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for runtime in runtimes:
            if runtime.phase is Phase.ACTIVE:
                yield from runtime.shard

    # --- ending transactions ---------------------------------------------------------------------------------------

    def _go_on(self, runtime: Runtime[TransactionShard]) -> None:
        """End what is prepared, once that is committed; at once where nothing has to be waited for."""
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
        """Markers and Complete record in one go. False where anything of it has to be waited for or tried again."""
        ending.take(*self.markers.write(ending.marker, ending.left))
        return not ending.left and not ending.commits and (ending.fenced or self._complete(runtime, ending))

    async def _end(
        self, runtime: Runtime[TransactionShard], ending: _Ending, barrier: asyncio.Future[None] | None
    ) -> None:
        """The same with patience. Ends early when the leadership does: the next leader goes on."""
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

    # --- time ------------------------------------------------------------------------------------------------------

    def _time_out_s(self) -> float:
        return self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000

    def _expiry_s(self) -> float:
        return self._config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000

    def _repeat(self, name: str, interval_s: Callable[[], float], work: Callable[[], None]) -> None:
        def fire() -> None:
            work()
            if self._open:
                self._timers[name] = asyncio.get_running_loop().call_later(interval_s(), fire)

        self._timers[name] = asyncio.get_running_loop().call_later(interval_s(), fire)

    def _abort_timed_out(self) -> None:
        for runtime in list(self._runtimes.values()):
            try:
                runtime.perform_in_parts(runtime.shard.abort_timed_out)
            except NoProducerId:
                self._spawn(self._refill(), runtime.partition.index, "producer ids")
            self._go_on(runtime)

    async def _refill(self) -> None:
        try:
            await self.producer_ids.refill()
        except KafkaError as error:
            _log.warning("no producer ids", error=str(error))

    def _expire(self) -> None:
        for runtime in list(self._runtimes.values()):
            runtime.perform_in_parts(runtime.shard.expire)

    # --- metrics ---------------------------------------------------------------------------------------------------

    def add_metrics(self, metrics: MetricsRegistry) -> None:
        """Register Kafka's metrics of the transaction coordinator. All are worked out when somebody asks; times of
        loading are those since the start, where Kafka's are of the last half minute."""
        channel = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="
        metrics.gauge(channel + "UnknownDestinationQueueSize", lambda: sum(len(one.left) for one in self._retrying))
        metrics.gauge(channel + "LogAppendRetryQueueSize", self._waiting_for_completion)
        server, times = "kafka.server:type=transaction-coordinator-metrics,name=", self._load_times_ms
        metrics.gauge(server + "partition-load-time-max", lambda: max(times, default=0))
        metrics.gauge(server + "partition-load-time-avg", lambda: sum(times) / len(times) if times else 0)

    def _waiting_for_completion(self) -> int:
        """Transactions with all their markers whose Complete record could not be written."""
        return sum(not ending.left and not ending.commits for ending in self._retrying)

    # --- for people ------------------------------------------------------------------------------------------------

    def dump(self) -> Iterator[dict[str, Any]]:
        """The transactional ids in few words each, for the dump on SIGUSR1."""
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
    """One prepared transaction on its way to its end: which partitions still need its marker, and which have it but
    not yet committed."""

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
        self.left: dict[Partition, None] = dict(transaction.partitions)
        self.commits: dict[Partition, asyncio.Future[None]] = {}
        self.fenced = False
        self.written = False

    def take(self, errors: dict[Partition, ErrorCode], commits: dict[Partition, asyncio.Future[None]]) -> None:
        """What became of an attempt."""
        self.written = True
        self.commits = commits
        for partition, error in errors.items():
            self._settle(partition, error)

    def commits_are_over(self, errors: dict[Partition, ErrorCode]) -> None:
        """Markers that are not committed after all are written again: their partition has another leader by now."""
        self.commits = {}
        for partition, error in errors.items():
            if error is not ErrorCode.NONE and error not in _GONE:
                self.left[partition] = None
                self._settle(partition, error)
                if self.fenced:
                    return

    def _settle(self, partition: Partition, error: ErrorCode) -> None:
        if error is ErrorCode.NONE or error in _GONE:
            self.left.pop(partition, None)
        elif error in _FENCED:
            # A later coordinator or producer has taken over: as in Kafka, nothing more is written for this one.
            _log.warning("marker refused", transactional_id=self.transactional_id, topic=partition[0], error=error.name)
            self.fenced = True
            self.left.clear()


__all__ = ["NONE", "TRANSACTIONS_TOPIC", "Outcome", "Producer", "TransactionCoordinator"]

"""A broker without a network, for schedules: the real coordinators, handlers and logs on virtual time.

The seed determines all failures: requests and responses that are lost, late or sent twice; appends that fail; followers
that lag, so that responses wait and the tail of the log is lost with the leadership; leaderships that move away and
return; crashes, after which the logs are loaded again. Once `calm` is set, there are no more failures.

The clients and the invariants are in `groups` and `transactions`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

from harness.services import services_with
from harness.simulation.disk import Disk
from harness.simulation.loop import VirtualLoop, run
from harness.simulation.trace import Trace
from harness.simulation.world import SimulatedExecutor
from kwire.base.config import KafkaConfig
from kwire.base.doors import Clock, Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.file_range import FileRange
from kwire.base.metrics import MetricsRegistry, TopicMetrics
from kwire.base.topic_partition import TopicPartition
from kwire.cluster.metadata.features import GROUP_VERSION, TRANSACTION_VERSION
from kwire.cluster.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, ClusterImage, Delta, TopicImage
from kwire.cluster.replication.partition import Partition
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.cluster.store.keys import PartitionState
from kwire.codec.records import BatchHeader, iter_headers
from kwire.coordinator.groups.coordinator import GroupCoordinator
from kwire.coordinator.runtime.runtime import Phase, Runtime
from kwire.coordinator.transactions.coordinator import TransactionCoordinator
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.handlers.data.fetch.sessions import FetchSessions
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.partition.opening import open_log
from kwire.log.partition.partition_log import PartitionLog

BROKER, FOLLOWER = 1, 2
START_MS = 1_700_000_000_000

Make = Callable[[], Any]


class Violation(Exception):
    """An invariant was violated."""


class Lost(Exception):
    """No response arrived. The request may have taken effect or not."""


def must(held: bool, what: str) -> None:
    """Check an invariant. Raises Violation."""
    if not held:
        raise Violation(what)


class QuietDisk(Disk):
    """A simulated disk that records no trace."""

    def _record(self, kind: str, *facts: object, data: Any = None) -> None:
        return


class Replica(Partition):
    """A partition with a simulated follower. ``refuses``: appends fail."""

    __slots__ = ("_world", "follower_end", "follows", "refuses")

    def __init__(self, world: World, log: PartitionLog) -> None:
        super().__init__(BROKER, log, TopicMetrics(), lambda _partition, _isr: None)
        self._world = world
        self.refuses = False
        self.follows = False  # the follower's next fetch is scheduled
        self.follower_end = 0

    def append(self, records: memoryview, **how: Any) -> Any:
        if self.refuses:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        info = super().append(records, **how)
        if self._world.replicated:
            self.follow_soon()
        return info

    def follow_soon(self) -> None:
        if not self.follows and (self.topic, self.index) not in self._world.frozen:
            self.follows = True
            asyncio.get_running_loop().call_later(self._world.random.uniform(0.001, 0.05), self._follow)

    def _follow(self) -> None:
        self.follows = False
        if self.leading and FOLLOWER in self._followers and (self.topic, self.index) not in self._world.frozen:
            self.follower_end = self.log.log_end_offset
            self.follower_at(FOLLOWER, self.follower_end)


class Replicas:
    """The part of the replica manager that coordinators and handlers use."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, Replica] = {}
        self.callbacks: dict[str, Callable[[int, Any], None]] = {}

    def partition(self, topic: str, index: int) -> Replica:
        found = self.partitions.get((topic, index))
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found

    def on_leadership(self, topic: str, callback: Callable[[int, Any], None]) -> None:
        self.callbacks[topic] = callback
        for (name, index), partition in list(self.partitions.items()):
            if name == topic and partition.leading:
                callback(index, partition)


class Metadata:
    """The part of the metadata cache that coordinators use."""

    def __init__(self, level: int) -> None:
        self.image = ClusterImage(revision=1, features={GROUP_VERSION: 1, TRANSACTION_VERSION: level})
        self.listeners: list[Callable[[ClusterImage, Delta], None]] = []
        self._lives: Counter[str] = Counter()

    def add_listener(self, listener: Callable[[ClusterImage, Delta], None]) -> None:
        self.listeners.append(listener)

    def set_topics(self, counts: dict[str, int]) -> None:
        """Create, extend or (0) delete topics. A topic that is created again has another id."""
        topics = dict(self.image.topics)
        deleted: list[TopicImage] = []
        for name, count in counts.items():
            before = topics.pop(name, None)
            if before is not None and not count:
                deleted.append(before)
            if count:
                self._lives[name] += before is None
                topic_id = (
                    f"{name[:12]}{self._lives[name]:03}".encode().ljust(16, b"-") if before is None else before.id
                )
                state = PartitionState((BROKER,), (BROKER,), BROKER, 0, 0)
                count = max(count, len(before.partitions) if before else 0)
                topics[name] = TopicImage(name, topic_id, (state,) * count)
        old = self.image
        self.image = ClusterImage(
            revision=old.revision + 1,
            topics=topics,
            topics_by_id={topic.id: topic for topic in topics.values()},
            features=old.features,
        )
        every = {name: range(len(topics[name].partitions)) for name, count in counts.items() if count}
        delta = Delta(list(every), deleted, [], brokers=False, controller=False, partitions=every)
        for listener in self.listeners:
            listener(self.image, delta)


class NoPeers:
    """This broker leads every partition: it never calls another one."""

    async def call(self, broker_id: int, request: Any, version: int, *, timeout_s: float) -> Any:
        raise PeerUnavailable(f"there is no broker {broker_id}")


class World:
    """See the module. ``logs``: topics with real logs, and their partition counts; ``names``: topics without logs."""

    def __init__(
        self, seed: int, *, logs: dict[str, int], names: dict[str, int], level: int = 2, **properties: str
    ) -> None:
        self.random = Random(f"schedule {seed}")
        self.counts: Counter[str] = Counter()
        self.loop = VirtualLoop()
        self._start_s = self.loop.time()
        self.calm = False
        self.verbose = False
        self.up = False
        self.replicated = self.random.random() < 0.4
        self.frozen: dict[TopicPartition, None] = {}
        self.truncations = 0
        self.waiting: dict[int, tuple[float, str]] = {}
        self._calls = 0
        self._ids = 1000
        self.level = level
        trace = Trace(self.loop.time, 0)
        self.doors = Doors(
            clock=Clock(time_ms=self.time_ms, monotonic=self.loop.time, perf_counter=self.loop.time),
            files=QuietDisk(trace, "disk", self.time_ms),
            sockets=None,  # type: ignore[arg-type]
            executor=SimulatedExecutor(self.loop, trace, self.random),
            random=Random(f"broker {seed}"),
            processes=None,
        )
        self.config = KafkaConfig({name.replace("_", "."): value for name, value in properties.items()})
        self.metadata = Metadata(level)
        self._log_names = [(topic, index) for topic, count in logs.items() for index in range(count)]
        self._epochs: Counter[TopicPartition] = Counter()
        self._follower_ends: dict[TopicPartition, int] = {}
        self.metadata.set_topics({**logs, **names})
        self._background: list[asyncio.Task[Any]] = []
        self.replayed: dict[str, tuple[int, int, Any]] = {}
        """The state of `replay` per topic: truncations so far, next offset, shard."""

    # -- time ----------------------------------------------------------------------------------------------------------

    def time_ms(self) -> int:
        """The wall clock of the simulation, in milliseconds."""
        return START_MS + round((self.loop.time() - self._start_s) * 1000)

    @property
    def elapsed_s(self) -> float:
        """Virtual time since the start of the schedule, in seconds."""
        return self.loop.time() - self._start_s

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Run a schedule. Raises Violation, and any unexpected error."""

        async def whole() -> None:
            await self.start()
            await scenario
            await self.crash(restart=False)

        run(self.loop, whole())

    # -- start, crash and leadership -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the process: load all logs."""
        self._environment = LogEnvironment.create(self.doors)
        self.metadata.listeners.clear()
        self.replicas = Replicas()
        for name in self._log_names:
            self._open(name)
        groups: Any = GroupCoordinator(self.doors, self.config, self.replicas, self.metadata)  # type: ignore[arg-type]
        self.transactions: Any = TransactionCoordinator(
            self.doors,
            self.config,
            self.replicas,  # type: ignore[arg-type]
            self.metadata,  # type: ignore[arg-type]
            groups,
            self._allocate,
            NoPeers(),  # type: ignore[arg-type]
        )
        self.groups = groups
        self.services = services_with(
            doors=self.doors,
            config=self.config,
            broker_id=BROKER,
            metrics=MetricsRegistry(),
            replicas=self.replicas,
            groups=groups,
            transactions=self.transactions,
            fetch_sessions=FetchSessions(self.doors, self.config.max_incremental_fetch_session_cache_slots),
            image_source=lambda: self.metadata.image,
            log_failure=self._unforeseen,
        )
        await groups.start()
        await self.transactions.start()
        self.up = True
        self.note("started")

    def _unforeseen(self, where: str, error: BaseException) -> None:
        raise Violation(f"unforeseen in {where}: {error!r}") from error

    def _open(self, name: TopicPartition) -> None:
        topic, index = name
        directory = f"/data/{topic}-{index}"
        topic_id = self.metadata.image.topics[topic].id
        log = open_log(self._environment, directory, topic, index, topic_id, LogConfig(), clean=not self._epochs[name])
        replica = self.replicas.partitions[name] = Replica(self, log)
        replica.follower_end = min(self._follower_ends.get(name, 0), log.log_end_offset)
        if self.random.random() < 0.5:
            self._truncate(replica)
        self._lead(replica)

    def _lead(self, replica: Replica) -> None:
        name = replica.topic, replica.index
        self._epochs[name] += 1
        replica.update(self._state(name, BROKER))
        if self.replicated:
            replica.follow_soon()

    def _state(self, name: TopicPartition, leader: int) -> PartitionState:
        replicas = (BROKER, FOLLOWER) if self.replicated else (BROKER,)
        epoch = self._epochs[name]
        return PartitionState(replicas, replicas, leader, epoch, epoch)

    def _truncate(self, replica: Replica) -> None:
        """Another broker has led without the tail of the log: truncate it."""
        if self.replicated and replica.follower_end < replica.log.log_end_offset:
            self.truncations += 1
            self.note(
                f"truncated {replica.topic}-{replica.index} from {replica.log.log_end_offset} to {replica.follower_end}"
            )
            self.counts["truncations"] += 1
            replica.log.truncate_to(replica.follower_end)

    async def crash(self, *, restart: bool = True) -> None:
        """Crash the process. Only the files are left."""
        self.up = False
        self.note("crash")
        for name, replica in self.replicas.partitions.items():
            self._follower_ends[name] = replica.follower_end
            replica.remove()
        await self.groups.close()
        await self.transactions.close()
        self._environment.remover.close()
        for replica in self.replicas.partitions.values():
            replica.log.release()
        if restart:
            self.counts["crashes"] += 1
            await asyncio.sleep(self.random.choice((0.01, 1.0, 15.0)))
            await self.start()

    async def lose_leadership(self, name: TopicPartition, seconds: float) -> None:
        """Let another broker lead a partition for some time."""
        if not self.replicas.partitions[name].leading:
            return
        replica = self.replicas.partitions[name]
        self.counts["leaderships lost"] += 1
        self.note(f"leadership of {name} lost for {seconds} s")
        topic, index = name
        self._epochs[name] += 1
        callback = self.replicas.callbacks.get(topic, _no_callback)
        replica.update(self._state(name, FOLLOWER))
        callback(index, None)
        self._truncate(replica)
        await asyncio.sleep(seconds)
        if self.replicas.partitions.get(name) is replica and self.up and not replica.leading:
            self._lead(replica)
            callback(index, replica)

    async def _allocate(self) -> range:
        await asyncio.sleep(0.001)
        first, self._ids = self._ids, self._ids + 3
        return range(first, self._ids)

    def set_topics(self, **counts: int) -> None:
        """Create, extend or delete topics without logs."""
        self.metadata.set_topics(counts)

    # -- requests ------------------------------------------------------------------------------------------------------

    async def call(self, api: Api, make: Make, version: int, *, twice: bool = True) -> Any:
        """Send one request. ``twice``: it may be delivered a second time, later. Raises Lost."""
        luck = 0.5 if self.calm else self.random.random()
        if luck < 0.04:
            if luck < 0.02 and twice:  # the client has stopped waiting when it arrives
                self.loop.call_later(self.random.choice((0.01, 0.3, 5.0)), self._again, api, make, version)
            await asyncio.sleep(self.random.choice((0.1, 3.0)))
            raise Lost
        if luck < 0.12:
            await asyncio.sleep(self.random.uniform(0.001, 2.0))
        elif luck > 0.95 and twice:
            self.loop.call_later(self.random.choice((0.01, 0.3, 5.0)), self._again, api, make, version)
        response = await self.deliver(api, make(), version)
        if 0.12 <= luck < 0.16:
            raise Lost
        return response

    async def deliver(self, api: Api, request: Any, version: int) -> Any:
        """Deliver a request to the broker, if it is up. Raises Lost."""
        if not self.up:
            await asyncio.sleep(0.5)
            raise Lost
        self.counts["requests"] += 1
        self._calls += 1
        call = self._calls
        if self.verbose:
            self.note(f"#{call} {request}")
        try:
            response = api.handle(request, RequestContext(self.services, api_version=version, client_id="c"))
            if inspect.isawaitable(response):
                self.waiting[call] = (self.loop.time(), api.key.name)
                response = await response
        except KafkaError as error:
            response = api.error_response(request, version, error.code, error.message)
        finally:
            self.waiting.pop(call, None)
        if self.verbose:
            self.note(f"#{call} -> {response}")
        return response

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task of the schedule. If several tasks fail, one error is reported."""
        task: asyncio.Task[None] = self.loop.create_task(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    def note(self, what: str) -> None:
        """Print an event if a single seed is run with --verbose."""
        if self.verbose:
            print(f"{self.elapsed_s:10.3f} {what}")

    def _again(self, api: Api, make: Make, version: int) -> None:
        self.counts["sent twice"] += 1
        self._background.append(self.spawn(self._quietly(api, make, version)))

    async def _quietly(self, api: Api, make: Make, version: int) -> None:
        try:
            await self.deliver(api, make(), version)
        except Lost:
            pass

    def check_nothing_waits(self, longer_than_s: float) -> None:
        """Check that no request has waited longer than this."""
        for since, what in self.waiting.values():
            must(self.loop.time() - since <= longer_than_s, f"{what} is stuck since {self.loop.time() - since:.1f} s")
        for task in self._background:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    # -- failures ------------------------------------------------------------------------------------------------------

    async def storm(self, names: list[TopicPartition], seconds: float) -> None:
        """Cause failures on these partitions for some time."""
        end, chance = self.loop.time() + seconds, self.random
        while self.loop.time() < end:
            await asyncio.sleep(chance.choice((0.05, 0.5, 2.0, 5.0)))
            luck, name = chance.random(), chance.choice(names)
            replica = self.replicas.partitions[name]
            if luck < 0.15:
                replica.refuses = not replica.refuses
                self.note(f"{name} refuses: {replica.refuses}")
            elif luck < 0.35:
                if self.frozen.pop(name, self) is self:
                    self.frozen[name] = None
                replica.follow_soon()
            elif luck < 0.55:
                await self.lose_leadership(name, chance.choice((0.0, 0.0, 0.5, 8.0)))
            elif luck < 0.65:
                await self.crash()
            elif luck < 0.72:
                await asyncio.sleep(chance.choice((10.0, 25.0)))
        self.clear()

    def clear(self) -> None:
        """Stop all failures."""
        self.calm = True
        self.frozen.clear()
        for replica in self.replicas.partitions.values():
            replica.refuses = False
            if self.replicated:
                replica.follow_soon()

    # -- logs and shards -----------------------------------------------------------------------------------------------

    def batches(self, name: TopicPartition, start: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches of a log, up to its end."""
        log = self.replicas.partitions[name].log
        data = self.content(log.read(start, 1 << 30, upto=log.log_end_offset).records)
        for position, header in iter_headers(memoryview(data)):
            yield header, memoryview(data)[position : position + header.size]

    def content(self, records: Any) -> bytes:
        """The bytes of a fetch, in memory or in a file."""
        if not isinstance(records, FileRange):
            return bytes(records or b"")
        try:
            return self.doors.files.pread(records.fd, records.size, records.position)
        finally:
            records.release()

    def shard(self, topic: str) -> Any | None:
        """The active shard of an internal topic's partition 0, or None."""
        runtime = self._runtime(topic)
        return runtime.shard if self.up and runtime is not None and runtime.phase is Phase.ACTIVE else None

    def is_busy(self, topic: str) -> bool:
        """Whether that shard has a long operation in progress."""
        runtime = self._runtime(topic)
        return runtime is not None and runtime._queue.held

    def _runtime(self, topic: str) -> Runtime[Any] | None:
        coordinator: Any = self.groups if topic == OFFSETS_TOPIC else self.transactions
        found: Runtime[Any] | None = coordinator._runtimes.get(0)
        return found


def _no_callback(index: int, partition: Any) -> None:
    """The leadership callback of a topic without a coordinator."""


__all__ = ["OFFSETS_TOPIC", "TRANSACTIONS_TOPIC", "Lost", "Violation", "World", "must"]

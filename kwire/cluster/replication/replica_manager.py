"""`ReplicaManager`: this broker's partitions, which follow the cluster's image.

For each change of the image, `ReplicaManager` creates and deletes logs and passes on topic properties and leadership.
Look-ups raise the Kafka error that a client gets for a partition that is not here. At the start, a log whose partition
is not assigned to this broker is renamed to ``-stray`` (in a new cluster, `adoption` has registered it before).

What lives elsewhere: the rules of one partition (`partition`), decisions (`controller`), files (`kwire.log`).
"""

from __future__ import annotations

import asyncio
import os.path
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import Pace
from kwire.base.logging import get_logger
from kwire.base.uuids import ZERO_UUID
from kwire.cluster.metadata.image import ClusterImage, ConfigResource, Delta, MetadataCache, TopicImage, whole_delta
from kwire.cluster.replication.partition import Partition
from kwire.log.common.checkpoints import write_topic_id
from kwire.log.common.environment import StorageError
from kwire.log.common.log_config import LogConfig
from kwire.log.manager.log_mover import LogMover

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.base.metrics import MetricsRegistry
    from kwire.base.topic_partition import TopicPartition
    from kwire.cluster.replication.throttles import Throttles
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.manager.log_manager import LogManager
    from kwire.log.partition.partition_log import PartitionLog

OnLeadership = Callable[[int, Partition | None], None]
"""(partition index, partition): this broker leads the partition in a new leader epoch; None: it no longer leads it."""

RETRY_S: Final = 1.0
"""Delay before a log is opened again after an error that may pass, such as a full disk."""

LOGS_PER_STEP_MAX: Final = 64
"""More logs than this are created in several steps, so that the event loop is not blocked. A topic that has no more
partitions is complete when CreateTopics responds."""

ISRS_PER_STEP: Final = 500
"""ISRs that are checked in one turn of the event loop: one millisecond, or two if all of them shrink."""

DELETIONS_PER_STEP: Final = 32
"""Logs that are deleted in one turn of the event loop: two or three milliseconds."""

NEW_LOG_WORK: Final = 8
"""The work of creating a log, in units of a leader change."""

NEW_UNREPLICATED_WORK: Final = 16 * NEW_LOG_WORK
"""The same for a partition without other replicas: its steps may be smaller, because it starts no fetch session."""

WORK_PER_STEP: Final = LOGS_PER_STEP_MAX * NEW_LOG_WORK
"""The work of one step, up to 50 ms with replicas, and some milliseconds without. Smaller steps would start more fetch
sessions, whose first requests are large."""

TOPIC_WORK: Final = 4
"""The work of finding a topic's properties, in units of a change of one partition."""

_logger = get_logger("kwire.cluster.replicas")


class PartitionFetchers(Protocol):
    """Fetches partitions from their leaders (`fetcher_manager.ReplicaFetchers`)."""

    def follow(self, partition: Partition, /) -> None:
        """Fetch a partition from its present leader; stop fetching it if there is no leader to follow."""

    def forget(self, partition: Partition, /) -> None:
        """Stop fetching a partition."""

    async def close(self) -> None:
        """Stop all fetching for good."""


class IsrChanges(Protocol):
    """Changes the ISRs of partitions that this broker leads (`isr_writer.IsrWriter`)."""

    def propose(self, partition: Partition, isr: tuple[int, ...], /) -> None:
        """Propose a new ISR (`partition.ProposeIsr`)."""

    async def close(self) -> None:
        """Stop all changes."""


class ReplicaManager:
    """The partitions of this broker. All methods are called on the event loop."""

    def __init__(
        self,
        config: KafkaConfig,
        logs: LogManager,
        metadata: MetadataCache,
        broker_id: int,
        metrics: MetricsRegistry,
        doors: Doors,
        fetchers: PartitionFetchers,
        isr_changes: IsrChanges,
        throttles: Throttles,
    ) -> None:
        self.throttles = throttles
        self._fetchers = fetchers
        self._isr_changes = isr_changes
        self._fenced = False
        self._isr_timer: asyncio.TimerHandle | None = None
        self._isr_step: asyncio.Handle | None = None
        self._config = config
        self._logs = logs
        self._metadata = metadata
        self._broker_id = broker_id
        self._metrics = metrics
        self.mover = LogMover(doors, logs, self.throttles.log_dirs, self._on_moved)
        self._partitions: dict[TopicPartition, Partition] = {}
        self._failed: dict[TopicPartition, str] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._leadership: dict[str, list[OnLeadership]] = {}
        self._background: dict[asyncio.Task[None], None] = {}
        self._deleting: dict[TopicPartition, asyncio.Future[None]] = {}
        self._doomed: deque[tuple[list[TopicPartition], asyncio.Future[None]]] = deque()  # what is yet to be deleted
        self._deleter: asyncio.Task[None] | None = None
        self._postponed: dict[TopicPartition, bytes] = {}  # topic ids of partitions that are yet to be applied
        self._applying: asyncio.Task[None] | None = None
        self._closed = False
        self._doors = doors

    def start(self) -> None:
        """Take over the partitions of the present image, and follow the image from now on.

        Call it when the logs are loaded and this broker has registered; before, the leaders in the store are those of
        an earlier registration.
        """
        self._set_strays_aside()
        self.throttles.start()
        self._metadata.add_listener(self._on_image)
        self._config.on_change(self._on_config)
        self._shrink_isrs()

    async def close(self) -> None:
        """Stop following the image, and wait for creations and deletions in progress."""
        if self._isr_timer is not None:
            self._isr_timer.cancel()
        if self._isr_step is not None:
            self._isr_step.cancel()
        await self._fetchers.close()
        await self._isr_changes.close()
        self._config.off_change(self._on_config)
        self.throttles.close()
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        await self.mover.close()
        await asyncio.gather(*self._background, return_exceptions=True)

    # -- look-ups ------------------------------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """A partition with a replica here. UNKNOWN_TOPIC_OR_PARTITION; NOT_LEADER_OR_FOLLOWER if only other brokers
        have replicas; KAFKA_STORAGE_ERROR if the log cannot be opened."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            raise self._lookup_error(topic, index)
        return partition

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """The same by topic id: UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID (another topic has the name now)."""
        topic = self._metadata.image.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        name = topic.name
        partition = self._partitions.get((name, index))  # as `partition`, which would be one more call for each request
        if partition is None:
            raise self._lookup_error(name, index)
        if partition.topic_id != topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return partition

    def get(self, topic: str, index: int) -> Partition | None:
        """A partition with a replica here, or None."""
        return self._partitions.get((topic, index))

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic, or None for an unknown id."""
        topic = self._metadata.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partitions(self) -> list[Partition]:
        """All partitions with a replica here, in the order in which they were added."""
        return list(self._partitions.values())

    def on_leadership(self, topic: str, callback: OnLeadership) -> None:
        """Call ``callback`` for each partition of a topic that this broker leads now, and for every later change."""
        self._leadership.setdefault(topic, []).append(callback)
        for (name, index), partition in list(self._partitions.items()):
            if name == topic and partition.leading:
                callback(index, partition)

    def _lookup_error(self, topic: str, index: int) -> KafkaError:
        if (topic, index) in self._failed:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._failed[topic, index])
        if self._metadata.image.partition(topic, index) is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # -- leading and following -----------------------------------------------------------------------------------------

    def _shrink_isrs(self) -> None:
        """Twice per `replica.lag.time.max.ms`, shrink ISRs whose followers do not keep up."""
        delay_s = self._config.replica_lag_time_max_ms / 2000
        self._isr_timer = asyncio.get_running_loop().call_later(delay_s, self._shrink_isrs)
        self._shrink_some(iter([each for each in self._partitions.values() if len(each.isr) > 1]))

    def _shrink_some(self, partitions: Iterator[Partition]) -> None:
        """Look at some partitions now, and at the others in later turns of the event loop."""
        some = list(islice(partitions, ISRS_PER_STEP))
        for partition in some:
            partition.shrink_isr(self._config.replica_lag_time_max_ms)
        if len(some) == ISRS_PER_STEP:
            self._isr_step = asyncio.get_running_loop().call_soon(self._shrink_some, partitions)

    def has_partitions_to_hand_over(self) -> bool:
        """Whether this broker leads a partition that another live, in-sync replica could lead."""
        live = self._metadata.image.brokers
        return any(
            partition.leading
            and any(each in live and not live[each].leaving for each in partition.isr if each != self._broker_id)
            for partition in self._partitions.values()
        )

    def fence(self) -> None:
        """The registration is lost: at once stop leading and following all partitions, until `unfence`."""
        self._fenced = True
        self._postponed.clear()
        for partition in self._partitions.values():
            self._retire(partition, partition.fence)

    def unfence(self) -> None:
        """This broker has registered again and the image shows it: follow the image again."""
        self._fenced = False
        image = self._metadata.image
        self._on_image(image, whole_delta(image))

    def _retire(self, partition: Partition, end: Callable[[], None]) -> None:
        """Stop leading and following a partition; ``end`` is `Partition.fence` or `Partition.remove`."""
        was_leading = partition.leading
        end()
        self._fetchers.forget(partition)
        if was_leading:
            self._report_leadership(partition, leading=False)

    # -- data directories ----------------------------------------------------------------------------------------------

    def move(self, topic: str, index: int, directory: str) -> None:
        """Start moving a replica to another entry of `log.dirs` (an absolute path).

        LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR (the directory failed), INVALID_REPLICA_ASSIGNMENT (it is cordoned),
        UNKNOWN_TOPIC_OR_PARTITION, REPLICA_NOT_AVAILABLE (other brokers have the replicas).
        """
        wanted = os.path.abspath(directory) if os.path.isabs(directory) else ""
        target = next((each for each in self._logs.directories if os.path.abspath(each.path) == wanted), None)
        if target is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{directory} is not one of log.dirs.")
        if not target.online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} has failed.")
        if target.cordoned:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {directory} is cordoned")
        partition = self._partitions.get((topic, index))
        if partition is not None and self._logs.is_offline(topic, index):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The directory of the log has failed.")
        if partition is None:
            error = self._lookup_error(topic, index)
            if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                error = KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
            raise error
        self.mover.start(partition.log, target)

    def directory_failed(self, directory: LogDirectory) -> list[TopicPartition]:
        """A log directory has failed: its partitions raise KAFKA_STORAGE_ERROR from now on, and the end of their
        leaderships is reported (to coordinators). Returns the partitions."""
        lost = []
        for key, partition in list(self._partitions.items()):
            if self._logs.directory_of(*key) is not directory:
                continue
            lost.append(key)
            self.mover.cancel(*key)
            partition.fail()
            self._report_leadership(partition, leading=False)
        self.mover.cancel_into(directory)
        return lost

    def _on_moved(self, log: PartitionLog) -> None:
        partition = self._partitions.get((log.topic, log.partition))
        if partition is not None:
            partition.replace_log(log)

    # -- following the image -------------------------------------------------------------------------------------------

    def _on_image(self, image: ClusterImage, delta: Delta) -> None:
        for topic in delta.deleted:
            self._drop_topic(topic)
        if self._fenced or self._closed:
            return
        budget = WORK_PER_STEP
        is_busy = bool(self._postponed)  # new logs are created in this turn already
        at_once = sum(map(len, delta.partitions.values())) <= LOGS_PER_STEP_MAX
        for name in delta.changed:
            topic = image.topics[name]
            for index in delta.partitions[name]:
                if self._broker_id not in topic.partitions[index].replicas:
                    if (name, index) in self._partitions:
                        self._drop_replicas([(name, index)])
                    continue
                work = self._work(topic, index, at_once=at_once)
                if not work:
                    continue
                budget -= work
                joins_others = work >= NEW_LOG_WORK and not at_once and is_busy
                if budget >= 0 and not joins_others:
                    self._apply(image, topic, index)
                else:
                    self._postponed[name, index] = topic.id
        if self._postponed and (self._applying is None or self._applying.done()):
            self._applying = self._spawn(self._apply_postponed())
        for resource, name in delta.configs:
            if resource == ConfigResource.TOPIC and name in image.topics:
                self._reconfigure(image, image.topics[name])

    def _work(self, topic: TopicImage, index: int, *, at_once: bool = False) -> int:
        """The work for a partition: 0 (none), 1 (a change), or that of a new log. ``at_once``: all can be done in one
        step, and clients need not wait for any."""
        partition = self._partitions.get((topic.name, index))
        if partition is not None and partition.topic_id == topic.id:
            return int(partition.partition_epoch < topic.partitions[index].partition_epoch)
        if self._existing(topic.name, index, topic.id) is not None:
            return 1
        return NEW_LOG_WORK if at_once or len(topic.partitions[index].replicas) > 1 else NEW_UNREPLICATED_WORK

    def _apply(self, image: ClusterImage, topic: TopicImage, index: int) -> None:
        """Bring one partition in line with the image."""
        key = (topic.name, index)
        if key in self._deleting:  # the log of an earlier topic with this name is being deleted
            self._deleting[key].add_done_callback(lambda _: self._apply_newest(topic.name, topic.id, index))
            return
        partition = self._partitions.get(key)
        if partition is None:
            log = self._open_log(image, topic, index)
            if log is None:
                return
            partition = self._partitions[key] = Partition(
                self._broker_id,
                log,
                self._metrics.topic(topic.name),
                self._isr_changes.propose,
            )
            partition.set_min_isr(self._topic_values(image, topic.name)["min.insync.replicas"])
        was_leading = partition.leading
        changed = partition.update(topic.partitions[index])
        if changed and len(partition.replicas) > 1:
            self._fetchers.follow(partition)
        if changed and (partition.leading or was_leading):
            self._report_leadership(partition, partition.leading)

    def _apply_newest(self, name: str, topic_id: bytes, index: int) -> None:
        """`_apply` with the newest image, unless the topic is gone."""
        image = self._metadata.image
        topic = image.topics_by_id.get(topic_id)
        if topic is not None and topic.name == name and not self._fenced:
            self._apply(image, topic, index)

    async def _apply_postponed(self) -> None:
        """Do the postponed work in steps, each with the newest image."""
        budget = 0
        pace = Pace(self._doors.clock.perf_counter, LOGS_PER_STEP_MAX)
        while self._postponed:
            (name, index), topic_id = next(iter(self._postponed.items()))
            del self._postponed[name, index]
            topic = self._metadata.image.topics_by_id.get(topic_id)
            if topic is None:
                continue
            budget -= self._work(topic, index)
            if budget < 0:
                await asyncio.sleep(0)
                budget = WORK_PER_STEP
                pace.begin()
            self._apply_newest(name, topic_id, index)
            if pace.is_over() and len(topic.partitions[index].replicas) == 1:
                budget = 0

    @property
    def is_applying(self) -> bool:
        """Whether partitions have yet to be brought in line with the image."""
        return self._applying is not None and not self._applying.done()

    async def wait_until_applied(self) -> None:
        """Return when all partitions are in line with the image."""
        while self._applying is not None and not self._applying.done():
            await asyncio.wait((self._applying,))

    def _existing(self, topic: str, index: int, topic_id: bytes) -> PartitionLog | None:
        log = self._logs.get(topic, index)
        return log if log is not None and log.topic_id in (topic_id, ZERO_UUID) else None

    def _open_log(self, image: ClusterImage, topic: TopicImage, index: int) -> PartitionLog | None:
        log = self._existing(topic.name, index, topic.id)
        config = LogConfig.from_values(self._topic_values(image, topic.name))
        try:
            if log is not None:
                if self._logs.is_offline(topic.name, index):
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The directory of the log has failed")
                if log.topic_id == ZERO_UUID:
                    log.topic_id = topic.id
                    write_topic_id(log.files, log.directory, topic.id)
                log.update_config(config)
                return log
            is_new = topic.partitions[index].leader_epoch == 0  # every start of a broker begins a new leader epoch
            log = self._logs.create(topic.name, index, topic.id, config, is_new=is_new)
            log.update_config(config)
            if not is_new and log.log_end_offset == 0:
                _logger.warning("log created again: no directory of log.dirs has it", topic=topic.name, partition=index)
        except (OSError, KafkaError) as error:
            self._note_unopened((topic.name, index), error)
            return None
        self._failed.pop((topic.name, index), None)
        return log

    def _note_unopened(self, key: TopicPartition, error: Exception) -> None:
        if self._failed.get(key) != str(error):
            self._failed[key] = str(error)
            log = _logger.debug if self._logs.is_offline(*key) else _logger.error  # the directory is reported already
            log("log cannot be opened", topic=key[0], partition=key[1], error=str(error))
        if isinstance(error, StorageError) and error.transient and self._retry is None and not self._closed:
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._retry_unopened)

    def _retry_unopened(self) -> None:
        """Open logs again that could not be opened: the disk may have space now."""
        self._retry = None
        image = self._metadata.image
        for name, index in list(self._failed)[:LOGS_PER_STEP_MAX]:
            topic = image.topics.get(name)
            if topic is not None and (name, index) not in self._partitions and image.partition(name, index):
                self._apply(image, topic, index)

    def _drop_topic(self, topic: TopicImage) -> None:
        self._metrics.remove_topic(topic.name)
        self._drop_replicas([(topic.name, index) for index in range(len(topic.partitions))])

    def _drop_replicas(self, keys: list[TopicPartition]) -> None:
        """Remove replicas that are no longer assigned to this broker, with their logs."""
        dropped = []
        for key in keys:
            unopened = self._failed.pop(key, None) is not None
            partition = self._partitions.pop(key, None)
            if partition is None:
                if unopened:
                    dropped.append(key)
                continue
            self.mover.cancel(*key)
            self._retire(partition, partition.remove)
            dropped.append(key)
        if dropped:
            deleted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._deleting.update(dict.fromkeys(dropped, deleted))
            self._doomed.append((dropped, deleted))
            if self._deleter is None or self._deleter.done():
                self._deleter = self._spawn(self._delete_doomed())

    async def _delete_doomed(self) -> None:
        """Delete the logs of dropped replicas, few of them in one turn of the event loop, however many topics they
        belong to."""
        left = DELETIONS_PER_STEP
        while self._doomed:
            dropped, deleted = self._doomed.popleft()
            for topic, index in dropped:
                if not left:
                    await asyncio.sleep(0)
                    left = DELETIONS_PER_STEP
                left -= 1
                try:
                    await self._logs.delete(topic, index)
                except (OSError, KafkaError) as error:
                    _logger.error("log cannot be deleted", topic=topic, partition=index, error=str(error))
            for key in dropped:
                del self._deleting[key]
            deleted.set_result(None)

    def _report_leadership(self, partition: Partition, leading: bool) -> None:
        for callback in self._leadership.get(partition.topic, ()):
            callback(partition.index, partition if leading else None)

    # -- configuration -------------------------------------------------------------------------------------------------

    def _topic_values(self, image: ClusterImage, topic: str) -> Mapping[str, Any]:
        return self._config.topic_config(image.topic_config(topic))

    def _reconfigure(self, image: ClusterImage, topic: TopicImage) -> None:
        values = self._topic_values(image, topic.name)
        config = LogConfig.from_values(values)
        for index in range(len(topic.partitions)):
            partition = self._partitions.get((topic.name, index))
            if partition is not None:
                partition.log.update_config(config)
                partition.set_min_isr(values["min.insync.replicas"])

    def _on_config(self, changed: frozenset[str]) -> None:
        """The broker's properties changed: apply them to topics without their own values."""
        self._reconfigure_some(iter(list(self._metadata.image.topics)))

    def _reconfigure_some(self, names: Iterator[str]) -> None:
        """Apply the newest properties to topics, and to the rest of them in later turns of the event loop."""
        image = self._metadata.image
        work = 0
        for name in names:
            topic = image.topics.get(name)
            if topic is not None:
                self._reconfigure(image, topic)
                work += TOPIC_WORK + len(topic.partitions)
            if work >= WORK_PER_STEP:
                asyncio.get_running_loop().call_soon(self._reconfigure_some, names)
                return

    # -- start ---------------------------------------------------------------------------------------------------------

    def _set_strays_aside(self) -> None:
        image = self._metadata.image
        for log in self._logs:
            topic = image.topics_by_id.get(log.topic_id) or (
                image.topics.get(log.topic) if log.topic_id == ZERO_UUID else None  # a log older than topic ids
            )
            state = None if topic is None else image.partition(log.topic, log.partition)
            if topic is None or topic.name != log.topic or state is None or self._broker_id not in state.replicas:
                _logger.warning("stray log set aside", topic=log.topic, partition=log.partition)
                try:
                    self._logs.set_aside_as_stray(log.topic, log.partition)
                except KafkaError as error:
                    _logger.error("stray log cannot be set aside", directory=log.directory, error=str(error))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._background[task] = None
        task.add_done_callback(lambda done: self._background.pop(done, None))
        return task

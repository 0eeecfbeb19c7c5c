"""This broker's replicas: which partitions live here, kept in step with the cluster's image.

The image says what should be; `ReplicaManager` makes the logs follow: creates and deletes them, hands on topic
properties and leadership. Look-ups raise the Kafka error that a client should get for a partition that is not here.
At the start, a log that the cluster does not know is put aside as ``-stray`` (where the cluster is new, `adoption`
makes it known before).

What lives elsewhere: one partition's rules (`partition`), decisions (`controller`), files (`kwire.log`).
"""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.base.metrics import MetricsRegistry
from kwire.base.uuids import ZERO_UUID
from kwire.cluster.metadata.image import ClusterImage, ConfigResource, Delta, MetadataCache, TopicImage, whole_delta
from kwire.cluster.replication.partition import Partition, keep_isr
from kwire.cluster.replication.throttles import Throttles
from kwire.log.common.checkpoints import write_topic_id
from kwire.log.common.environment import StorageError
from kwire.log.common.log_config import LogConfig
from kwire.log.manager.log_mover import LogMover

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.cluster.replication.fetcher_manager import ReplicaFetchers
    from kwire.cluster.replication.isr_writer import IsrWriter
    from kwire.log.common.log_dirs import LogDirectory
    from kwire.log.manager.log_manager import LogManager
    from kwire.log.partition.partition_log import PartitionLog

OnLeadership = Callable[[int, Partition | None], None]
"""(partition index, partition | None): leadership begins (with each new leader epoch) or, with None, ends."""

RETRY_S: Final = 1.0
"""How soon a log is tried again that could not be opened for trouble that may pass, as a full disk."""

AT_ONCE_MAX: Final = 64
"""More logs than this are created or deleted in pieces, so that the loop is not held up."""

WORK_OF_A_NEW_LOG: Final = 8
"""So many times the work of a partition that gets another leader."""

WORK_AT_ONCE: Final = AT_ONCE_MAX * WORK_OF_A_NEW_LOG
"""What is done in one piece: about 50 ms. Smaller pieces would begin more fetch sessions, which name everything."""

_logger = get_logger("kwire.cluster.replicas")


class ReplicaManager:
    """The partitions of this broker. All methods belong to the event loop."""

    def __init__(
        self,
        config: KafkaConfig,
        logs: LogManager,
        metadata: MetadataCache,
        broker_id: int,
        metrics: MetricsRegistry | None = None,
        doors: Doors | None = None,
        fetchers: ReplicaFetchers | None = None,
        isr_writer: IsrWriter | None = None,
        throttles: Throttles | None = None,
    ) -> None:
        doors = doors or Doors()
        self.throttles = throttles or Throttles(config, metadata, broker_id, doors.clock.monotonic)
        self._fetchers = fetchers
        self._isr_writer = isr_writer
        self._fenced = False
        self._laggards: asyncio.TimerHandle | None = None
        self._config = config
        self._logs = logs
        self._metadata = metadata
        self._broker_id = broker_id
        self._metrics = metrics or MetricsRegistry()
        self.mover = LogMover(doors, logs, self.throttles.log_dirs, self._on_moved)
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._failed: dict[tuple[str, int], str] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._leadership: dict[str, list[OnLeadership]] = {}
        self._background: dict[asyncio.Task[None], None] = {}
        self._deleting: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._later: dict[tuple[str, int], bytes] = {}  # topic ids of partitions that are to be brought up to date
        self._applying: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Take over the partitions of the present image and follow it from now on.

        Call it when the logs are loaded and this broker has joined: until then, what the store says about leaders is
        about an earlier life.
        """
        self._put_strays_aside()
        self.throttles.start()
        self._metadata.add_listener(self._on_image)
        self._config.on_change(self._on_config)
        if self._isr_writer is not None:
            self._watch_followers()

    async def close(self) -> None:
        """Stop following, and wait for creations and deletions that are under way."""
        if self._laggards is not None:
            self._laggards.cancel()
        if self._fetchers is not None:
            await self._fetchers.close()
        if self._isr_writer is not None:
            await self._isr_writer.close()
        self._config.off_change(self._on_config)
        self.throttles.close()
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        await self.mover.close()
        await asyncio.gather(*self._background, return_exceptions=True)

    # Look-ups

    def partition(self, topic: str, index: int) -> Partition:
        """A partition with a replica here. UNKNOWN_TOPIC_OR_PARTITION; NOT_LEADER_OR_FOLLOWER where only others have
        replicas; KAFKA_STORAGE_ERROR where the disk failed."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            raise self._absence(topic, index)
        return partition

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """The same by topic id: UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID (another topic has the name by now)."""
        topic = self._metadata.image.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self.partition(topic.name, index)
        if partition.topic_id != topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return partition

    def get(self, topic: str, index: int) -> Partition | None:
        """A partition with a replica here, or None."""
        return self._partitions.get((topic, index))

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self._metadata.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partitions(self) -> list[Partition]:
        """All that have a replica here, in the order in which they came."""
        return list(self._partitions.values())

    def on_leadership(self, topic: str, callback: OnLeadership) -> None:
        """Be told which partitions of a topic this broker leads: at once those it does, then every change."""
        self._leadership.setdefault(topic, []).append(callback)
        for (name, index), partition in list(self._partitions.items()):
            if name == topic and partition.leading:
                callback(index, partition)

    def _absence(self, topic: str, index: int) -> KafkaError:
        if (topic, index) in self._failed:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self._failed[topic, index])
        if self._metadata.image.partition(topic, index) is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Leading and following

    def _watch_followers(self) -> None:
        """Twice per `replica.lag.time.max.ms`, look for followers that do not keep up."""
        lag_ms = self._config.replica_lag_time_max_ms
        for partition in self._partitions.values():
            if len(partition.isr) > 1:
                partition.drop_laggards(lag_ms)
        self._laggards = asyncio.get_running_loop().call_later(lag_ms / 2000, self._watch_followers)

    def leads_what_others_could(self) -> bool:
        """Whether this broker leads a partition that has another living replica in sync."""
        living = self._metadata.image.brokers
        return any(
            partition.leading
            and any(each in living and not living[each].leaving for each in partition.isr if each != self._broker_id)
            for partition in self._partitions.values()
        )

    def fence(self) -> None:
        """The registration is lost: lead and follow nothing, at once, until `unfence`."""
        self._fenced = True
        self._later.clear()
        for partition in self._partitions.values():
            self._retire(partition, partition.fence)

    def unfence(self) -> None:
        """This broker has registered anew, and the image knows that: follow it again."""
        self._fenced = False
        image = self._metadata.image
        self._on_image(image, whole_delta(image))

    def _retire(self, partition: Partition, end: Callable[[], None]) -> None:
        """It is led and followed no more; ``end``: in which way."""
        was_leading = partition.leading
        end()
        if self._fetchers is not None:
            self._fetchers.forget(partition)
        if was_leading:
            self._tell_leadership(partition, leading=False)

    # Data directories

    def move(self, topic: str, index: int, directory: str) -> None:
        """Begin to move a replica to another entry of `log.dirs` (an absolute path).

        LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR (the directory failed), UNKNOWN_TOPIC_OR_PARTITION,
        REPLICA_NOT_AVAILABLE (other brokers have the replicas).
        """
        wanted = os.path.abspath(directory) if os.path.isabs(directory) else ""
        target = next((each for each in self._logs.directories if os.path.abspath(each.path) == wanted), None)
        if target is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{directory} is not one of log.dirs.")
        if not target.online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory} has failed.")
        partition = self._partitions.get((topic, index))
        if partition is not None and self._logs.is_offline(topic, index):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The directory of the log has failed.")
        if partition is None:
            error = self._absence(topic, index)
            if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                error = KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
            raise error
        self.mover.start(partition.log, target)

    def directory_failed(self, directory: LogDirectory) -> list[tuple[str, int]]:
        """A data directory is not there any more: its partitions are told as KAFKA_STORAGE_ERROR from now on, and
        whoever worked on them as leader (coordinators) stops. Returns them."""
        lost = []
        for key, partition in list(self._partitions.items()):
            if self._logs.directory_of(*key) is not directory:
                continue
            lost.append(key)
            self.mover.cancel(*key)
            partition.fail()
            self._tell_leadership(partition, leading=False)
        self.mover.cancel_into(directory)
        return lost

    def _on_moved(self, log: PartitionLog) -> None:
        partition = self._partitions.get((log.topic, log.partition))
        if partition is not None:
            partition.replace_log(log)

    # Following the image

    def _on_image(self, image: ClusterImage, delta: Delta) -> None:
        for topic in delta.deleted:
            self._drop_topic(topic)
        if self._fenced or self._closed:
            return
        room = WORK_AT_ONCE
        for name in delta.changed:
            topic = image.topics[name]
            for index, state in enumerate(topic.partitions):
                if self._broker_id not in state.replicas:
                    if (name, index) in self._partitions:
                        self._drop_replicas([(name, index)])
                    continue
                work = self._work(topic, index)
                if not work:
                    continue
                room -= work
                if room >= 0:
                    self._apply(image, topic, index)
                else:
                    self._later[name, index] = topic.id
        if self._later and (self._applying is None or self._applying.done()):
            self._applying = self._spawn(self._apply_later())
        for resource, name in delta.configs:
            if resource == ConfigResource.TOPIC and name in image.topics:
                self._reconfigure(image, image.topics[name])

    def _work(self, topic: TopicImage, index: int) -> int:
        """How much there is to do for a partition: nothing, a change, or a log to be made."""
        partition = self._partitions.get((topic.name, index))
        if partition is not None and partition.topic_id == topic.id:
            return int(partition.partition_epoch < topic.partitions[index].partition_epoch)
        return 1 if self._existing(topic.name, index, topic.id) is not None else WORK_OF_A_NEW_LOG

    def _apply(self, image: ClusterImage, topic: TopicImage, index: int) -> None:
        """Make one partition what the image says."""
        key = (topic.name, index)
        if key in self._deleting:  # the log of an earlier topic of this name is on its way out
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
                keep_isr if self._isr_writer is None else self._isr_writer.propose,
            )
            partition.set_min_isr(self._topic_values(image, topic.name)["min.insync.replicas"])
        was_leading = partition.leading
        changed = partition.update(topic.partitions[index])
        if changed and self._fetchers is not None and len(partition.replicas) > 1:
            self._fetchers.follow(partition)
        if changed and (partition.leading or was_leading):
            self._tell_leadership(partition, partition.leading)

    def _apply_newest(self, name: str, topic_id: bytes, index: int) -> None:
        """`_apply` later on, unless the topic is gone again by then."""
        image = self._metadata.image
        topic = image.topics_by_id.get(topic_id)
        if topic is not None and topic.name == name and not self._fenced:
            self._apply(image, topic, index)

    async def _apply_later(self) -> None:
        """The rest of what is to be done, in pieces, whatever the newest image is by then."""
        room = 0
        while self._later:
            (name, index), topic_id = next(iter(self._later.items()))
            del self._later[name, index]
            topic = self._metadata.image.topics_by_id.get(topic_id)
            if topic is None:
                continue
            room -= self._work(topic, index)
            if room < 0:
                await asyncio.sleep(0)
                room = WORK_AT_ONCE
            self._apply_newest(name, topic_id, index)

    async def taken_over(self) -> None:
        """Return when all partitions of the image are what it says."""
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
            is_new = topic.partitions[index].leader_epoch == 0  # every start of a broker begins a new epoch
            log = self._logs.create(topic.name, index, topic.id, config, is_new=is_new)
            log.update_config(config)
            if not is_new and log.log_end_offset == 0:
                _logger.warning("log made anew: no directory of log.dirs has it", topic=topic.name, partition=index)
        except (OSError, KafkaError) as error:
            self._not_opened((topic.name, index), error)
            return None
        self._failed.pop((topic.name, index), None)
        return log

    def _not_opened(self, key: tuple[str, int], error: Exception) -> None:
        if self._failed.get(key) != str(error):
            self._failed[key] = str(error)
            tell = _logger.debug if self._logs.is_offline(*key) else _logger.error  # its directory was told of
            tell("log cannot be opened", topic=key[0], partition=key[1], error=str(error))
        if isinstance(error, StorageError) and error.transient and self._retry is None and not self._closed:
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        """The disk may have room again."""
        self._retry = None
        image = self._metadata.image
        for name, index in list(self._failed)[:AT_ONCE_MAX]:
            topic = image.topics.get(name)
            if topic is not None and (name, index) not in self._partitions and image.partition(name, index):
                self._apply(image, topic, index)

    def _drop_topic(self, topic: TopicImage) -> None:
        self._metrics.remove_topic(topic.name)
        self._drop_replicas([(topic.name, index) for index in range(len(topic.partitions))])

    def _drop_replicas(self, keys: list[tuple[str, int]]) -> None:
        """Partitions that have no replica here any more: their logs are deleted."""
        doomed = []
        for key in keys:
            unopened = self._failed.pop(key, None) is not None
            partition = self._partitions.pop(key, None)
            if partition is None:
                if unopened:
                    doomed.append(key)
                continue
            self.mover.cancel(*key)
            self._retire(partition, partition.remove)
            doomed.append(key)
        if doomed:
            task = self._spawn(self._delete_logs(doomed))
            self._deleting.update(dict.fromkeys(doomed, task))

    async def _delete_logs(self, doomed: list[tuple[str, int]]) -> None:
        for count, (topic, index) in enumerate(doomed, 1):
            try:
                await self._logs.delete(topic, index)
            except (OSError, KafkaError) as error:
                _logger.error("log cannot be deleted", topic=topic, partition=index, error=str(error))
            if count % AT_ONCE_MAX == 0:
                await asyncio.sleep(0)
        for key in doomed:
            del self._deleting[key]

    def _tell_leadership(self, partition: Partition, leading: bool) -> None:
        for callback in self._leadership.get(partition.topic, ()):
            callback(partition.index, partition if leading else None)

    # Configuration

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
        """The broker's own properties changed: topics that set none of their own follow."""
        image = self._metadata.image
        for topic in image.topics.values():
            self._reconfigure(image, topic)

    # At the start

    def _put_strays_aside(self) -> None:
        image = self._metadata.image
        for log in self._logs:
            topic = image.topics_by_id.get(log.topic_id) or (
                image.topics.get(log.topic) if log.topic_id == ZERO_UUID else None  # a log older than topic ids
            )
            state = None if topic is None else image.partition(log.topic, log.partition)
            if topic is None or topic.name != log.topic or state is None or self._broker_id not in state.replicas:
                _logger.warning("stray log put aside", topic=log.topic, partition=log.partition)
                try:
                    self._logs.set_aside_as_stray(log.topic, log.partition)
                except KafkaError as error:
                    _logger.error("stray log cannot be put aside", directory=log.directory, error=str(error))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._background[task] = None
        task.add_done_callback(lambda done: self._background.pop(done, None))
        return task

"""The share coordinator that handlers and the persister call: finds the shard of a share partition and runs operations.

Every operation returns the state of the share partition, or a future of it if records have to be committed first. It
raises KafkaError if the coordinator cannot serve it: COORDINATOR_NOT_AVAILABLE (the broker shuts down),
NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS; otherwise as `share.shard` does, which is imported for the first
partition that this broker leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.base.uuids import uuid_to_text
from kwire.cluster.metadata.image import SHARE_STATE_TOPIC
from kwire.coordinator.runtime.java_hash import partition_for
from kwire.coordinator.runtime.machine import Instant, Result
from kwire.coordinator.runtime.runtime import LogSettings, Phase, Runtime
from kwire.coordinator.share.metrics import ShareCoordinatorMetrics

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.metrics import MetricsRegistry
    from kwire.cluster.metadata.image import ClusterImage, Delta, MetadataCache
    from kwire.cluster.replication.partition import Partition
    from kwire.cluster.replication.replica_manager import ReplicaManager
    from kwire.coordinator.share.records import SharePartitionKey, ShareState
    from kwire.coordinator.share.shard import ShareShard

_log = get_logger("kwire.coordinator")

Operation = Callable[["ShareShard", Instant], Result["ShareState"]]


class ShareCoordinator:
    """The shards of all partitions of `SHARE_STATE_TOPIC` that this broker leads. All methods run on the event loop."""

    def __init__(self, doors: Doors, config: KafkaConfig, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        self._doors = doors
        self.measured = ShareCoordinatorMetrics(doors.clock.monotonic)
        self._config = config
        self._replicas = replicas
        self._metadata = metadata
        self._runtimes: dict[int, Runtime[ShareShard]] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._superfluous: dict[int, tuple[int, int]] = {}
        self._open = False

    # -- start and stop ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Coordinate the partitions that this broker leads, now and later. Returns when the present ones are loaded."""
        self._open = True
        self._replicas.on_leadership(SHARE_STATE_TOPIC, self._on_leadership)
        self._metadata.add_listener(self._on_image)
        while self._loading:
            await asyncio.gather(*self._loading.values())

    async def close(self) -> None:
        """Accept no more operations."""
        self._open = False
        for timer in self._timers.values():
            timer.cancel()
        for runtime in self._runtimes.values():
            runtime.end()
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_leadership(self, index: int, partition: Partition | None) -> None:
        former = self._runtimes.pop(index, None)
        if former is not None:
            former.end()
        self._superfluous.pop(index, None)
        self.measured.pruned.pop(index, None)
        task = self._loading.pop(index, None)
        if task is not None:
            task.cancel()
        if partition is None or not self._open:
            return
        runtime = self._runtimes[index] = Runtime(self._new_shard(), partition, self._doors, self._log_settings())
        if runtime.is_empty_log:
            runtime.begin()
        else:
            task = asyncio.get_running_loop().create_task(runtime.load(), name=f"load {SHARE_STATE_TOPIC}-{index}")
            self._loading[index] = task
            task.add_done_callback(partial(self._loaded, index, self._doors.clock.monotonic()))
        if not self._timers:
            self._repeat("prune", self._config.share_coordinator_state_topic_prune_interval_ms, self.prune)
            self._repeat("refresh", self._config.share_coordinator_cold_partition_snapshot_interval_ms, self._refresh)

    def _new_shard(self) -> ShareShard:
        from kwire.coordinator.share.shard import ShareShard

        return ShareShard(self._config, self._partition_count)

    def _log_settings(self) -> LogSettings:
        config = self._config
        return LogSettings(
            config.share_coordinator_write_timeout_ms, config.share_coordinator_state_topic_compression_codec
        )

    def _partition_count(self, topic_id: bytes) -> int:
        topic = self._metadata.image.topics_by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def _loaded(self, index: int, begun_s: float, task: asyncio.Task[None]) -> None:
        if self._loading.get(index) is task:
            del self._loading[index]
            self.measured.loaded(begun_s)

    def _on_image(self, image: ClusterImage, delta: Delta) -> None:
        """Delete the states of deleted topics."""
        if not delta.deleted or not self._runtimes:
            return
        gone = {topic.id for topic in delta.deleted}
        for runtime in self._active():
            runtime.perform_in_parts(lambda _, shard=runtime.shard: shard.forget_topics(gone))  # type: ignore[misc]

    # -- what is done from time to time --------------------------------------------------------------------------------

    def _repeat(self, name: str, interval_ms: int, action: Callable[[], None]) -> None:
        def run() -> None:
            action()
            self._repeat(name, interval_ms, action)

        self._timers[name] = asyncio.get_running_loop().call_later(interval_ms / 1000, run)

    def _refresh(self) -> None:
        for runtime in self._active():
            runtime.perform_in_parts(runtime.shard.refresh)

    def prune(self) -> None:
        """Delete the records that are no longer needed from the logs that this broker leads. What made them superfluous
        may not be committed yet, and may be lost with this leader. So an offset is only noted, with the end of the log,
        and its records are deleted by a later call, once the log is committed up to that end."""
        for index, runtime in self._runtimes.items():
            if runtime.phase is not Phase.ACTIVE:
                continue
            log = runtime.partition.log
            offset = runtime.shard.redundant_offset()
            if offset is not None:
                self._superfluous.setdefault(index, (offset, log.log_end_offset))
            noted, end = self._superfluous.get(index, (0, 0))
            if noted and log.high_watermark >= end:
                self._delete_below(index, runtime, noted)

    def _delete_below(self, index: int, runtime: Runtime[ShareShard], offset: int) -> None:
        del self._superfluous[index]
        if offset <= runtime.partition.log.log_start_offset:
            return
        try:
            runtime.partition.log.delete_records_before(offset)
            self.measured.pruned[index] = offset
        except (KafkaError, OSError) as error:
            _log.warning("coordinator log cannot be pruned", partition=index, error=str(error))

    def _active(self) -> list[Runtime[ShareShard]]:
        return [runtime for runtime in self._runtimes.values() if runtime.phase is Phase.ACTIVE]

    # -- metrics -------------------------------------------------------------------------------------------------------

    def add_metrics(self, metrics: MetricsRegistry) -> None:
        """Register Kafka's metrics of the share coordinator. Values are computed when a metric is read."""
        self.measured.add(metrics)
        name = "kafka.server:type=share-coordinator-metrics,name=num-partitions,state="
        for phase, state in ((Phase.LOADING, "loading"), (Phase.ACTIVE, "active"), (Phase.OVER, "failed")):
            metrics.gauge(name + state, partial(self._count_partitions, phase))

    def _count_partitions(self, phase: Phase) -> int:
        return sum(runtime.phase is phase for runtime in self._runtimes.values())

    # -- finding the shard ---------------------------------------------------------------------------------------------

    def partition_of(self, key: str) -> int | None:
        """The partition of `SHARE_STATE_TOPIC` that a share partition (`coordinator_key`) belongs to, or None if the
        topic does not exist."""
        topic = self._metadata.image.topics.get(SHARE_STATE_TOPIC)
        return None if topic is None else partition_for(key, len(topic.partitions))

    def perform(self, key: SharePartitionKey, operation: Operation) -> ShareState | asyncio.Future[ShareState]:
        """Run an operation of the shard of a share partition."""
        if not self._open:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        index = self.partition_of(coordinator_key(key))
        runtime = None if index is None else self._runtimes.get(index)
        if runtime is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return runtime.perform(partial(operation, runtime.shard))


def coordinator_key(key: SharePartitionKey) -> str:
    """The text that names a share partition in FindCoordinator: GROUP:TOPIC_ID:PARTITION."""
    return f"{key.group_id}:{uuid_to_text(key.topic_id)}:{key.partition}"

"""`Throttles`: Kafka's replication quotas (KIP-73), and the replicas that they apply to.

The quotas follow the broker's dynamic properties (`leader.replication.throttled.rate` and the like) and those of topics
(`leader.replication.throttled.replicas` and the like).

What lives elsewhere: measuring (`kwire.base.quota`), leaving out throttled replicas while a quota is exceeded
(`kwire.handlers.data.fetch.handler` for a leader, `fetcher` for a follower, `kwire.log.manager.log_mover` between
directories).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kwire.base.quota import UNLIMITED, Quota
from kwire.cluster.metadata.image import ClusterImage, ConfigResource, Delta, MetadataCache

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.metrics import MetricsRegistry

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"

PAIR_CHARACTERS_MAX: Final = 32
"""Longer "partition:broker" pairs cannot name an existing replica and are ignored."""


class ReplicationQuota(Quota):
    """A quota with the replicas that it applies to."""

    def __init__(self, monotonic: Callable[[], float], windows: int, window_s: int) -> None:
        super().__init__(monotonic, windows, window_s)
        self._partitions: dict[str, frozenset[int] | None] = {}

    @property
    def idle(self) -> bool:
        """Whether no replica is throttled."""
        return not self._partitions

    def is_throttled(self, topic: str, partition: int) -> bool:
        """Whether the quota applies to this broker's replica of a partition."""
        if topic not in self._partitions:
            return False
        chosen = self._partitions[topic]
        return chosen is None or partition in chosen

    def throttle(self, topic: str, partitions: frozenset[int] | None) -> None:
        """Throttle these partitions of a topic; None means all."""
        self._partitions[topic] = partitions

    def release(self, topic: str) -> None:
        """Throttle no partition of a topic."""
        self._partitions.pop(topic, None)


class Throttles:
    """A broker's quotas: ``leader`` (sent to followers), ``follower`` (fetched from leaders), ``log_dirs`` (moved
    between its own log directories)."""

    def __init__(
        self, config: KafkaConfig, metadata: MetadataCache, broker_id: int, monotonic: Callable[[], float]
    ) -> None:
        windows, window_s = config.replication_quota_window_num, config.replication_quota_window_size_seconds
        self.leader = ReplicationQuota(monotonic, windows, window_s)
        self.follower = ReplicationQuota(monotonic, windows, window_s)
        self.log_dirs = Quota(
            monotonic,
            config.alter_log_dirs_replication_quota_window_num,
            config.alter_log_dirs_replication_quota_window_size_seconds,
        )
        self._config = config
        self._metadata = metadata
        self._broker_id = broker_id

    def start(self) -> None:
        """Start following the configuration."""
        self._config.on_change(self._follow_rates)
        self._follow_rates(frozenset({LEADER_RATE}))
        self._metadata.add_listener(self._follow_topics)

    def close(self) -> None:
        """Stop following the configuration."""
        self._config.off_change(self._follow_rates)

    def add_metrics(self, metrics: MetricsRegistry) -> None:
        """Register Kafka's metrics: bytes per second under each quota."""
        for kind, quota in (
            ("LeaderReplication", self.leader),
            ("FollowerReplication", self.follower),
            ("AlterLogDirsReplication", self.log_dirs),
        ):
            metrics.gauge(f"kafka.server:type={kind},name=byte-rate", quota.bytes_per_second)

    def _follow_rates(self, changed: frozenset[str]) -> None:
        """Only dynamic properties count, as in Kafka."""
        if changed.isdisjoint((LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)):
            return
        dynamic = {**self._config.dynamic_default, **self._config.dynamic_broker}
        for name, quota in ((LEADER_RATE, self.leader), (FOLLOWER_RATE, self.follower), (LOG_DIRS_RATE, self.log_dirs)):
            quota.rate = self._config[name] if name in dynamic else UNLIMITED

    def _follow_topics(self, image: ClusterImage, delta: Delta) -> None:
        for resource, topic in delta.configs:
            if resource == ConfigResource.TOPIC:
                texts = image.topic_config(topic)
                self._set_replicas(self.leader, topic, texts.get(LEADER_REPLICAS, ""))
                self._set_replicas(self.follower, topic, texts.get(FOLLOWER_REPLICAS, ""))

    def _set_replicas(self, quota: ReplicationQuota, topic: str, text: str) -> None:
        text = text.strip()
        if not text:
            quota.release(topic)
        elif text == "*":
            quota.throttle(topic, None)
        else:
            pairs = [
                entry.strip().split(":")
                for entry in text.split(",")
                if ":" in entry and len(entry) < PAIR_CHARACTERS_MAX
            ]
            mine = frozenset(int(partition) for partition, broker in pairs if int(broker) == self._broker_id)
            quota.throttle(topic, mine)

"""How fast replicas may be copied: Kafka's replication quotas (KIP-73), and which partitions they are for.

`Throttles` keeps a broker's quotas in step with its own properties (`leader.replication.throttled.rate` and its like)
and the topics' (`leader.replication.throttled.replicas`...).

What lives elsewhere: measuring (`kwire.base.quota`), who leaves out what while a quota is exceeded
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


PAIR_MAX: Final = 32
"""Characters of a partition and a broker: more cannot name any."""


class ReplicationQuota(Quota):
    """A quota for some partitions' replicas."""

    def __init__(self, monotonic: Callable[[], float], windows: int = 11, window_s: int = 1) -> None:
        super().__init__(monotonic, windows, window_s)
        self._partitions: dict[str, frozenset[int] | None] = {}

    @property
    def idle(self) -> bool:
        """Whether no partition is throttled at all."""
        return not self._partitions

    def is_throttled(self, topic: str, partition: int) -> bool:
        """Whether a partition's replica is one that the quota is for."""
        if topic not in self._partitions:
            return False
        chosen = self._partitions[topic]
        return chosen is None or partition in chosen

    def throttle(self, topic: str, partitions: frozenset[int] | None) -> None:
        """These partitions of a topic are throttled from now on; None means all."""
        self._partitions[topic] = partitions

    def release(self, topic: str) -> None:
        """No partition of this topic is throttled any more."""
        self._partitions.pop(topic, None)


class Throttles:
    """A broker's quotas: ``leader`` (sent to followers), ``follower`` (taken from leaders), ``log_dirs`` (moved between
    its own directories)."""

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
        """Follow the configuration from now on."""
        self._config.on_change(self._follow_rates)
        self._follow_rates(frozenset({LEADER_RATE}))
        self._metadata.add_listener(self._follow_topics)

    def close(self) -> None:
        """Follow it no more."""
        self._config.off_change(self._follow_rates)

    def add_metrics(self, metrics: MetricsRegistry) -> None:
        """Register Kafka's metrics: bytes per second of each kind."""
        for kind, quota in (
            ("LeaderReplication", self.leader),
            ("FollowerReplication", self.follower),
            ("AlterLogDirsReplication", self.log_dirs),
        ):
            metrics.gauge(f"kafka.server:type={kind},name=byte-rate", quota.bytes_per_second)

    def _follow_rates(self, changed: frozenset[str]) -> None:
        """Only what was set by request counts, as in Kafka."""
        if changed.isdisjoint((LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)):
            return
        given = {**self._config.dynamic_default, **self._config.dynamic_broker}
        for name, quota in ((LEADER_RATE, self.leader), (FOLLOWER_RATE, self.follower), (LOG_DIRS_RATE, self.log_dirs)):
            quota.rate = self._config[name] if name in given else UNLIMITED

    def _follow_topics(self, image: ClusterImage, delta: Delta) -> None:
        for resource, topic in delta.configs:
            if resource == ConfigResource.TOPIC:
                texts = image.topic_config(topic)
                self._mark(self.leader, topic, texts.get(LEADER_REPLICAS, ""))
                self._mark(self.follower, topic, texts.get(FOLLOWER_REPLICAS, ""))

    def _mark(self, quota: ReplicationQuota, topic: str, text: str) -> None:
        text = text.strip()
        if not text:
            quota.release(topic)
        elif text == "*":
            quota.throttle(topic, None)
        else:
            pairs = [entry.strip().split(":") for entry in text.split(",") if ":" in entry and len(entry) < PAIR_MAX]
            mine = frozenset(int(partition) for partition, broker in pairs if int(broker) == self._broker_id)
            quota.throttle(topic, mine)

"""The settings of one log: Kafka's topic-level properties as typed fields, defaults included.

The definitions, documentation and validation of the properties live in `kwire.base.config`. Times are in milliseconds,
sizes in bytes, as the properties' names say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

INT64_MAX = 0x7FFFFFFFFFFFFFFF

CODEC_NUMBERS = {"none": 0, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

# Properties whose field is not the name with underscores.
_RENAMED = {"kwire.validate.records": "validate_records"}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One topic's settings. ``LogConfig()`` has Kafka's defaults."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    index_interval_bytes: int = 4096
    internal_segment_bytes: int | None = None  # Kafka's override for tests: below the minimum of segment.bytes
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    validate_records: bool = False  # kwire.validate.records: walk every record of every batch, as Kafka does

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> LogConfig:
        """Settings from a mapping of property names to typed values. Names that do not concern a log are ignored;
        missing ones and None get Kafka's default. Equal settings are one object, which all partitions share."""
        chosen: dict[str, Any] = {}
        for name, value in values.items():
            attribute = _RENAMED.get(name) or name.replace(".", "_")
            if attribute in FIELD_NAMES and value is not None:
                chosen[attribute] = _policies(value) if attribute == "cleanup_policy" else value
        return _shared(cls(**chosen))

    @property
    def max_segment_bytes(self) -> int:
        """How large a segment may become."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes

    @property
    def roll_ms(self) -> int:
        """The age at which a segment is rolled: `segment.ms`, or `max.compaction.lag.ms` if that is less, since the
        active segment is never compacted."""
        if self.compacts and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def compacts(self) -> bool:
        """Whether `cleanup.policy` includes compact."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether `cleanup.policy` includes delete."""
        return "delete" in self.cleanup_policy

    @property
    def uses_log_append_time(self) -> bool:
        """Whether the broker stamps its own time on the records."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def target_codec(self) -> int | None:
        """The number of the compression that every batch must have; None if the producer's is kept."""
        return None if self.compression_type == "producer" else CODEC_NUMBERS[self.compression_type]

    @property
    def target_level(self) -> int | None:
        """The level to compress with; None if the codec has none or its default is configured."""
        level = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }.get(self.compression_type)
        return None if level is None or (level == -1 and self.compression_type == "gzip") else level


@lru_cache(maxsize=64)
def _shared(config: LogConfig) -> LogConfig:
    """The object of several equal ones that came first lately."""
    return config


FIELD_NAMES = frozenset(field.name for field in fields(LogConfig))


def _policies(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in names if name.strip())

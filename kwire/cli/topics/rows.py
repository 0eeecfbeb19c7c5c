"""What ``kwire topic`` prints."""

from __future__ import annotations

from typing import NamedTuple


class TopicRow(NamedTuple):
    """A topic of ``list`` and ``create``."""

    name: str
    partitions: int
    replication_factor: int


class PartitionRow(NamedTuple):
    """A partition of ``describe``. ``leader``: None without one."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]


class DescribedTopic(NamedTuple):
    """A topic of ``describe``. ``configs``: those that were set for it."""

    name: str
    id: str
    internal: bool
    partitions: list[PartitionRow]
    configs: dict[str, str | None]


class DeletedTopic(NamedTuple):
    """A topic of ``delete``."""

    name: str


class AlteredTopic(NamedTuple):
    """A topic of ``alter``, after it. ``partitions``: None if they were not altered."""

    name: str
    partitions: int | None
    configs: dict[str, str | None]


class TrimmedPartition(NamedTuple):
    """A partition of ``trim``. ``start``: its first offset afterwards."""

    topic: str
    partition: int
    before: int
    start: int


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

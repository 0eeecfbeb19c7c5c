"""A topology together with the topics of the cluster: its tasks, its internal topics, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class Status(IntEnum):
    """The status codes of StreamsGroupHeartbeat."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class InternalTopic(NamedTuple):
    """A repartition or changelog topic. ``replication_factor``: 0 in a configured topology and -1 in a topic that is to
    be created stand for the broker's `default.replication.factor`."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose numbers of partitions are known. Names are there once; internal topics are by name."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_source_topics: Mapping[str, InternalTopic]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: Mapping[str, InternalTopic]

    @property
    def stateful(self) -> bool:
        """Whether the subtopology has state that is kept in changelog topics."""
        return bool(self.state_changelog_topics)


class TopologyProblem(NamedTuple):
    """Why no tasks are assigned. ``detail`` names the topics; members receive it with the status."""

    status: Status
    detail: str


class ConfiguredTopology(NamedTuple):
    """``subtopologies``: sorted by id, None if they could not be configured. ``to_create``: the internal topics that
    are missing."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    to_create: tuple[InternalTopic, ...]
    problem: TopologyProblem | None

    @property
    def ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


class TopologyProblemError(Exception):
    """Ends the configuration of a topology with a problem."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.problem = TopologyProblem(status, detail)

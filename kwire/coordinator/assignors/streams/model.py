"""The input and output of the task assignor of streams groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

Tasks = Mapping[str, Collection[int]]
"""Subtopology id -> the partitions of its tasks."""


class TaskId(NamedTuple):
    """A task: one partition of one subtopology."""

    subtopology_id: str
    partition: int


class StreamsMemberSpec(NamedTuple):
    """One member, which is a stream thread: the process that it runs in, and its part of the last target assignment."""

    process_id: str
    active: Tasks
    standby: Tasks


class StreamsGroupSpec(NamedTuple):
    """A group. ``members`` are in the order in which Kafka puts them into its hash map; the assignor sorts them as that
    map does. ``standby_replicas``: `streams.num.standby.replicas`, the standby tasks wanted per stateful task."""

    members: Mapping[str, StreamsMemberSpec]
    standby_replicas: int


class SubtopologySpec(NamedTuple):
    """A subtopology. ``stateful``: it has state stores with changelog topics, so its tasks get standby tasks."""

    tasks: int
    stateful: bool


class MemberTasks(NamedTuple):
    """The tasks of one member by subtopology id, with partitions in ascending order."""

    active: dict[str, list[int]]
    standby: dict[str, list[int]]

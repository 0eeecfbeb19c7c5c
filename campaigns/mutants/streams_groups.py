"""Mutants of the pure parts of streams groups, which the comparison with Kafka's must notice
(`campaigns.streams_groups`)."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any
from unittest.mock import patch

from campaigns.mutants.mutant import Mutant
from campaigns.streams_groups import assignor, topology
from kwire.coordinator.assignors.streams import process, sticky
from kwire.coordinator.assignors.streams.model import TaskId
from kwire.coordinator.assignors.streams.priority_queue import PriorityQueue
from kwire.coordinator.groups.streams.topology import configure, partitions
from kwire.coordinator.groups.streams.topology.model import StreamsTopology, Subtopology
from kwire.coordinator.groups.streams.topology.partitions import PartitionCount, PartitionCounts
from kwire.coordinator.runtime.java_hash import hash_map_order


class _FirstInFirstOut(PriorityQueue[Any]):
    """Equal elements come out in the order in which they were put in."""

    def __init__(self, key: Any) -> None:
        super().__init__(key)
        self._entries: list[tuple[float, int, Any]] = []
        self._number = count()

    def __bool__(self) -> bool:
        return bool(self._entries)

    def push(self, item: Any) -> None:
        heapq.heappush(self._entries, (self._key(item), next(self._number), item))

    def pop(self) -> Any:
        return heapq.heappop(self._entries)[2]


def _fair_queue() -> Any:
    return patch.multiple(sticky, PriorityQueue=_FirstInFirstOut)


def _fair_queue_of_members() -> Any:
    return patch.multiple(process, PriorityQueue=_FirstInFirstOut)


def _room_for_sixteen() -> Any:
    return patch.object(sticky, "hash_map_order", lambda keys, _capacity=16: hash_map_order(keys))


def _fixed_quota() -> Any:
    return patch.object(sticky._Quota, "count", lambda _self, _count: None)


def _twice_in_a_process() -> Any:
    return patch.object(process.Process, "has", lambda _self, _task: False)


def _least_loaded_of_all() -> Any:
    least_loaded = sticky._least_loaded

    def mended(members: Any, task: TaskId | None) -> Any:
        able = [member for member in members if task is None or not member.process.has(task)]
        return least_loaded(able, task)

    return patch.object(sticky, "_least_loaded", mended)


def _order_as_sent() -> Any:
    return patch.object(StreamsTopology, "in_order", lambda self: list(self.subtopologies.values()))


def _names_as_sent() -> Any:
    return patch.object(configure, "hash_map_order", lambda names: list(dict.fromkeys(names)))


def _fixed_of_the_group() -> Any:
    copartition = partitions.copartition

    def narrow(topics: Any, fixed: frozenset[str], flexible: frozenset[str], counts: PartitionCounts) -> Any:
        return copartition(topics, fixed.intersection(topics), flexible, counts)

    return patch.object(partitions, "copartition", narrow)


def _patient_sinks() -> Any:
    known = partitions._known_input_partitions

    def patient(subtopology: Subtopology, counts: Any, existing: PartitionCount) -> int | None:
        if any(topic.name not in counts for topic in subtopology.repartition_source_topics):
            return None
        return known(subtopology, counts, existing)

    return patch.object(partitions, "_known_input_partitions", patient)


def _no_copartitioning() -> Any:
    return patch.object(configure, "_copartition_groups", lambda _subtopology: [])


def _code_points() -> Any:
    return patch.object(configure, "string_order", lambda text: text)


def _assignor(breaks: str, apply: Any) -> Mutant:
    return Mutant(breaks, apply, assignor.run_seeds, 1)


def _topology(breaks: str, apply: Any) -> Mutant:
    return Mutant(breaks, apply, topology.run_seeds, 1)


MUTANTS: dict[str, Mutant] = {
    "fair-queue-of-processes": _assignor("processes of equal load take turns", _fair_queue),
    "fair-queue-of-members": _assignor("members with equally many tasks take turns", _fair_queue_of_members),
    "room-for-sixteen": _assignor("the map of processes is as large as the number of members says", _room_for_sixteen),
    "fixed-quota": _assignor("the quota changes when a member has reached it", _fixed_quota),
    "twice-in-a-process": _assignor("a process has a task only once", _twice_in_a_process),
    "mended-least-loaded": _assignor("nobody is found if the first one has the task", _least_loaded_of_all),
    "order-as-sent": _topology("subtopologies are in the order of Java's map", _order_as_sent),
    "names-as-sent": _topology("topics are in the order of Java's sets", _names_as_sent),
    "fixed-of-the-group": _topology("fixed repartition topics of all groups count", _fixed_of_the_group),
    "patient-sinks": _topology("a sink is decided by those inputs that are known", _patient_sinks),
    "no-copartitioning": _topology("copartitioned topics have equally many partitions", _no_copartitioning),
    "code-points": _topology("names are sorted by UTF-16 units", _code_points),
}

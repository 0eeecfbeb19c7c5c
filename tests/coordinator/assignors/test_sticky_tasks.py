"""The sticky task assignor of streams groups. That its results are Kafka's: `campaigns.streams_groups.assignor`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.assignors.streams.model import (
    MemberTasks,
    StreamsGroupSpec,
    StreamsMemberSpec,
    SubtopologySpec,
)
from kwire.coordinator.assignors.streams.priority_queue import PriorityQueue
from kwire.coordinator.assignors.streams.sticky import assign_sticky

STATEFUL = {"0": SubtopologySpec(4, True)}
NOTHING = MemberTasks({}, {})


def group(
    processes: Mapping[str, str], before: Mapping[str, MemberTasks] | None = None, standby: int = 0
) -> StreamsGroupSpec:
    had = before or {}
    return StreamsGroupSpec(
        {one: StreamsMemberSpec(process, *had.get(one, NOTHING)) for one, process in processes.items()}, standby
    )


def test_tasks_are_spread_evenly() -> None:
    assignment = assign_sticky(
        group({"a": "p", "b": "q"}), {"0": SubtopologySpec(3, False), "1": SubtopologySpec(3, True)}
    )
    assert [sum(map(len, assignment[one].active.values())) for one in ("a", "b")] == [3, 3]
    assert not any(tasks.standby for tasks in assignment.values())


def test_tasks_stay_with_their_members_up_to_the_quota() -> None:
    before = {"a": MemberTasks({"0": [0, 1, 2, 3]}, {})}
    assert assign_sticky(group({"a": "p", "b": "q"}, before), STATEFUL) == {
        "a": MemberTasks({"0": [0, 1]}, {}),
        "b": MemberTasks({"0": [2, 3]}, {}),
    }


def test_a_member_with_the_standby_task_takes_over() -> None:
    before = {"b": MemberTasks({"0": [1, 2]}, {"0": [0, 3]}), "c": MemberTasks({}, {})}
    assignment = assign_sticky(group({"b": "q", "c": "r"}, {"c": MemberTasks({}, {"0": [3]}), **before}), STATEFUL)
    assert assignment["b"].active == {"0": [1, 2]}
    assert assignment["c"].active == {"0": [0, 3]}


def test_standby_tasks_are_in_other_processes() -> None:
    processes = {"a": "p", "b": "p", "c": "q", "d": "r"}
    first = assign_sticky(group(processes, standby=1), STATEFUL)
    for member_id, process in processes.items():
        held = {partition for one, other in processes.items() if other == process for partition in _active(first, one)}
        assert not held & set(first[member_id].standby.get("0", ()))
    assert sorted(partition for tasks in first.values() for partition in tasks.standby.get("0", ())) == [0, 1, 2, 3]


def test_stateless_subtopologies_have_no_standby_tasks() -> None:
    assignment = assign_sticky(group({"a": "p", "b": "q"}, standby=1), {"0": SubtopologySpec(2, False)})
    assert not any(tasks.standby for tasks in assignment.values())


def test_fewer_standby_tasks_than_wanted_if_there_are_too_few_processes() -> None:
    assignment = assign_sticky(group({"a": "p", "b": "p"}, standby=2), STATEFUL)
    assert not any(tasks.standby for tasks in assignment.values())


def test_tasks_without_members_are_refused() -> None:
    with pytest.raises(KafkaError) as refused:
        assign_sticky(group({}), STATEFUL)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert assign_sticky(group({}), {}) == {}


def test_equal_elements_leave_the_queue_as_in_java() -> None:
    queue: PriorityQueue[str] = PriorityQueue(lambda _: 0)
    for name in "abcdef":
        queue.push(name)
    assert [queue.pop() for _ in range(6)] == ["a", "f", "e", "d", "c", "b"]  # as java.util.PriorityQueue says
    assert not queue


def _active(assignment: Mapping[str, MemberTasks], member_id: str) -> list[int]:
    return assignment[member_id].active.get("0", [])

"""CreatePartitions and ElectLeaders, valid and invalid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from compat_tests.comparisons.admin.requests import Wire
from harness.observations import Observations
from kwire.codec.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.codec.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions


def grow(
    wire: Wire,
    *topics: tuple[str, int, list[list[int]] | None],
    version: int = 3,
    timeout_ms: int = 10_000,
    validate_only: bool = False,
) -> dict[str, int]:
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if assignments is None
                else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments],
            )
            for name, count, assignments in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    codes = {result.name: result.error_code for result in wire.call(request, version).results}
    if not validate_only:
        for name, count, _ in topics:
            if codes[name] == 0:
                wire.await_topics(name, partitions=count)
    return codes


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions(
    wire: Wire, made: Callable[..., str], observe: Observations, version: int
) -> None:
    name = made(2)
    observe("response", grow(wire, (name, 5, None), version=version))
    observe("afterwards", wire.describe(name))


def test_numbers_that_are_no_increase(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name = made(2)
    observe("codes", [grow(wire, (name, count, None)) for count in (2, 1, 0, -1)])


def test_growing_topics_that_are_not_there(wire: Wire, observe: Observations) -> None:
    observe("codes", [grow(wire, (name, 3, None)) for name in ("not-there", "", "a/b")])


def test_assignments_of_new_partitions(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name = made(2)
    cases: Sequence[list[list[int]]] = ([], [[1], [1]], [[]], [[99]], [[1, 1]], [[1, 99]])
    observe("codes", [grow(wire, (name, 3, case)) for case in cases])
    observe("good", grow(wire, (name, 4, [[1], [1]])))
    observe("afterwards", wire.describe(name))


def test_topics_of_one_request_stand_alone(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    twice, good = made(), made()
    observe("codes", grow(wire, (twice, 2, None), (twice, 3, None), (good, 2, None), ("not-there", 2, None)))
    observe("afterwards", wire.describe(twice, good))


def test_validate_only_adds_nothing(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name = made()
    observe("codes", grow(wire, (name, 4, None), validate_only=True))
    observe("afterwards", wire.describe(name))


def test_a_client_that_does_not_wait_for_partitions(
    wire: Wire, made: Callable[..., str], observe: Observations
) -> None:
    name = made()
    observe("partitions", grow(wire, (name, 4, None), timeout_ms=0))
    observe("leaders", elect(wire, [(name, [0])], timeout_ms=0))


def elect(
    wire: Wire,
    partitions: Sequence[tuple[str, list[int]]] | None,
    *,
    kind: int = 0,
    version: int = 2,
    timeout_ms: int = 10_000,
) -> Any:
    topics = None if partitions is None else [TopicPartitions(topic=name, partitions=ids) for name, ids in partitions]
    fields: dict[str, Any] = {"election_type": kind} if version >= 1 else {}
    response = wire.call(ElectLeadersRequest(topic_partitions=topics, timeout_ms=timeout_ms, **fields), version)
    results = [
        (result.topic, [(each.partition_id, each.error_code) for each in result.partition_result])
        for result in response.replica_election_results
    ]
    return [response.error_code, sorted(results)]


@pytest.mark.parametrize("version", range(3))
def test_elections_where_everybody_leads_already(
    wire: Wire, made: Callable[..., str], observe: Observations, version: int
) -> None:
    name = made(2)
    observe("some", elect(wire, [(name, [0, 7, 0]), ("not-there", [0]), ("", [-1])], version=version))
    observe("none", elect(wire, [], version=version))
    observe("no partitions", elect(wire, [(name, [])], version=version))
    observe("in two parts", elect(wire, [(name, [0]), (name, [1])], version=version))
    code, results = elect(wire, None, version=version)
    observe("all", [code, [result for result in results if result[0] == name]])


@pytest.mark.parametrize("kind", [1, 2, -1])
def test_other_kinds_of_elections(wire: Wire, made: Callable[..., str], observe: Observations, kind: int) -> None:
    name = made()
    observe("response", elect(wire, [(name, [0, 3]), ("not-there", [0])], kind=kind))

"""CreateTopics, valid and invalid: the same error codes, the same counts and the same topics afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.comparisons.admin.requests import Wire, facts, new_topic
from compat_tests.names import Names
from harness.observations import Observations
from kwire.codec.messages.create_topics_request import CreateTopicsRequest


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates_and_tells_the_same(
    wire: Wire, new_name: Names, observe: Observations, version: int
) -> None:
    one, defaults = new_name(), new_name()
    response = wire.create(new_topic(one, 3, configs=[("retention.ms", "5000")]), version=version)
    observe("numbers", facts(response[one]))
    if version >= 4:
        observe("defaults", facts(wire.create(new_topic(defaults, -1, -1), version=version)[defaults]))
    observe("afterwards", wire.describe(one, defaults))


def test_names(wire: Wire, made: Callable[..., str], new_name: Names, observe: Observations) -> None:
    there, dotted = made(), new_name() + ".dot"
    wire.create(new_topic(dotted))
    names = ["", ".", "..", "a/b", "ä", "a b", "a\n", "x" * 250, "__cluster_metadata", there, dotted.replace(".", "_")]
    observe("codes", [list(wire.codes(new_topic(name)).values()) for name in names])
    longest = (new_name() + "-" + "y" * 249)[:249]
    observe("longest", wire.codes(new_topic(longest)))


def test_names_that_collide_within_one_request(wire: Wire, new_name: Names, observe: Observations) -> None:
    name = new_name()
    observe("codes", wire.codes(new_topic(name + ".x"), new_topic(name + "_x")))


def test_a_name_that_comes_twice(wire: Wire, new_name: Names, observe: Observations) -> None:
    twice, other = new_name(), new_name()
    observe("codes", wire.codes(new_topic(twice), new_topic(twice, 2), new_topic(other)))
    observe("afterwards", wire.describe(twice, other))


@pytest.mark.parametrize("validate_only", [False, True])
def test_numbers(wire: Wire, new_name: Names, observe: Observations, validate_only: bool) -> None:
    pairs = [(0, 1), (-2, 1), (10_001, 1), (1, 0), (1, -2), (1, 2), (0, 0), (0, 5), (-1, 1), (1, -1), (2, 1)]
    codes = []
    for partitions, factor in pairs:
        name = new_name()
        codes.append(list(wire.codes(new_topic(name, partitions, factor), validate_only=validate_only).values()))
    observe("codes", codes)


def test_more_partitions_in_one_request_than_are_allowed(wire: Wire, new_name: Names, observe: Observations) -> None:
    topics = [new_topic(new_name(), 4000) for _ in range(3)]
    observe("codes", wire.codes(*topics, validate_only=True))


def test_assignments(wire: Wire, new_name: Names, observe: Observations) -> None:
    cases: list[list[tuple[int, list[int]]]] = [
        [(0, [])],
        [(0, [1, 1])],
        [(0, [99])],
        [(0, [1]), (2, [1])],
        [(0, [1]), (0, [1])],
        [(-1, [1])],
        [(0, [1]), (1, [1, 99])],
        [(1, [1]), (0, [1])],
    ]
    codes = []
    for case in cases:
        name = new_name()
        codes.append(list(wire.codes(new_topic(name, -1, -1, assignments=case)).values()))
    observe("codes", codes)
    observe("with a number", wire.codes(new_topic(new_name(), 1, -1, assignments=[(0, [1])])))
    observe("with a factor", wire.codes(new_topic(new_name(), -1, 1, assignments=[(0, [1])])))
    good = new_name()
    wire.create(new_topic(good, -1, -1, assignments=[(1, [1]), (0, [1])]))
    observe("afterwards", wire.describe(good))


def test_properties(wire: Wire, new_name: Names, observe: Observations) -> None:
    cases = [
        ("retention.ms", "abc"),
        ("retention.ms", "-2"),
        ("retention.ms", None),
        ("retention.ms", " 5 "),
        ("nonsense", "1"),
        ("", ""),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", "shred"),
        ("cleanup.policy", ""),
        ("min.compaction.lag.ms", "9223372036854775807"),
        ("segment.bytes", "5"),
        ("unclean.leader.election.enable", "maybe"),
        ("unclean.leader.election.enable", "TRUE"),
        ("compression.type", "ZSTD"),
        ("message.timestamp.type", "LogAppendTime"),
        ("remote.storage.enable", "true"),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "7"),
    ]
    codes = []
    for case in cases:
        name = new_name()
        codes.append((case, list(wire.codes(new_topic(name, configs=[case])).values())))
    observe("codes", codes)
    name = new_name()
    response = wire.create(new_topic(name, configs=[("retention.ms", "7"), ("retention.ms", "8")]))[name]
    observe("given twice", [facts(each) for each in response.configs or () if each.name == "retention.ms"])


def test_the_first_of_several_mistakes_is_told(
    wire: Wire, made: Callable[..., str], new_name: Names, observe: Observations
) -> None:
    bad, there = [("nonsense", "1")], made()
    observe("property, then number", list(wire.codes(new_topic(new_name(), 0, configs=bad)).values()))
    observe("property, then factor", list(wire.codes(new_topic(new_name(), 1, 9, configs=bad)).values()))
    observe("too many, then property", list(wire.codes(new_topic(new_name(), 10_001, configs=bad)).values()))
    observe("existence, then number", list(wire.codes(new_topic(there, 0)).values()))
    observe("name, then property", list(wire.codes(new_topic("a/b", 0, configs=bad)).values()))
    observe(
        "null property, then number", list(wire.codes(new_topic(new_name(), 0, configs=[("flush.ms", None)])).values())
    )


def test_validate_only_changes_nothing(wire: Wire, new_name: Names, observe: Observations) -> None:
    name = new_name()
    observe("response", facts(wire.create(new_topic(name, 3), validate_only=True)[name]))
    observe("afterwards", wire.describe(name))


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_client_that_does_not_wait(wire: Wire, new_name: Names, observe: Observations, timeout_ms: int) -> None:
    name = new_name()
    observe("codes", wire.codes(new_topic(name), timeout_ms=timeout_ms))


def test_an_empty_request(wire: Wire, observe: Observations) -> None:
    observe("response", facts(wire.call(CreateTopicsRequest(topics=[]), 7)))

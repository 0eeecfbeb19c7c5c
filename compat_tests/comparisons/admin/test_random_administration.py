"""Random administration of a few topics, valid and invalid: the same error codes and topics on both brokers."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from compat_tests.comparisons.admin.requests import Wire, new_topic
from compat_tests.comparisons.admin.test_delete_topics import delete
from compat_tests.comparisons.admin.test_partitions_and_leaders import elect, grow
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import wait_until

CONFIGS = [("retention.ms", "1000"), ("retention.ms", "x"), ("cleanup.policy", "compact"), ("no.such", "1")]


class Script:
    """Random requests about few names, so that they affect each other."""

    def __init__(self, wire: Wire, names: list[str], seed: int) -> None:
        self._wire = wire
        self._names = names
        self._random = random.Random(seed)

    def step(self) -> Any:
        return self._random.choice(
            (self._create, self._create, self._delete, self._grow, self._elect, self._describe)
        )()

    def _some(self, most: int) -> list[str]:
        return [self._random.choice(self._names) for _ in range(self._random.randint(1, most))]

    def _create(self) -> Any:
        draw = self._random
        topics = []
        for name in self._some(3):
            if draw.random() < 0.3:
                assignments = [(draw.randint(0, 2), draw.choice(([1], [1], [1], [], [2], [1, 1]))) for _ in range(2)]
                topics.append(new_topic(name, draw.choice((-1, -1, 1)), -1, assignments=assignments))
            else:
                configs = [draw.choice(CONFIGS)] if draw.random() < 0.4 else []
                partitions, factor = draw.choice((-1, 0, 1, 2, 3)), draw.choice((-1, 1, 1, 1, 2))
                topics.append(new_topic(name, partitions, factor, configs=configs))
        validate_only = draw.random() < 0.2
        return ["create", self._wire.codes(*topics, version=draw.randint(4, 7), validate_only=validate_only)]

    def _delete(self) -> Any:
        results = delete(self._wire, *self._some(2), version=self._random.randint(1, 6))
        for name, _, code in results:
            if code == 0:
                wait_until(partial(self._is_gone, name), 10, "the topic is gone")
        return ["delete", results]

    def _is_gone(self, name: str) -> bool:
        return bool(self._wire.describe(name)[name]["error_code"] != 0)

    def _grow(self) -> Any:
        draw = self._random
        topics = [
            (name, draw.randint(0, 6), draw.choice((None, None, [[1]], [[1], [1]], [[2]]))) for name in self._some(2)
        ]
        return ["grow", grow(self._wire, *topics, version=draw.randint(0, 3), validate_only=draw.random() < 0.2)]

    def _elect(self) -> Any:
        return ["elect", elect(self._wire, [(name, [0, 2]) for name in sorted(set(self._some(2)))])]

    def _describe(self) -> Any:
        return ["describe", self._wire.describe(*self._names, version=self._random.randint(4, 13))]


@pytest.mark.parametrize("seed", range(4))
def test_the_same_script_on_both_brokers(wire: Wire, new_name: Names, observe: Observations, seed: int) -> None:
    stem = new_name("random")
    names = [f"{stem}.{letter}" for letter in "abc"] + [f"{stem}_a", f"{stem}/bad"]
    script = Script(wire, names, seed)
    for number in range(60):
        observe(f"step {number}", script.step())
    observe("in the end", wire.describe(*names))

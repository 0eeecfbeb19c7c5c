"""State batches are combined: for each offset the greatest delivery holds."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from kwire.coordinator.share.batches import StateBatch, combine

Delivery = tuple[int, int]


def batch(text: str) -> StateBatch:
    """``0-9 c1 s2`` as a batch."""
    offsets, count, state = text.split()
    first, last = map(int, offsets.split("-"))
    return StateBatch(first, last, int(count[1:]), int(state[1:]))


@pytest.mark.parametrize(
    ("given", "start", "expected"),
    [
        ([], -1, []),
        (["5-9 c1 s0"], 7, ["7-9 c1 s0"]),
        (["5-9 c1 s0"], 10, []),
        (["0-4 c1 s2", "5-9 c1 s2"], -1, ["0-9 c1 s2"]),
        (["0-4 c1 s2", "5-9 c2 s2"], -1, ["0-4 c1 s2", "5-9 c2 s2"]),
        (["0-9 c1 s0", "3-5 c1 s2"], -1, ["0-2 c1 s0", "3-5 c1 s2", "6-9 c1 s0"]),
        (["0-9 c2 s0", "3-5 c1 s2"], -1, ["0-9 c2 s0"]),
        (["0-5 c2 s0", "3-9 c1 s2"], -1, ["0-5 c2 s0", "6-9 c1 s2"]),
        (["0-5 c1 s0", "3-9 c1 s2"], -1, ["0-2 c1 s0", "3-9 c1 s2"]),
        (["0-5 c1 s0", "0-9 c1 s2"], -1, ["0-9 c1 s2"]),
        (["0-5 c1 s0", "0-9 c2 s0", "0-9 c2 s4"], 2, ["2-9 c2 s4"]),
        (["0-9 c2 s0", "10-12 c1 s0", "10-20 c2 s0"], -1, ["0-9 c2 s0", "10-20 c2 s0"]),  # as Kafka leaves it
    ],
)
def test_two_become_one(given: list[str], start: int, expected: list[str]) -> None:
    assert combine(map(batch, given), start) == [batch(each) for each in expected]


@pytest.mark.parametrize("seed", range(20))
def test_every_offset_has_its_greatest_delivery(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(100):
        given = [random_batch(choose) for _ in range(choose.randrange(8))]
        start = choose.choice((-1, 0, 5, 20))
        combined = combine(given, start)
        assert deliveries(combined, -1) == deliveries(given, start)
        assert all(lower.last_offset < upper.first_offset for lower, upper in pairwise(combined))


def random_batch(choose: random.Random) -> StateBatch:
    first = choose.randrange(30)
    return StateBatch(first, first + choose.randrange(12), choose.randrange(1, 4), choose.choice((0, 2, 4)))


def deliveries(batches: list[StateBatch], start: int) -> dict[int, Delivery]:
    found: dict[int, Delivery] = {}
    for each in batches:
        for offset in range(max(each.first_offset, start), each.last_offset + 1):
            found[offset] = max(found.get(offset, (0, 0)), each.delivery)
    return found

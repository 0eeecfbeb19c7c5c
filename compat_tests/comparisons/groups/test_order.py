"""The order in which Java's and Kafka's hash maps iterate, which responses about groups show."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from compat_tests.java_programs import answers
from kwire.cluster.metadata.image import OFFSETS_TOPIC
from kwire.coordinator.runtime.java_hash import (
    hash_map_order,
    partitions_order,
    timeline_map_order,
    timeline_map_order_of_numbers,
)

SOURCE = Path(__file__).with_name("OrderOracle.java")
MAPS = 500

Order = Callable[[list[str]], list[str]]


def numbers(order: Callable[[list[int]], list[int]]) -> Order:
    return lambda words: [str(number) for number in order([int(word) for word in words])]


ORDERS: dict[str, Order] = {
    "hash-map": hash_map_order,
    "timeline": timeline_map_order,
    "timeline-numbers": numbers(timeline_map_order_of_numbers),
    "partitions": numbers(lambda indexes: partitions_order(OFFSETS_TOPIC, indexes)),
}


def test_maps_are_in_javas_order() -> None:
    chance = random.Random(1)
    questions, expected = [], []
    for kind, order in ORDERS.items():
        for _ in range(MAPS):
            count = chance.choice((1, 2, 3, 5, 8, 13, 30, 100))
            keys = [str(number) for number in chance.sample(range(200), count)]
            if kind in ("hash-map", "timeline"):
                keys = [f"{chance.choice(('group', 'g', 'member-'))}{key}" for key in keys]
            questions.append(" ".join([kind, *keys]))
            expected.append(" ".join(order(keys)))
    for question, ours, javas in zip(questions, expected, answers(SOURCE, questions), strict=True):
        assert ours == javas, question

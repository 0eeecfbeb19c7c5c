"""Replicas of new partitions are placed where Kafka's own `StripedReplicaPlacer` would place them."""

from __future__ import annotations

import random
import re
from pathlib import Path

from compat_tests.java_programs import answers
from kwire.base.errors import KafkaError
from kwire.cluster.metadata.image import BrokerImage, ClusterImage
from kwire.cluster.placement import place

SOURCE = Path(__file__).with_name("PlacementOracle.java")
CLUSTERS = 2000


class Constant:
    """Draws the same number each time, as the oracle does."""

    def __init__(self, number: int) -> None:
        self._number = number

    def randrange(self, stop: int, /) -> int:
        return self._number % stop


def refusal(text: str) -> str:
    """An error message up to the point where Kafka goes on about cordoned log directories, and kwire about brokers in
    controlled shutdown."""
    text = text.partition(" time(s): ")[2] or text  # Kafka's controller adds this, not its placer
    return re.split(r"[.,]| or ", text)[0] if text.startswith(("All", "The")) else text


def placed(image: ClusterImage, partitions: int, factor: int, number: int) -> str:
    try:
        found = place(image, partitions, factor, Constant(number))
    except KafkaError as error:
        return refusal(error.message or "")
    return " ".join(f"[{','.join(map(str, replicas))}]" for replicas in found)


def test_replicas_are_placed_where_kafka_places_them() -> None:
    questions, expected = [], []
    for seed in range(CLUSTERS):
        chance = random.Random(seed)
        racks = [
            chance.choice(["-", "a", "b", "c", "d"][: chance.randrange(1, 6)]) for _ in range(chance.randrange(1, 11))
        ]
        fenced = {each for each in range(len(racks)) if chance.random() < 0.25}
        partitions, factor = chance.randrange(1, 60), chance.randrange(1, len(racks) + 2)
        number = chance.randrange(100)
        brokers = [f"{rack}:{'fenced' if each in fenced else 'live'}" for each, rack in enumerate(racks)]
        questions.append(" ".join([str(number), str(partitions), str(factor), *brokers]))
        registered = {each: BrokerImage(each, 1, {}, None if rack == "-" else rack) for each, rack in enumerate(racks)}
        live = {each: broker for each, broker in registered.items() if each not in fenced}
        expected.append(placed(ClusterImage(brokers=live, registered=registered), partitions, factor, number))
    for question, ours, kafkas in zip(questions, expected, answers(SOURCE, questions), strict=True):
        assert ours == refusal(kafkas), question

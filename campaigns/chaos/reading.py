"""Read whole topics at the end of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from harness.optional import present

STALL_S = 60.0


class ReadingFailed(Exception):
    """A topic could not be read to its end."""


def read_all(client: Mapping[str, Any], topic: str, partitions: int, isolation: str) -> dict[int, dict[int, int]]:
    """All that a consumer of this isolation level reads: value by offset, by partition. ``client``: its options. Raises
    `ReadingFailed`."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            **client,
            "group.id": f"last of {topic}",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    logs: dict[int, dict[int, int]] = {partition: {} for partition in range(partitions)}
    ends: set[int] = set()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in logs])
    moved = time.monotonic()
    try:
        while len(ends) < partitions:
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    logs[present(message.partition())][present(message.offset())] = int(present(message.value()))
                    moved = time.monotonic()
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends.add(present(message.partition()))
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    raise ReadingFailed(f"{topic}: {error.str()}")
            if time.monotonic() > moved + STALL_S:
                raise ReadingFailed(f"{topic}, {isolation}: partitions without an end {sorted(set(logs) - ends)}")
    finally:
        consumer.close()
    return logs

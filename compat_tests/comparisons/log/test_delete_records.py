"""DeleteRecords moves the log start offset only; the retention check deletes files and expired records."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer, TopicPartition

from harness.processes.brokers import Broker, wait_until


def test_files_go_with_the_next_retention_pass(broker_factory: Callable[..., Broker], topic: str) -> None:
    """Four segments of 1 MiB: after DeleteRecords into the third one all files exist; later two are deleted.

    DeleteRecords does not remove records older than retention.ms either. The first retention pass comes after a
    restart, so that it cannot be taken for DeleteRecords."""
    from confluent_kafka.admin import AdminClient, NewTopic

    delays = ("log.retention.check.interval.ms", "log.initial.task.delay.ms")
    broker = broker_factory(dict.fromkeys(delays, "3600000"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    config = {"segment.bytes": "1048576", "file.delete.delay.ms": "0", "retention.ms": "5000"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    producer: Any = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 10})
    for i in range(400):
        producer.produce(topic, os.urandom(9000), partition=0, timestamp=(time.time_ns() // 1_000_000) - 3_600_000)
        if i % 10 == 9:
            producer.flush()
    directory = broker.data_dir / f"{topic}-0"

    def segments() -> list[int]:
        return sorted(int(path.stem) for path in directory.glob("*.log"))

    before = segments()
    assert len(before) == 4
    deleted = admin.delete_records([TopicPartition(topic, 0, before[2] + 5)])
    assert next(iter(deleted.values())).result(30).low_watermark == before[2] + 5
    assert segments() == before
    broker.stop()
    broker.settings |= dict.fromkeys(delays, "1000")
    broker.start()
    wait_until(lambda: segments() and segments()[0] >= before[2], 40, "the retention pass")

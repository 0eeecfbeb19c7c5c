"""`Witness`: a consumer that follows topics from their beginning, and knows what brokers have served."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from campaigns.segment_files.verdict import Ledger, Row, make_row

Partition = tuple[str, int]
_WAIT_S = 90.0


class Late(Exception):
    """A consumer was not given an offset."""


class Witness:
    """Follows partitions on a thread of its own. ``ledgers``: what it was given of each."""

    def __init__(self, bootstrap: str, partitions: Iterable[Partition], *, committed: bool) -> None:
        self.ledgers = {each: Ledger() for each in partitions}
        self._committed = committed
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"witness-{committed}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(*each, 0) for each in self.ledgers])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, partition: Partition, end: int) -> Ledger:
        """The ledger of a partition when it has all before an offset. `Late`."""
        ledger = self.ledgers[partition]
        limit_s = time.monotonic() + _WAIT_S
        while ledger.reached < end:
            if time.monotonic() > limit_s:
                kind = "committed" if self._committed else "all"
                name = f"{partition[0]}-{partition[1]}"
                raise Late(f"{name}: offset {end} was shown, and a consumer ({kind}) is given {ledger.reached} only")
            time.sleep(0.01)
        return ledger

    def high_watermark(self, partition: Partition) -> int:
        """What the leader says now."""
        _, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), 10, False)
        return int(high)

    def close(self) -> None:
        """Stop following."""
        self._ended.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(1000, 0.05):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    continue  # a broker is down; the consumer tries again
                ledger = self.ledgers[message.topic() or "", message.partition() or 0]
                if error is None:
                    self._note(ledger, message, message.offset() or 0)
                else:
                    ledger.reached = max(ledger.reached, message.offset() or 0)

    def _note(self, ledger: Ledger, message: Any, offset: int) -> None:
        low = self._consumer.get_watermark_offsets(TopicPartition(message.topic(), message.partition()), cached=True)[0]
        if ledger.reached < min(low, offset):
            ledger.missed.append((ledger.reached, min(low, offset)))
        ledger.add(row_of(message))


def row_of(message: Any) -> Row:
    """A consumed or delivered message as it is compared."""
    headers = tuple(message.headers() or ())
    return make_row(message.offset(), message.timestamp()[1], message.key(), message.value(), headers)

"""The topics of the campaign, and the threads that write them until they are closed."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from campaigns.segment_files.verdict import Row
from campaigns.segment_files.witness import row_of

PLAIN, COMPACTED, TRANSACTIONS, AGAIN = "plain", "compacted", "transactions", "again"
PARTITIONS: Final = 2
_SMALL: Final = {"internal.segment.bytes": "16384", "file.delete.delay.ms": "200", "retention.ms": "-1"}
CONFIGS: Final = {
    PLAIN: _SMALL,
    TRANSACTIONS: _SMALL,
    AGAIN: _SMALL,
    COMPACTED: {
        **_SMALL,
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "1000",
    },
}
_KEYS: Final = 150
_RECORDS: Final = 25
_PAUSE_S: Final = 0.05
SHORT_S: Final = (0.0, 0.02, 0.1, 0.5)
LONG_S: Final = (2.0, 4.0, 6.0)
"""Longer than a read takes, so that it sees open transactions."""


class Writer:
    """A thread that writes whatever happens to the brokers."""

    def __init__(self, bootstrap: str, seed: int, **settings: Any) -> None:
        self._chance = random.Random(seed)
        patience = {
            "message.timeout.ms": 4000,
            "reconnect.backoff.max.ms": 300,
            "topic.metadata.refresh.interval.ms": 500,
        }
        self._settings = {"bootstrap.servers": bootstrap, "linger.ms": 2, "log_level": 0, **patience, **settings}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop writing."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(KafkaException, BufferError):
                self._write()
            time.sleep(_PAUSE_S)

    def _write(self) -> None:
        """Write until the end, or until the producer fails."""
        raise NotImplementedError

    def _value(self, number: int) -> bytes:
        return b"%d %s" % (number, b"x" * self._chance.randrange(300))


class RecordWriter(Writer):
    """Records with and without keys and headers, acknowledged by the leader alone: some are lost with it. The compacted
    topic has few keys, and tombstones."""

    def _write(self) -> None:
        producer, number = Producer({**self._settings, "acks": 1}), 0
        chance = self._chance
        while not self._ended.is_set():
            for _ in range(_RECORDS):
                number += 1
                key = b"key %d" % number if number % 3 else None
                headers: Any = [("number", b"%d" % number), ("empty", None)] if number % 50 == 0 else None
                producer.produce(PLAIN, self._value(number), key, chance.randrange(PARTITIONS), headers=headers)
                own = chance.randrange(_KEYS)
                value = None if chance.random() < 0.05 else self._value(number)
                producer.produce(COMPACTED, value, b"%d" % own, own % PARTITIONS)
            producer.poll(0)
            time.sleep(_PAUSE_S)
        producer.flush(5)


class TransactionWriter(Writer):
    """Transactions that are committed, aborted or left open for a while. ``pauses_s``: how long they may be open."""

    def __init__(self, bootstrap: str, seed: int, name: str, pauses_s: Sequence[float]) -> None:
        self._pauses_s = pauses_s
        super().__init__(bootstrap, seed, **{"transactional.id": name})

    def _write(self) -> None:
        chance = self._chance
        producer = Producer(self._settings)
        producer.init_transactions(10)
        number = 0
        while not self._ended.is_set():
            producer.begin_transaction()
            for _ in range(chance.randrange(1, 30)):
                number += 1
                producer.produce(TRANSACTIONS, self._value(number), b"%d" % number, chance.randrange(PARTITIONS))
            producer.flush(5)
            self._ended.wait(chance.choice(self._pauses_s))
            if chance.random() < 0.5:
                producer.commit_transaction(10)
            else:
                producer.abort_transaction(10)


def fill(bootstrap: str, chance: random.Random, life: int) -> dict[int, list[Row]]:
    """Write the topic that is made again, and return what it has, by partition."""
    written: dict[int, list[Row]] = {partition: [] for partition in range(PARTITIONS)}

    def delivered(error: object, message: Any) -> None:
        if error is not None:
            raise RuntimeError(f"{AGAIN} cannot be written: {error}")
        written[message.partition()].append(row_of(message))

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 0})
    for number in range(chance.randrange(300, 600)):
        value = b"life %d: %d %s" % (life, number, b"y" * chance.randrange(200))
        producer.produce(AGAIN, value, None, number % PARTITIONS, delivered)
        if number % 20 == 0:
            producer.flush(30)
    if producer.flush(30):
        raise RuntimeError(f"{AGAIN} cannot be written")
    return {partition: sorted(rows) for partition, rows in written.items()}

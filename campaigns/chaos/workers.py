"""The clients of a run, a process each: real client libraries that carry out operations and record the results.

``python -m campaigns.chaos.workers JOB`` with `Job` as JSON. A worker goes on until `until`, finishes what it has
begun, and ends; consumers then wait for the end of standard input, read everything to the end, and end. A worker
without progress ends itself (a watchdog), because clients can hang (`harness/copier.py` has details). The campaign
starts the next instance, which continues where the history of the last one ends.
"""

from __future__ import annotations

import asyncio
import faulthandler
import itertools
import json
import os
import random
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from campaigns.chaos.history import Writer, read_events
from harness.optional import present

TOPIC = "t"
COPIES = "copies"
GROUP = "copiers"
DEBUG = "KWIRE_CHAOS_DEBUG"
"""An environment variable: the debug contexts of the copiers' consumers ("cgrp,topic")."""
WATCHDOG_S = 75
TRANSACTION_MS = 15_000
CALL_S = 15
PER_COPY = 200
IDLE_S = 30
"""A copier that receives nothing for this long connects anew."""
LONG_DELIVERY_MS = 120_000
SHORT_DELIVERY_MS = 4_000
ABORTS = 0.25
READS = 0.4


@dataclass(frozen=True)
class Job:
    """The work of one worker. ``role``: a key of `ROLES`; ``until``: wall clock, seconds."""

    name: str
    role: str
    instance: int
    bootstrap: str
    partitions: int
    until: float
    rate: float
    seed: int
    history: str
    security: dict[str, Any] = field(default_factory=dict)
    """The options of `ClusterSecurity.as_json`; empty without TLS and logins."""

    def text(self) -> str:
        """The job as JSON, for the worker's command line."""
        return json.dumps(asdict(self))


class Worker:
    """What all workers share: history, randomness, values, watchdog."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.write = Writer(Path(job.history), f"{job.name}.{job.instance}")
        self.random = random.Random(f"{job.seed} {job.name} {job.instance}")
        first = (int(job.name[1:]) * 1000 + job.instance) * 1_000_000 + ord(job.name[0]) * 10**12
        self.values: Iterator[int] = itertools.count(first)

    @property
    def over(self) -> bool:
        """Whether the time of the run is over."""
        return time.time() >= self.job.until

    def alive(self) -> None:
        """Restart the watchdog: there is progress."""
        faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)

    def trouble(self, error: object) -> None:
        """Record something that must not happen."""
        self.write("info", "trouble", error=str(error))


def _common(job: Job) -> dict[str, Any]:
    return {
        "bootstrap.servers": job.bootstrap,
        **job.security.get("librdkafka", {}),
        "client.id": f"{job.name}.{job.instance}",
        "socket.timeout.ms": 10_000,
        "reconnect.backoff.max.ms": 500,
        "log_level": 3,
    }


def _of_aiokafka(job: Job) -> dict[str, Any]:
    """The options of aiokafka for TLS and the login."""
    if not job.security:
        return {}
    return {**job.security["python"], "ssl_context": ssl.create_default_context(cafile=job.security["trusted"])}


# Sending


def produce(job: Job) -> None:
    """librdkafka, idempotent, acks=all: single records at a steady rate, without waiting for responses."""
    from confluent_kafka import Producer

    worker = Worker(job)
    waiting: dict[int, int] = {}

    def delivered(error: Any, message: Any) -> None:
        worker.alive()
        value = int(message.value())
        partition = waiting.pop(value)
        if error is None:
            worker.write("ok", "send", value=value, partition=partition, offset=message.offset())
        else:
            worker.write("info", "send", value=value, partition=partition, error=error.name())

    def fatal(error: Any) -> None:
        if error.code() == error._FATAL:
            worker.trouble(f"fatal: {error.str()}")

    config = {"enable.idempotence": True, "acks": "all", "linger.ms": 2, "error_cb": fatal}
    producer = Producer({**_common(job), **config, "delivery.timeout.ms": LONG_DELIVERY_MS})
    began, sent = time.time(), 0
    while not worker.over:
        due = int((time.time() - began) * job.rate)
        while sent < due:
            sent += 1
            value, partition = next(worker.values), worker.random.randrange(job.partitions)
            worker.write("invoke", "send", value=value, partition=partition)
            waiting[value] = partition
            try:
                producer.produce(TOPIC, b"%d" % value, partition=partition, on_delivery=delivered)
            except BufferError as error:  # the queue is full
                waiting.pop(value)
                worker.write("fail", "send", value=value, partition=partition, error=str(error))
        producer.poll(0.01)
    while producer.flush(1):
        pass


def produce_singly(job: Job) -> None:
    """librdkafka, idempotent, acks=all, one record at a time, given up after a short while.

    One at a time, because of the records in flight when another record of their batch expires: librdkafka sends them
    once more under a new producer epoch, even if they were written before (the logs show both). No broker can recognise
    them as duplicates.
    """
    from confluent_kafka import Producer

    worker = Worker(job)
    config = {"enable.idempotence": True, "acks": "all", "linger.ms": 0, "delivery.timeout.ms": SHORT_DELIVERY_MS}
    producer = Producer({**_common(job), **config})
    results: list[tuple[Any, Any]] = []
    while not worker.over:
        worker.alive()
        value, partition = next(worker.values), worker.random.randrange(job.partitions)
        began = time.time()
        worker.write("invoke", "send", value=value, partition=partition)
        producer.produce(TOPIC, b"%d" % value, partition=partition, on_delivery=lambda *result: results.append(result))
        while not results:
            producer.poll(0.5)
        error, message = results.pop()
        if error is None:
            worker.write("ok", "send", value=value, partition=partition, offset=message.offset())
        else:
            worker.write("info", "send", value=value, partition=partition, error=error.name())
        producer.poll(max(0.0, began + 1 / job.rate - time.time()))


def produce_aiokafka(job: Job) -> None:
    """aiokafka, idempotent, acks=all."""
    asyncio.run(_produce_aiokafka(job))


async def _produce_aiokafka(job: Job) -> None:
    from aiokafka import AIOKafkaProducer

    worker = Worker(job)
    # Its request_timeout_ms bounds a record's time, too: one that expires leaves a gap in the sequence.
    producer = AIOKafkaProducer(
        bootstrap_servers=job.bootstrap,
        enable_idempotence=True,
        acks="all",
        request_timeout_ms=60_000,
        metadata_max_age_ms=5_000,
        **_of_aiokafka(job),
    )
    await producer.start()
    pending: set[asyncio.Task[None]] = set()
    began, sent = time.time(), 0

    async def wait(value: int, partition: int, future: Any) -> None:
        try:
            found = await future
        except Exception as error:
            worker.write("info", "send", value=value, partition=partition, error=f"{type(error).__name__} {error}")
        else:
            worker.write("ok", "send", value=value, partition=partition, offset=found.offset)
        worker.alive()

    while not worker.over:
        due = int((time.time() - began) * job.rate)
        while sent < due:
            sent += 1
            value, partition = next(worker.values), worker.random.randrange(job.partitions)
            worker.write("invoke", "send", value=value, partition=partition)
            future = await producer.send(TOPIC, b"%d" % value, partition=partition)
            task = asyncio.ensure_future(wait(value, partition, future))
            pending.add(task)
            task.add_done_callback(pending.discard)
        await asyncio.sleep(0.02)
    await asyncio.gather(*pending)
    await producer.stop()


# Reading


def end_of_input() -> threading.Event:
    """An event that is set at the end of standard input, which the campaign closes when consumers are to drain."""
    drain = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        drain.set()

    threading.Thread(target=wait, daemon=True).start()
    return drain


class Reader:
    """A consumer with assigned partitions; it continues where the history under its name ends."""

    def __init__(self, worker: Worker, name: str, isolation: str) -> None:
        from confluent_kafka import Consumer

        self._worker = worker
        self._isolation = isolation
        self._name = name
        self._ends: set[int] = set()
        self._next = dict.fromkeys(range(worker.job.partitions), 0)
        for event in read_events(Path(worker.job.history)):
            if event["f"] == "poll" and event["type"] == "ok" and event["name"] == name:
                for partition, offset, _ in event["records"]:
                    self._next[partition] = offset + 1
        self._consumer = Consumer(
            {
                **_common(worker.job),
                "group.id": name,
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 300,
            }
        )
        self.assign()

    def assign(self) -> None:
        """Assign all partitions at the current positions."""
        from confluent_kafka import TopicPartition

        self._ends = set()
        self._consumer.assign([TopicPartition(TOPIC, partition, offset) for partition, offset in self._next.items()])

    def poll(self, timeout_s: float, count: int = 100) -> list[int]:
        """The values of one poll."""
        from confluent_kafka import KafkaError

        records = []
        for message in self._consumer.consume(count, timeout_s):
            error = message.error()
            if error is None:
                partition, offset = present(message.partition()), present(message.offset())
                records.append((partition, offset, int(present(message.value()))))
                self._next[partition] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ends.add(present(message.partition()))
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                self._worker.trouble(f"{self._name}, next {self._next}: {error.str()}")
                self.assign()
            else:
                self._worker.write("info", "poll", name=self._name, error=error.str())
        if records:
            self._worker.write("ok", "poll", name=self._name, isolation=self._isolation, records=records)
        return [value for _, _, value in records]

    def read_to_end(self) -> None:
        """Read until the end of every partition is reached."""
        self.assign()
        while len(self._ends) < self._worker.job.partitions:
            if self.poll(0.5):
                self._worker.alive()

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def consume(job: Job) -> None:
    """Read with read_uncommitted until the campaign closes standard input, then to the end."""
    _consume(job, "read_uncommitted")


def consume_committed(job: Job) -> None:
    """As `consume`, with read_committed."""
    _consume(job, "read_committed")


def _consume(job: Job, isolation: str) -> None:
    worker = Worker(job)
    reader = Reader(worker, job.name, isolation)
    drain = end_of_input()
    while not drain.is_set():
        worker.alive()  # a poll without records is fine
        reader.poll(0.2)
    reader.read_to_end()
    reader.close()


# Transactions


class Transactions:
    """A transactional librdkafka producer, which is replaced when it cannot go on."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._made: Any = None
        self.more: dict[str, Any] = {}

    @property
    def producer(self) -> Any:
        """The producer, ready to begin a transaction. InitProducerId ends what an earlier one has left open."""
        from confluent_kafka import KafkaException, Producer

        while self._made is None:
            job = self._worker.job
            made = Producer(
                {
                    **_common(job),
                    "transactional.id": f"txn-{job.name}",
                    "transaction.timeout.ms": TRANSACTION_MS,
                    **self.more,
                }
            )
            try:
                made.init_transactions(CALL_S)
                self._made = made
            except KafkaException as error:
                self._worker.write("info", "init", error=str(error.args[0]))
        return self._made

    def end(self, wanted: str) -> str:
        """Commit or abort: "ok", "fail" (aborted instead of committed), or "info" (unknown: a commit was requested, but
        its result is not known)."""
        from confluent_kafka import KafkaException

        producer, commit_sent = self.producer, False
        while True:
            try:
                if wanted == "commit":
                    commit_sent = True
                    producer.commit_transaction(CALL_S)
                else:
                    producer.abort_transaction(CALL_S)
                return "ok"
            except KafkaException as error:
                what = error.args[0]
                self._worker.write("info", "end", error=f"{wanted}: {what.name()} {what.str()}")
                if what.retriable():
                    continue
                self.give_up()
                return "info" if commit_sent else "fail"

    def give_up(self) -> None:
        """The next use makes a new producer, which ends the transaction if it is still open."""
        self._made = None


def transact(job: Job) -> None:
    """Run transactions that write to several partitions and read what others have committed."""
    worker = Worker(job)
    reader = Reader(worker, f"{job.name} in transactions", "read_committed")
    transactions = Transactions(worker)
    for number in itertools.count():
        worker.alive()
        transactions.producer.poll(0)
        if worker.over:
            return
        _transaction(worker, reader, transactions, f"{job.name}.{job.instance}.{number}")
        time.sleep(worker.random.uniform(0.0, 2 / job.rate))


def _transaction(worker: Worker, reader: Reader, transactions: Transactions, name: str) -> None:
    from confluent_kafka import KafkaException

    chance = worker.random
    steps = [None if chance.random() < READS else chance.randrange(worker.job.partitions) for _ in range(4)]
    sends = [(next(worker.values), step) for step in steps if step is not None]
    wanted = "abort" if chance.random() < ABORTS else "commit"
    worker.write("invoke", "txn", txn=name, sent=sends)
    producer, rest, read = transactions.producer, iter(sends), list[int]()
    outcome = "fail"
    try:
        producer.begin_transaction()
        for step in steps:
            if step is None:
                read += reader.poll(0.02, 50)
            else:
                value, partition = next(rest)
                producer.produce(TOPIC, b"%d" % value, partition=partition)
        if wanted == "abort" and producer.flush(2):
            # see compat_tests/comparisons/transactions/test_aborts.py: it must not be used any more
            transactions.give_up()
        else:
            outcome = transactions.end(wanted)
    except KafkaException as error:
        worker.write("info", "end", error=str(error.args[0]))
        transactions.give_up()
    worker.write(outcome, "txn", txn=name, sent=sends, read=read, wanted=wanted)


def copy(job: Job) -> None:
    """Consume, transform (not at all), produce: every committed value of the topic once into `COPIES`, with the group's
    offsets in the transactions. Several copiers share a group; one that fails starts again from the committed offsets.

    Never `auto.offset.reset=earliest` here (offsets are committed before the run). If an open transaction holds a
    partition's offset (UNSTABLE_OFFSET_COMMIT) and the group rebalances once more meanwhile, librdkafka (2.12 to 2.16)
    treats the partition as one without a committed offset (`rd_kafka_assignment_apply_offsets`), and would copy all of
    it once more. With "error" it reports this, and the consumer is replaced.
    """
    from confluent_kafka import Consumer

    worker = Worker(job)
    transactions = Transactions(worker)
    drain = end_of_input()
    common = {**_common(job), "metadata.recovery.strategy": "none"}  # see harness/copier.py
    transactions.more = common
    numbers = (f"{job.name}.{job.instance}.{number}" for number in itertools.count())
    while not drain.is_set():
        consumer = Consumer(
            {
                **common,
                **({"debug": os.environ[DEBUG], "log_level": 7} if DEBUG in os.environ else {}),
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 1000,
            }
        )
        consumer.subscribe([TOPIC])
        got_s = time.monotonic()
        while not drain.is_set() and time.monotonic() < got_s + IDLE_S:
            worker.alive()
            messages = consumer.consume(PER_COPY, 0.3)
            lost = [error.str() for each in messages if (error := each.error()) is not None and _is_reset(error)]
            if lost:
                worker.write("info", "reset", error=lost[0])
                break
            records = [each for each in messages if each.error() is None]
            if records:
                got_s = time.monotonic()
                if not _copy(worker, transactions, consumer, records, next(numbers)):
                    break
        consumer.close()


def _is_reset(error: Any) -> bool:
    return error is not None and error.name() == "_AUTO_OFFSET_RESET"


def _copy(worker: Worker, transactions: Transactions, consumer: Any, records: list[Any], name: str) -> bool:
    from confluent_kafka import KafkaException, TopicPartition

    worker.write("invoke", "copy", txn=name, read=[int(each.value()) for each in records])
    outcome = "fail"
    try:
        producer = transactions.producer
        producer.begin_transaction()
        for each in records:
            producer.produce(COPIES, each.value(), partition=each.partition())
        ends = {each.partition(): each.offset() + 1 for each in records}
        positions = [TopicPartition(TOPIC, partition, offset) for partition, offset in ends.items()]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), CALL_S)
        outcome = transactions.end("commit")
    except KafkaException as error:
        worker.write("info", "end", error=str(error.args[0]))
        transactions.give_up()
    worker.write(outcome, "copy", txn=name)
    return outcome == "ok"


def share(job: Job) -> None:
    """Be a share group."""
    from campaigns.chaos import sharing

    sharing.share(job)


ROLES: dict[str, Callable[[Job], None]] = {
    "produce": produce,
    "produce singly": produce_singly,
    "produce aiokafka": produce_aiokafka,
    "consume": consume,
    "consume committed": consume_committed,
    "transact": transact,
    "copy": copy,
    "share": share,
}

if __name__ == "__main__":
    job = Job(**json.loads(sys.argv[1]))
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
    ROLES[job.role](job)

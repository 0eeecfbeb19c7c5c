"""Load: clients that produce, and consume in groups, while brokers stop and start.

Each `Load` is one client library with its defaults: an idempotent producer with acks=all, and consumers of one group
that commit several times a second. A load collects the errors that a library reports to its user, not those that it
retries by itself. `problems` has the same rules for all: no operation fails for good, no acknowledged record is missing
from the topic or in it twice, and the group reads all of them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from compat_tests.java_programs import java_program
from harness.inspection.hanging import native_stacks, owed, python_stacks
from harness.processes.brokers import wait_until
from harness.processes.kwire_cluster import KwireCluster

PARTITIONS = 3
COMMIT_S = 0.3
DRAIN_S = 60.0
REPORTS = Path(tempfile.gettempdir())


class Load:
    """One producer and a group. ``failed``: records that could not be delivered; ``errors``, ``retriable``: errors of
    consumers and of producer calls; ``hanging``: consumers that do not end."""

    name = ""
    hangs_by_itself = False
    """Whether a consumer of this library has been seen to wait for ever though no broker owed it a response."""

    def __init__(
        self, bootstrap: str, rate: int = 50, consumers: int = 2, security: Mapping[str, Any] | None = None
    ) -> None:
        self.bootstrap = bootstrap
        self.security = dict(security or {})
        self.topic = f"load-{'secured-' * bool(self.security)}{self.name}"
        self.group = f"readers of {self.topic}"
        self.rate = rate
        self.consumers = consumers
        self.acked: list[str] = []
        self.seen: set[str] = set()
        self.failed: list[str] = []
        self.errors: list[str] = []
        self.retriable: list[str] = []
        self.hanging = 0
        self._readers: set[int] = set()  # the threads of the consumers that have read something
        self._producing = True
        self._consuming = True
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start producing and consuming; the topic must exist."""
        works: list[Callable[[], None]] = [self._produce, *[self._consume] * self.consumers]
        for work in works:
            thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Stop producing, consume to the end, stop consuming."""
        self._producing = False
        self._threads[0].join(DRAIN_S)
        end = time.monotonic() + DRAIN_S
        while not self.seen.issuperset(self.acked) and time.monotonic() < end:
            time.sleep(0.05)
        self._consuming = False
        for index, thread in enumerate(self._threads):
            thread.join(DRAIN_S)
            if thread.is_alive():
                self._tell_where_it_hangs()
                if index == 0:
                    self.errors.append("the producer hangs")
                else:
                    self.hanging += 1

    def _tell_where_it_hangs(self) -> None:
        """In a file that stays, as it may be long until the next one hangs."""
        file = REPORTS / f"hanging-{self.name}-{time.time_ns()}.txt"
        file.write_text("\n".join((*python_stacks(), *native_stacks())))
        print(f"{self.name}: a client hangs: {file}")

    def is_under_way(self) -> bool:
        """Whether all consumers have read something (or one has failed): until then the group is rebalanced, and may
        refuse a commit of the former generation."""
        return len(self._readers) == self.consumers or bool(self.errors)

    def problems(self, stored: Counter[str]) -> list[str]:
        """The broken rules, a line each. ``stored``: the values in the topic with their counts."""
        found = [f"{self.name}: not written: {each}" for each in self.failed]
        found += [f"{self.name}: {each}" for each in self.errors]
        acked = set(self.acked)
        found += [f"{self.name}: {each} is lost" for each in sorted(acked - stored.keys())[:5]]
        found += [f"{self.name}: {each} was never seen" for each in sorted(acked - self.seen)[:5]]
        found += [f"{self.name}: {each} is there {count} times" for each, count in stored.items() if count > 1][:5]
        return found

    def summary(self) -> dict[str, Any]:
        """The counts for the report."""
        return {
            "acked": len(self.acked),
            "failed": len(self.failed),
            "errors": len(self.errors),
            "retriable": dict(Counter(self.retriable)),
        }

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.errors.append(f"{work.__name__} ended: {error!r}")

    def _values(self) -> Any:
        """Numbered values at the load's rate, until it stops producing."""
        number = 0
        start = time.monotonic()
        while self._producing:
            yield number, f"{self.name}-{number}"
            number += 1
            time.sleep(max(0.0, start + number / self.rate - time.monotonic()))

    def _note_values(self, values: Iterable[str]) -> None:
        """What a consumer has read; called by its thread."""
        self.seen.update(values)
        self._readers.add(threading.get_ident())

    def _produce(self) -> None:
        raise NotImplementedError

    def _consume(self) -> None:
        raise NotImplementedError


class ConfluentLoad(Load):
    """confluent-kafka, which wraps librdkafka.

    Once in hundreds of rolling restarts a consumer of librdkafka 2.16 waits for minutes and no longer heartbeats, while
    the other member of its group goes on. The cause is not known."""

    name = "confluent-kafka"
    hangs_by_itself = True

    def _produce(self) -> None:
        from confluent_kafka import Producer

        common = {"bootstrap.servers": self.bootstrap, **self.security, "log_level": 0}
        producer = Producer({**common, "enable.idempotence": True})

        def delivered(value: str) -> Callable[[Any, Any], None]:
            return lambda error, _: self.failed.append(str(error)) if error else self.acked.append(value)

        for number, value in self._values():
            producer.produce(self.topic, value, partition=number % PARTITIONS, on_delivery=delivered(value))
            producer.poll(0)
        producer.flush(DRAIN_S)

    def _consume(self) -> None:
        from confluent_kafka import Consumer, KafkaException

        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0, **self.security}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, **settings})
        consumer.subscribe([self.topic])
        committed, fresh = time.monotonic(), False
        while self._consuming:
            message = consumer.poll(0.2)
            if message is not None and message.error() is not None:
                self._note(message.error())
            elif message is not None:
                self._note_values([(message.value() or b"").decode()])
                fresh = True
            if fresh and time.monotonic() - committed > COMMIT_S:
                committed, fresh = time.monotonic(), False
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException as error:
                    self._note(error.args[0])
        consumer.close()

    def _note(self, error: Any) -> None:
        if error.name() == "_NO_OFFSET":  # the partition has moved since its record was read: nothing to commit
            return
        # librdkafka's own error codes that correspond to retriable errors of the Java clients
        (self.retriable if error.retriable() or error.name() in _LIBRDKAFKA_RETRIABLE else self.errors).append(
            str(error)
        )


_LIBRDKAFKA_RETRIABLE = (
    "NOT_COORDINATOR",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "REBALANCE_IN_PROGRESS",
    "_TRANSPORT",
    "_WAIT_COORD",
)


class KafkaPythonLoad(Load):
    """kafka-python."""

    name = "kafka-python"

    def _produce(self) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","), acks="all", enable_idempotence=True, **self.security
        )

        def acked(value: str) -> Callable[[Any], None]:
            return lambda _: self.acked.append(value)

        for number, value in self._values():
            sent = producer.send(self.topic, value.encode(), partition=number % PARTITIONS)
            sent.add_callback(acked(value))
            sent.add_errback(lambda error: self.failed.append(repr(error)))
        producer.flush(DRAIN_S)
        producer.close(DRAIN_S)

    def _consume(self) -> None:
        from kafka import KafkaConsumer
        from kafka.errors import KafkaError, RebalanceInProgressError

        consumer = KafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **self.security,
        )
        committed, fresh = time.monotonic(), False
        while self._consuming:
            try:
                for records in consumer.poll(timeout_ms=500).values():
                    self._note_values(record.value.decode() for record in records)
                    fresh = True
                if fresh and time.monotonic() - committed > COMMIT_S:
                    committed, fresh = time.monotonic(), False
                    consumer.commit()
            except KafkaError as error:
                # A member that was not heard of in time on a busy machine makes the others join again.
                retriable = error.retriable or isinstance(error, RebalanceInProgressError)
                (self.retriable if retriable else self.errors).append(repr(error))
        consumer.close()


class AioKafkaLoad(Load):
    """aiokafka."""

    name = "aiokafka"

    def _produce(self) -> None:
        asyncio.run(self._produce_now())

    def _consume(self) -> None:
        asyncio.run(self._consume_now())

    async def _produce_now(self) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True, **self.security)
        await producer.start()
        number, pending = 0, set()
        while self._producing:
            value = f"{self.name}-{number}"
            sent = asyncio.ensure_future(producer.send_and_wait(self.topic, value.encode(), None, number % PARTITIONS))
            sent.add_done_callback(partial(self._sent, value))
            pending.add(sent)
            sent.add_done_callback(pending.discard)
            number += 1
            await asyncio.sleep(1 / self.rate)
        await asyncio.gather(*pending, return_exceptions=True)
        await producer.stop()

    def _sent(self, value: str, done: asyncio.Future[Any]) -> None:
        error = done.exception()
        if error is None:
            self.acked.append(value)
        else:
            self.failed.append(repr(error))

    async def _consume_now(self) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.errors import KafkaError

        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=45_000,  # as others have by default
            **self.security,
        )
        await consumer.start()
        committed, fresh = time.monotonic(), False
        while self._consuming:
            try:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    self._note_values(record.value.decode() for record in records)
                    fresh = True
                if fresh and time.monotonic() - committed > COMMIT_S:
                    committed, fresh = time.monotonic(), False
                    await consumer.commit()
            except KafkaError as error:
                (self.retriable if error.retriable else self.errors).append(repr(error))
        await consumer.stop()


class JavaLoad(Load):
    """The Java clients, in a process (`LoadClient.java`). ``properties``: of the consumers, as name=value;
    ``security``: also of the producer."""

    name = "java"

    def __init__(
        self,
        bootstrap: str,
        rate: int = 50,
        consumers: int = 2,
        *properties: str,
        security: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(bootstrap, rate, consumers, security)
        self._properties = properties
        self._under_way = False
        self._process: subprocess.Popen[str]

    def start(self) -> None:
        arguments = (self.bootstrap, self.topic, self.group, str(self.rate), str(self.consumers), *self._properties)
        arguments += tuple(f"{name}={value}" for name, value in self.security.items())
        command = java_program(Path(__file__).with_name("LoadClient.java"), *arguments)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def stop(self) -> None:
        out, _ = self._process.communicate("\n", timeout=3 * DRAIN_S)
        report = json.loads(out.splitlines()[-1])
        self.acked, self.seen = report["acked"], set(report["seen"])
        self.failed, self.errors, self.retriable = report["failed"], report["errors"], report["retriable"]
        self.retries = int(report["retries"])

    def is_under_way(self) -> bool:
        """Whether the process has printed so."""
        if not self._under_way:
            assert self._process.stdout is not None
            self._under_way = self._process.stdout.readline() == "under way\n"
        return self._under_way

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def summary(self) -> dict[str, Any]:
        return {**super().summary(), "producer_retries": self.retries}


def make_topics(bootstrap: str, loads: list[Load]) -> None:
    """Create the topics of all loads, with three replicas of which two must be in sync."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    config = {"min.insync.replicas": "2"}
    topics = [NewTopic(load.topic, PARTITIONS, 3, config=config) for load in loads]
    for future in admin.create_topics(topics).values():
        future.result(30)


def stored(bootstrap: str, topic: str) -> Counter[str]:
    """The values in a topic with their counts."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "-", "log_level": 0})
    partitions = [TopicPartition(topic, index, 0) for index in range(PARTITIONS)]
    wanted = sum(consumer.get_watermark_offsets(each, timeout=30)[1] for each in partitions)
    consumer.assign(partitions)
    found: Counter[str] = Counter()

    def read() -> bool:
        messages = consumer.consume(5000, 0.2)
        found.update((message.value() or b"").decode() for message in messages if message.error() is None)
        return found.total() >= wanted

    wait_until(read, DRAIN_S, f"{wanted} records of {topic}", 0)
    consumer.close()
    return found


def under_load(cluster: KwireCluster, loads: list[Load], act: Callable[[], None]) -> None:
    """Do something while clients work; no record may be lost, and no client may get a fatal error."""
    make_topics(cluster.bootstrap, loads)
    cluster.wait_until_well()
    try:
        begin(loads)
        act()
    finally:
        for load in loads:
            load.stop()
    check(cluster, loads)


def begin(loads: list[Load]) -> None:
    """Start all, and wait until they read what they write."""
    for load in loads:
        load.start()
    wait_until(lambda: all(load.is_under_way() for load in loads), 120, "all clients read what they write")


def check(cluster: KwireCluster, loads: list[Load]) -> None:
    """No record may be lost, and no client may have got a fatal error. All have stopped, or wait for something that no
    broker owes them."""
    problems = [problem for load in loads for problem in load.problems(stored(cluster.bootstrap, load.topic))]
    problems += hanging(cluster, loads)
    assert problems == [], [problems, *(load.summary() for load in loads)]
    assert all(len(load.acked) > 20 for load in loads)


def hanging(cluster: KwireCluster, loads: list[Load]) -> list[str]:
    """The clients that hang and may not, and the responses that brokers owe then; a line each."""
    stuck = [load for load in loads if load.hanging]
    if not stuck:
        return []
    due = owed(cluster.brokers.values())
    return [f"{load.name}: {load.hanging} hang" for load in stuck if due or not load.hangs_by_itself] + due

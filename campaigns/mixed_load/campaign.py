"""The clients of the campaign of mixed load, and what a broker uses when they are gone. The rules are in `__main__`."""

from __future__ import annotations

import itertools
import os
import re
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.processes import process_usage
from harness.processes.brokers import wait_until
from harness.processes.production import secured_production_broker
from harness.processes.secured import SecuredBroker
from harness.wire_client import WireClient
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.records import Record, build_batch

GROWTH_MAX: Final = 0.05
SHORT_GROWTH_MB: Final = 4.0
P99_GROWTH_MAX: Final = 1.5
LONG_MINUTES: Final = 10.0
WINDOWS: Final = 100
STEADY, PROBED, TRANSACTED = "steady", "probed", "transacted"
GROUPS: Final = 10
PROBE_S: Final = 0.02


@dataclass(frozen=True)
class AtRest:
    """What the broker uses without clients."""

    memory_mb: float
    descriptors: int
    threads: int
    tasks: int


@dataclass(frozen=True)
class Outcome:
    """What a run has found. ``p99_ms``: of each window of the probe, in order. ``done``: how often which work was."""

    minutes: float
    early: AtRest
    late: AtRest
    p99_ms: list[float]
    done: dict[str, int]
    failures: list[str]


def complaints(outcome: Outcome) -> list[str]:
    """What has grown, a line each."""
    early, late = outcome.early, outcome.late
    is_long = outcome.minutes >= LONG_MINUTES
    allowed = early.memory_mb * (1 + GROWTH_MAX) + (0 if is_long else SHORT_GROWTH_MB)
    found = list(outcome.failures)
    if late.memory_mb > allowed:
        found.append(f"memory grew from {early.memory_mb:.1f} to {late.memory_mb:.1f} MB, {allowed:.1f} are allowed")
    for name in ("descriptors", "tasks"):
        before, after = getattr(early, name), getattr(late, name)
        if after > before:
            found.append(f"{name} grew from {before} to {after}")
    middle, last = thirds(outcome.p99_ms)
    if is_long and last > P99_GROWTH_MAX * middle:
        found.append(f"the probe's p99 grew from {middle:.2f} to {last:.2f} ms")
    return found


def thirds(p99_ms: list[float]) -> tuple[float, float]:
    """The medians of the middle and of the last third; 0 without values."""
    third = len(p99_ms) // 3
    if not third:
        return 0.0, 0.0
    return statistics.median(p99_ms[third : 2 * third]), statistics.median(p99_ms[2 * third :])


class Load:
    """The clients, each a thread, until `stop`. ``done`` counts what they did; ``failures`` what must not happen."""

    def __init__(self, broker: SecuredBroker) -> None:
        self._broker = broker
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._numbers = itertools.count()
        self.done: Counter[str] = Counter()
        self.latencies_s: list[tuple[float, float]] = []
        self.failures: list[str] = []

    def start(self) -> None:
        """Begin with all of the work."""
        work: list[Callable[[], None]] = [
            lambda: self._produce(tls=False),
            lambda: self._produce(tls=True),
            lambda: self._follow("readers", tls=False),
            lambda: self._follow("readers", tls=True),
            lambda: self._follow("committed", tls=False, topic=TRANSACTED, committed=True),
            self._join_and_leave,
            lambda: self._transact("plain", tls=False),
            lambda: self._transact("secured", tls=True),
            self._make_and_delete,
            self._probe,
        ]
        self._stopped.clear()
        self._threads = [threading.Thread(target=self._guarded, args=(each,), daemon=True) for each in work]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all clients, in order."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a client does not end"

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.failures.append(repr(error))

    def _options(self, tls: bool, **options: Any) -> dict[str, Any]:
        common = {"bootstrap.servers": self._broker.address("SSL" if tls else "PLAINTEXT"), "log_level": 0}
        if tls:
            common |= {"security.protocol": "SSL", "enable.ssl.certificate.verification": False}
        return {**common, **{name.replace("_", "."): value for name, value in options.items()}}

    def _produce(self, tls: bool) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._options(tls, compression_type="zstd" if tls else "lz4", linger_ms=5))
        value = bytes(range(256))
        while not self._stopped.wait(0.05):
            for _ in range(10):
                producer.produce(STEADY, value, callback=self._delivered)
            producer.poll(0)
        producer.flush(30)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.failures.append(f"a record was not accepted: {error}")
        self.done["records"] += 1

    def _follow(self, group: str, tls: bool, topic: str = STEADY, committed: bool = False) -> None:
        with self._consumer(group, tls, topic, committed) as consumer:
            while not self._stopped.is_set():
                self.done["read"] += len(consumer.consume(500, 0.5))

    @contextmanager
    def _consumer(self, group: str, tls: bool, topic: str, committed: bool = False) -> Iterator[Any]:
        from confluent_kafka import Consumer

        isolation = "read_committed" if committed else "read_uncommitted"
        options = self._options(tls, group_id=group, isolation_level=isolation, auto_offset_reset="latest")
        consumer = Consumer(options)
        consumer.subscribe([topic])
        try:
            yield consumer
        finally:
            consumer.close()

    def _join_and_leave(self) -> None:
        while not self._stopped.wait(0.2):
            number = next(self._numbers)
            with self._consumer(f"churn-{number % GROUPS}", tls=number % 2 == 0, topic=STEADY) as consumer:
                consumer.consume(50, 0.5)
            self.done["memberships"] += 1

    def _transact(self, name: str, tls: bool) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._options(tls, transactional_id=name))
        producer.init_transactions(30)
        for number in itertools.count():
            producer.begin_transaction()
            for _ in range(20):
                producer.produce(TRANSACTED, b"of a transaction")
            if number % 3:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
            self.done["transactions"] += 1
            if self._stopped.wait(0.2):
                return

    def _make_and_delete(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(self._options(tls=True))
        while not self._stopped.wait(0.5):
            name = f"made-{next(self._numbers)}"
            admin.create_topics([NewTopic(name, 3, 1)])[name].result(60)
            admin.delete_topics([name])[name].result(60)
            self.done["topics"] += 1

    def _probe(self) -> None:
        with WireClient(self._broker.bootstrap) as client:
            request = probe_request()
            while not self._stopped.wait(PROBE_S):
                started = time.perf_counter()
                answer = client.call(request, 9).responses[0].partition_responses[0]
                self.latencies_s.append((started, time.perf_counter() - started))
                if answer.error_code:
                    self.failures.append(f"the probe got error {answer.error_code}")


def probe_request() -> Any:
    """A Produce request with one record."""
    from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

    data = PartitionProduceData(index=0, records=build_batch([Record(timestamp=0, value=bytes(100))]))
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=PROBED, partition_data=[data])])


def create_topics(broker: SecuredBroker) -> None:
    """The topics that stay. What is written to them is deleted soon."""
    small = {"segment.bytes": str(1 << 20), "retention.bytes": str(4 << 20)}
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in small.items()]
    topics = [
        CreatableTopic(name=name, num_partitions=count, replication_factor=1, configs=configs)
        for name, count in ((STEADY, 6), (PROBED, 1), (TRANSACTED, 3))
    ]
    with WireClient(broker.bootstrap) as client:
        answer = client.call(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
        assert not any(each.error_code for each in answer.topics), answer


def at_rest(broker: SecuredBroker) -> AtRest:
    """What the broker uses once the clients' connections are closed and their topics deleted."""
    pid = broker.pid

    def is_quiet() -> bool:
        return not [name for name in os.listdir(broker.data_dir) if name.startswith("made-")]

    wait_until(is_quiet, 120, "the files of deleted topics are gone", interval_s=0.5)
    counts: list[tuple[int, int]] = []

    def is_steady() -> bool:
        counts.append((descriptors(pid), tasks(broker)))
        return len(counts) > 4 and len(set(counts[-4:])) == 1

    wait_until(is_steady, 120, "the broker is at rest", interval_s=1)
    descriptor_count, task_count = counts[-1]
    threads = len(os.listdir(f"/proc/{pid}/task"))
    return AtRest(round(process_usage.proportional_mb(pid), 2), descriptor_count, threads, task_count)


def descriptors(pid: int) -> int:
    """How many descriptors a process has open, without those of log files that exist: which of these are open depends
    on what was used last, and their number has a limit."""
    count = 0
    for each in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{each}")
        except OSError:
            continue  # closed meanwhile
        count += not target.endswith(".log")
    return count


def tasks(broker: SecuredBroker) -> int:
    """How many asyncio tasks the broker's dump has."""
    before = len(broker.log_text())
    os.kill(broker.pid, signal.SIGUSR1)
    wait_until(lambda: "dump complete" in broker.log_text()[before:], 60, "the dump")
    return len(re.findall(r'"event": "task"', broker.log_text()[before:]))


def windows(latencies_s: list[tuple[float, float]], count: int) -> list[float]:
    """The p99 in milliseconds of each of so many stretches of time with at least ten latencies."""
    if not latencies_s:
        return []
    start, end = latencies_s[0][0], latencies_s[-1][0] + 1e-9
    parts: list[list[float]] = [[] for _ in range(count)]
    for at, latency in latencies_s:
        parts[int((at - start) / (end - start) * count)].append(latency)
    return [round(sorted(part)[int(0.99 * len(part))] * 1000, 3) for part in parts if len(part) >= 10]


def run(minutes: float, home: Path) -> Outcome:
    """Run the load on a new broker in ``home``."""
    broker = secured_production_broker("kwire", home)
    broker.start()
    try:
        create_topics(broker)
        load = Load(broker)
        rests = []
        for share in (0.25, 0.75):
            load.start()
            time.sleep(minutes * 60 * share)
            load.stop()
            rests.append(at_rest(broker))
        p99_ms = windows(load.latencies_s, WINDOWS)
        return Outcome(minutes, rests[0], rests[1], p99_ms, dict(load.done), load.failures[:20])
    finally:
        broker.kill()

"""Clients under quotas on both brokers for a while: the rates that they reach, and what others notice.

    .venv/bin/python -m compat_tests.comparisons.throttling.rates --seconds 30

On each broker four clients run at the same time, each with a limit of its own: librdkafka and Java, producing and
consuming. Their rates are measured after a warm-up, in which the burst that quotas allow is used up. A fifth client
without a limit produces one record after the other, before the others run and beside them. A line of JSON for each
broker is printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from compat_tests.comparisons.admin.requests import Wire
from compat_tests.comparisons.configs.quotas import Quotas
from compat_tests.comparisons.data.requests import Topic, batch
from harness.kafka_jars import java_command, kafka_classpath
from harness.processes.brokers import Broker, make_broker
from harness.wire_client import WireClient
from kwire.quotas.entities import CLIENT_ID, CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE

LIMIT: Final = 400_000
WARM_UP_S: Final = 15
RECORD_BYTES: Final = 1000
CLIENTS: Final = ("librdkafka-producer", "java-producer", "librdkafka-consumer", "java-consumer")


class Librdkafka:
    """A producer and a consumer on threads. ``throttle_ms``: the throttle times that the clients were given."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self.consumed = 0
        self.throttle_ms: dict[str, list[int]] = {"librdkafka-producer": [], "librdkafka-consumer": []}
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()

    def _settings(self, client_id: str, **more: Any) -> dict[str, Any]:
        def throttled(event: Any) -> None:
            self.throttle_ms[client_id].append(round(event.throttle_time * 1000))

        return {"bootstrap.servers": self._bootstrap, "client.id": client_id, "throttle_cb": throttled, **more}

    def _produce(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._settings("librdkafka-producer") | {"linger.ms": 5, "batch.size": 16_384})
        while not self._stop.is_set():
            try:
                producer.produce("librdkafka-producer", bytes(RECORD_BYTES))
                producer.poll(0)
            except BufferError:
                producer.poll(0.1)
        producer.purge()
        producer.flush(10)

    def _consume(self) -> None:
        from confluent_kafka import Consumer

        more = {"group.id": "librdkafka", "auto.offset.reset": "earliest", "fetch.message.max.bytes": 200_000}
        consumer = Consumer(self._settings("librdkafka-consumer") | more)
        consumer.subscribe(["full"])
        while not self._stop.is_set():
            for record in consumer.consume(100, 0.1):
                self.consumed += len(record.value() or b"")
        consumer.close()

    def close(self) -> None:
        """End the threads."""
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Java:
    """Kafka's own performance tools."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._out = directory / "consumer.txt"
        common = ["-cp", str(kafka_classpath())]
        settings = directory / "consumer.properties"
        settings.write_text("client.id=java-consumer\nmax.partition.fetch.bytes=200000\n")
        producer = [
            *("org.apache.kafka.tools.ProducerPerformance", "--topic", "java-producer", "--throughput", "-1"),
            *("--num-records", "100000000", "--record-size", str(RECORD_BYTES)),
            *("--producer-props", f"bootstrap.servers={bootstrap}", "client.id=java-producer"),
        ]
        consumer = [
            *("org.apache.kafka.tools.ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", "full"),
            *("--messages", "100000000", "--consumer.config", str(settings), "--show-detailed-stats"),
            *("--reporting-interval", "1000", "--timeout", "100000", "--hide-header"),
        ]
        with self._out.open("w") as out:
            self._processes = [
                subprocess.Popen(
                    java_command(*common, *producer), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                ),
                subprocess.Popen(java_command(*common, *consumer), stdout=out, stderr=subprocess.STDOUT),
            ]

    @property
    def consumed(self) -> int:
        """Bytes so far."""
        rows = [line.split(", ") for line in self._out.read_text().splitlines() if line.count(", ") > 5]
        return round(float(rows[-1][2]) * 1024 * 1024) if rows else 0

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.kill()
            process.wait()


class Bystander:
    """A client without a limit, which produces one record after the other."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic

    def p99_ms(self, seconds: float) -> float:
        """The latency that 99 of 100 requests keep."""
        times = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            started = time.monotonic()
            self._topic.produce(batch(b"x" * 100))
            times.append(time.monotonic() - started)
            time.sleep(0.01)
        return round(sorted(times)[int(len(times) * 0.99)] * 1000, 2)


def _fill(topic: Topic, size: int) -> None:
    data = batch(*[bytes(RECORD_BYTES)] * 100)
    for _ in range(size // len(data)):
        topic.produce(data)


def create_topics(bootstrap: str, *names: str) -> None:
    """Create topics with one partition."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result(60)


def measure(broker: Broker, seconds: float, directory: Path) -> dict[str, Any]:
    """Run the clients on a broker."""
    create_topics(broker.bootstrap, "librdkafka-producer", "java-producer", "full", "other")
    with WireClient(broker.bootstrap, "bystander") as client:
        full, other = Topic(client, "full"), Topic(client, "other")
        _fill(full, round(LIMIT * (seconds + WARM_UP_S) * 1.5))
        wire = Wire(broker.bootstrap)
        for client_id in CLIENTS:
            limits = {PRODUCER_BYTE_RATE: LIMIT, CONSUMER_BYTE_RATE: LIMIT}
            Quotas(wire).alter(({CLIENT_ID: client_id}, limits))
        wire.close()
        alone = Bystander(other).p99_ms(10)
        clients = Librdkafka(broker.bootstrap), Java(broker.bootstrap, directory)
        try:
            time.sleep(WARM_UP_S)
            return _rates(clients, client, other, seconds) | {"p99 alone, ms": alone}
        finally:
            for each in clients:
                each.close()


def _produced(topic: Topic) -> int:
    records: int = topic.offset_at(-1)["offset"]
    return records * RECORD_BYTES


def _rates(clients: tuple[Librdkafka, Java], client: WireClient, other: Topic, seconds: float) -> dict[str, Any]:
    librdkafka, java = clients
    topics = [Topic(client, name) for name in ("librdkafka-producer", "java-producer")]
    counts: dict[str, Callable[[], int]] = {
        **{topic.name: partial(_produced, topic) for topic in topics},
        "librdkafka-consumer": lambda: librdkafka.consumed,
        "java-consumer": lambda: java.consumed,
    }
    started = time.monotonic()
    before = {name: count() for name, count in counts.items()}
    beside = Bystander(other).p99_ms(seconds)
    after = {name: count() for name, count in counts.items()}
    passed = time.monotonic() - started
    rates = {name: round((after[name] - before[name]) / passed) for name in counts}
    throttles = {name: round(sum(each) / len(each)) if each else 0 for name, each in librdkafka.throttle_ms.items()}
    return {"bytes/s": rates, "mean throttle time, ms": throttles, "p99 beside, ms": beside}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    arguments = parser.parse_args()
    for kind in ("kafka", "kwire"):
        with tempfile.TemporaryDirectory() as directory:
            broker = make_broker(kind, Path(directory) / "broker")
            broker.start()
            try:
                found = measure(broker, arguments.seconds, Path(directory))
            finally:
                broker.kill()
        print(json.dumps({"broker": kind, "limit": LIMIT, **found}), flush=True)


if __name__ == "__main__":
    main()

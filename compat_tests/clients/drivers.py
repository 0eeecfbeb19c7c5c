"""Drivers: one interface to five clients, which produce records and read a topic back.

Each driver translates between its library's calls and `Sent` and `Got` tuples, so that one test runs with every client.
Attributes such as `can_set_timestamp` state what a client cannot express.
"""

from __future__ import annotations

import asyncio
import base64
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from harness.java_runner import JavaRunner

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLIENTS = ("kafka-python", "aiokafka", "confluent", "kcat", "java")
_TIMEOUT_S = 60
Headers = tuple[tuple[str, bytes | None], ...]


class Sent(NamedTuple):
    """A record to produce. ``timestamp``: None for the client's clock."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None


class Got(NamedTuple):
    """A record as a consumer returns it; timestamps in milliseconds."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    timestamp_type: int  # 0 CreateTime, 1 LogAppendTime


class Driver:
    """The interface: what every client can do."""

    name = ""
    can_set_timestamp = True
    can_set_null_header = True

    def __init__(self, security: Mapping[str, Any] | None = None) -> None:
        """``security``: the client's own options for TLS and login (`compat_tests.clients.security.options`)."""
        self.security = dict(security or {})

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str = "none", **options: Any
    ) -> list[tuple[int, int]]:
        """Produce in order; returns (partition, offset) of each record. All clients take `acks` (0, 1 or -1)."""
        raise NotImplementedError

    def consume(self, bootstrap: str, topic: str, partitions: Iterable[int]) -> list[Got]:
        """All records from the first offset to the current end, sorted by partition and offset."""
        raise NotImplementedError


class KafkaPython(Driver):
    """kafka-python."""

    name = "kafka-python"
    can_set_null_header = False

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str = "none", **options: Any
    ) -> list[tuple[int, int]]:
        from kafka import KafkaProducer

        if options.get("acks", -1) != -1:
            options.setdefault("enable_idempotence", False)
        compression = None if codec == "none" else codec
        config = {**self.security, **options}
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=5, **config)
        try:
            futures = [
                producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            metadata = [future.get(_TIMEOUT_S) for future in futures]
            return [(one.partition, one.offset) for one in metadata]
        finally:
            producer.close()

    def consume(self, bootstrap: str, topic: str, partitions: Iterable[int]) -> list[Got]:
        from kafka import KafkaConsumer, TopicPartition

        config = {"consumer_timeout_ms": 1000, **self.security}
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **config)
        try:
            assigned = [TopicPartition(topic, index) for index in partitions]
            consumer.assign(assigned)
            consumer.seek_to_beginning(*assigned)
            ends = consumer.end_offsets(assigned)
            got: list[Got] = []
            while any(consumer.position(one) < ends[one] for one in assigned):
                for batch in consumer.poll(timeout_ms=_TIMEOUT_S * 1000).values():
                    got += [_from_kafka_python(record) for record in batch]
            return sorted(got, key=lambda one: (one.partition, one.offset))
        finally:
            consumer.close()


def _from_kafka_python(record: Any) -> Got:
    headers = tuple((name, value) for name, value in record.headers)
    kind = record.timestamp_type
    return Got(record.partition, record.offset, record.key, record.value, headers, record.timestamp, kind)


class AioKafka(Driver):
    """aiokafka."""

    name = "aiokafka"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str = "none", **options: Any
    ) -> list[tuple[int, int]]:
        return asyncio.run(self._produce(bootstrap, topic, records, codec, options))

    def consume(self, bootstrap: str, topic: str, partitions: Iterable[int]) -> list[Got]:
        return asyncio.run(self._consume(bootstrap, topic, list(partitions)))

    async def _produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str, options: dict[str, Any]
    ) -> list[tuple[int, int]]:
        from aiokafka import AIOKafkaProducer

        if "acks" in options:
            options["acks"] = {-1: "all"}.get(options["acks"], options["acks"])
        compression = None if codec == "none" else codec
        config = {**self.security, **options}
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=5, **config)
        try:
            await producer.start()
            futures = [
                await producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            metadata = await asyncio.wait_for(asyncio.gather(*futures), _TIMEOUT_S)
            # With acks=0 there is no metadata.
            return [(one.partition, one.offset) for one in metadata if one is not None]
        finally:
            await producer.stop()

    async def _consume(self, bootstrap: str, topic: str, partitions: list[int]) -> list[Got]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **self.security)
        try:
            await consumer.start()
            assigned = [TopicPartition(topic, index) for index in partitions]
            consumer.assign(assigned)
            await consumer.seek_to_beginning(*assigned)
            ends = await consumer.end_offsets(assigned)
            got: list[Got] = []
            while any([await consumer.position(one) < ends[one] for one in assigned]):
                batches = await asyncio.wait_for(consumer.getmany(timeout_ms=1000), _TIMEOUT_S)
                for batch in batches.values():
                    got += [_from_kafka_python(record) for record in batch]
            return sorted(got, key=lambda one: (one.partition, one.offset))
        finally:
            await consumer.stop()


class Confluent(Driver):
    """confluent-kafka, which wraps librdkafka."""

    name = "confluent"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str = "none", **options: Any
    ) -> list[tuple[int, int]]:
        from confluent_kafka import Producer

        config = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, **_dotted(options)}
        producer = Producer({**config, **self.security, "log_level": 0})
        placed: dict[int, tuple[int, int]] = {}
        errors: list[Any] = []

        def delivery(index: int) -> Callable[[Any, Any], None]:
            def delivered(error: Any, message: Any) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    placed[index] = (message.partition(), message.offset())

            return delivered

        for index, record in enumerate(records):
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=record.partition,
                timestamp=record.timestamp or 0,
                on_delivery=delivery(index),
            )
        assert producer.flush(_TIMEOUT_S) == 0, "not everything was delivered"
        assert not errors, errors
        return [placed[index] for index in range(len(records))]

    def consume(self, bootstrap: str, topic: str, partitions: Iterable[int]) -> list[Got]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        config = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        consumer = Consumer({**config, **self.security, "enable.partition.eof": True, "fetch.wait.max.ms": 100})
        try:
            open_partitions = set(partitions)
            consumer.list_topics(topic, timeout=_TIMEOUT_S)  # saves half a second: assign() then has the leaders
            consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in sorted(open_partitions)])
            got = []
            while open_partitions:
                message = consumer.poll(_TIMEOUT_S)
                assert message is not None, "no message within the timeout"
                error = message.error()
                if error is None:
                    got.append(_from_confluent(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise AssertionError(error)
            return sorted(got, key=lambda one: (one.partition, one.offset))
        finally:
            consumer.close()


def _dotted(options: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments as librdkafka's property names."""
    return {name.replace("_", "."): value for name, value in options.items()}


def _from_confluent(message: Any) -> Got:
    kind, timestamp = message.timestamp()
    headers = tuple((name, value) for name, value in message.headers() or ())
    place = (message.partition(), message.offset())
    return Got(*place, message.key(), message.value(), headers, timestamp, kind - 1)


class Kcat(Driver):
    """The command-line tool. It runs once for each record, because headers apply to all records of a run."""

    name = "kcat"
    can_set_timestamp = False
    can_set_null_header = False

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str = "none", **options: Any
    ) -> list[tuple[int, int]]:
        chosen = {**self.security, **_dotted(options)}
        settings = [word for name, value in chosen.items() for word in ("-X", f"{name}={value}")]
        for record in records:
            command = ["kcat", "-b", bootstrap, "-P", "-t", topic, "-p", str(record.partition), "-z", codec, *settings]
            for name, value in record.headers:
                command += ["-H", name if value is None else f"{name}={value.decode()}"]
            if record.value is None:  # -Z: an empty value after the delimiter is null
                run_kcat([*command, "-Z", "-K", ":"], (record.key or b"") + b":\n")
            else:
                self._produce_file(command, record)
        return []

    def _produce_file(self, command: list[str], record: Sent) -> None:
        """Read each value from a file of its own, so that it may contain any bytes."""
        if record.key is not None:
            command = [*command, "-k", record.key.decode()]
        with tempfile.NamedTemporaryFile() as file:
            file.write(record.value or b"")
            file.flush()
            run_kcat([*command, file.name])

    def consume(self, bootstrap: str, topic: str, partitions: Iterable[int]) -> list[Got]:
        got: list[Got] = []
        for partition in partitions:
            # %K and %S are lengths, -1 for null; the payloads follow, so that they may contain any bytes.
            form = "%p %o %T %K %S\\n%k%s\\n%h\\n"
            command = ["kcat", "-b", bootstrap, "-C", "-t", topic, "-p", str(partition), "-o", "beginning", "-e", "-q"]
            command += [word for name, value in self.security.items() for word in ("-X", f"{name}={value}")]
            got += list(_parse_kcat(run_kcat([*command, "-X", "fetch.wait.max.ms=100", "-f", form])))
        return sorted(got, key=lambda one: (one.partition, one.offset))


def run_kcat(command: Sequence[str], stdin: bytes = b"") -> bytes:
    """kcat's standard output; AssertionError with its output if it fails."""
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode(errors='replace')}"
    return done.stdout


def _parse_kcat(output: bytes) -> Iterable[Got]:
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        partition, offset, timestamp, key_size, value_size = map(int, output[position:end].split())
        position = end + 1
        key, position = _payload(output, position, key_size)
        value, position = _payload(output, position, value_size)
        end = output.index(b"\n", position + 1)
        headers = tuple(_kcat_header(part) for part in output[position + 1 : end].decode().split(",") if part)
        position = end + 1
        yield Got(partition, offset, key, value, headers, timestamp, 0)


def _payload(output: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    return (None, position) if size < 0 else (output[position : position + size], position + size)


def _kcat_header(text: str) -> tuple[str, bytes | None]:
    name, _, value = text.partition("=")
    return name, None if value == "NULL" else value.encode()


class Java(Driver):
    """Apache Kafka's Java clients, through `JavaRunner`."""

    name = "java"

    def __init__(self, runner: JavaRunner, security: Mapping[str, Any] | None = None) -> None:
        super().__init__(security)
        self._runner = runner

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Sent], codec: str = "none", **options: Any
    ) -> list[tuple[int, int]]:
        config = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": "5", **_dotted(options)}
        if config.get("acks", -1) != -1:
            config["enable.idempotence"] = "false"
        config |= self.security
        request = {"config": config, "topic": topic, "records": [_java_record(record) for record in records]}
        response = self._runner.client("produce", request)
        return [(partition, offset) for partition, offset, _ in response]

    def consume(self, bootstrap: str, topic: str, partitions: Iterable[int]) -> list[Got]:
        config = {"bootstrap.servers": bootstrap, "fetch.max.wait.ms": "100", "auto.offset.reset": "earliest"}
        request = {"config": {**config, **self.security}, "topic": topic, "partitions": list(partitions)}
        got = [_from_java(node) for node in self._runner.client("consume", request)]
        return sorted(got, key=lambda one: (one.partition, one.offset))


def _java_record(record: Sent) -> dict[str, Any]:
    fields = record._asdict()
    fields["key"], fields["value"] = _to_base64(record.key), _to_base64(record.value)
    fields["headers"] = [[name, _to_base64(value)] for name, value in record.headers]
    return fields


def _from_java(node: dict[str, Any]) -> Got:
    headers = tuple((name, _from_base64(value)) for name, value in node["headers"])
    key, value = _from_base64(node["key"]), _from_base64(node["value"])
    return Got(node["partition"], node["offset"], key, value, headers, node["timestamp"], node["timestamp_type"])


def _to_base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _from_base64(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


def make_driver(name: str, runner: JavaRunner, security: Mapping[str, Any] | None = None) -> Driver:
    """The driver of a client, by its name in `CLIENTS`."""
    if name == "java":
        return Java(runner, security)
    return {"kafka-python": KafkaPython, "aiokafka": AioKafka, "confluent": Confluent, "kcat": Kcat}[name](security)

"""Capture golden frames: requests and responses of five real clients and Apache Kafka, through a recording proxy.

    .venv/bin/python -m tools.capture_frames tests/codec/golden

Needs Java, Maven and kcat. Starts Apache Kafka with the proxy as its advertised address, runs scripted sessions of
kafka-python, aiokafka, confluent-kafka, Java's clients and tools, and kcat, and keeps a few frames for each client,
direction, API and version. Writes `frames.bin` (the frames after each other, without their sizes) and `index.json`
(client, direction, API key, version, offset, size of each). `campaigns.fuzz_frames` mutates them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.java_runner import JavaRunner
from harness.processes.brokers import KafkaBroker
from harness.processes.ports import free_port
from kwire.codec.protocol import ApiKey

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
FRAME_MAX = 20_000
KEPT_OF_EACH = 3
KEPT_OF_DATA = 10  # Produce and Fetch: every compression
REQUEST, RESPONSE = "request", "response"
Headers = list[tuple[str, str | bytes | None]]


@dataclass
class Recorder:
    """Keeps distinct frames, a bounded number of each kind."""

    client: str = ""
    frames: dict[tuple[str, str, int, int], list[bytes]] = field(default_factory=dict)

    def keep(self, direction: str, api_key: int, version: int, frame: bytes) -> None:
        """Keep a frame unless it is too large, a duplicate, or there are enough of its kind."""
        kept = self.frames.setdefault((self.client, direction, api_key, version), [])
        limit = KEPT_OF_DATA if api_key in (ApiKey.PRODUCE, ApiKey.FETCH) else KEPT_OF_EACH
        body = slice(8, None) if direction == REQUEST else slice(4, None)  # without the correlation id
        if len(frame) <= FRAME_MAX and len(kept) < limit and all(frame[body] != other[body] for other in kept):
            kept.append(frame)

    def write(self, folder: Path) -> None:
        """Write all frames (`frames.bin`) and their index (`index.json`) to a folder."""
        index, offset = [], 0
        with open(folder / "frames.bin", "wb") as out:
            for (client, direction, api_key, version), kept in sorted(self.frames.items()):
                for frame in kept:
                    out.write(frame)
                    index.append([client, direction, api_key, version, offset, len(frame)])
                    offset += len(frame)
        lines = ",\n".join(json.dumps(entry) for entry in index)
        (folder / "index.json").write_text(f"[\n{lines}\n]\n")
        print(f"{len(index)} frames of {len(self.frames)} kinds, {offset} bytes", file=sys.stderr)


class Proxy:
    """Forwards every connection to the broker, and passes each frame of both directions to the recorder."""

    def __init__(self, recorder: Recorder, port: int, broker_port: int) -> None:
        self._recorder = recorder
        self._ports = (port, broker_port)
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        threading.Thread(target=self._run, args=(ready,), daemon=True).start()
        ready.wait(10)

    def _run(self, ready: threading.Event) -> None:
        self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self._ports[0]))
        ready.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self._ports[1])
        except OSError:
            writer.close()
            return
        pending: dict[int, tuple[int, int]] = {}
        with contextlib.suppress(OSError, EOFError, asyncio.IncompleteReadError):
            await asyncio.gather(
                self._pump(reader, upstream[1], lambda frame: self._request(frame, pending)),
                self._pump(upstream[0], writer, lambda frame: self._response(frame, pending)),
            )
        writer.close()
        upstream[1].close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Callable[[bytes], None]
    ) -> None:
        try:
            while True:
                head = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">i", head)[0])
                seen(frame)
                writer.write(head + frame)
                await writer.drain()
        finally:
            writer.close()

    def _request(self, frame: bytes, pending: dict[int, tuple[int, int]]) -> None:
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
        pending[correlation_id] = (api_key, version)
        self._recorder.keep(REQUEST, api_key, version, frame)

    def _response(self, frame: bytes, pending: dict[int, tuple[int, int]]) -> None:
        asked = pending.pop(struct.unpack_from(">i", frame)[0], None)
        if asked:
            self._recorder.keep(RESPONSE, *asked, frame)


def values(size: int = 5) -> Iterator[tuple[bytes | None, bytes | None, Headers]]:
    """Records of every shape: null keys and values, empty ones, headers."""
    shapes: list[tuple[bytes | None, bytes | None]] = [(None, b"v"), (b"k", None), (b"", b""), (b"key", b"abc" * 60)]
    for number in range(size):
        key, value = shapes[number % len(shapes)]
        yield key, value, [("h", b"1"), ("ключ", b"")] if number % 2 else []


def attempt(what: str, action: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call ``action`` and return its result; None if it fails, as an error response is a frame worth having too."""
    try:
        return action(*arguments, **options)
    except Exception as error:
        print(f"  {what}: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr)
        return None


def run_kafka_python(bootstrap: str) -> None:
    """Run kafka-python's producer, consumer and admin client."""
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

    for codec in CODECS:
        options: dict[str, Any] = {"compression_type": None if codec == "none" else codec, "acks": "all"}
        producer = KafkaProducer(bootstrap_servers=bootstrap, **options)
        for key, value, headers in values():
            producer.send("golden-kp", value=value, key=key, headers=headers)
        producer.flush(20)
        producer.close()
    consumer = KafkaConsumer(
        "golden-kp",
        bootstrap_servers=bootstrap,
        group_id="golden-kp",
        auto_offset_reset="earliest",
        consumer_timeout_ms=3000,
    )
    print("  consumed", sum(1 for _ in consumer), file=sys.stderr)
    consumer.commit()
    partition = TopicPartition("golden-kp", 0)
    attempt("offsets", lambda: consumer.offsets_for_times({partition: 0}))
    attempt("ends", lambda: (consumer.beginning_offsets([partition]), consumer.end_offsets([partition])))
    attempt("committed", lambda: consumer.committed(partition))
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    attempt("groups", admin.list_groups)
    attempt("describe group", lambda: admin.describe_groups(["golden-kp"]))
    attempt("topics", admin.list_topics)
    attempt("describe", lambda: admin.describe_topics(["golden-kp"]))
    attempt("cluster", admin.describe_cluster)
    consumer.close()
    attempt("delete group", lambda: admin.delete_groups(["golden-kp"]))
    attempt("log dirs", admin.describe_log_dirs)
    admin.close()


def run_aiokafka(bootstrap: str) -> None:
    """Run aiokafka's clients."""
    asyncio.run(_aiokafka(bootstrap))


async def _aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

    for codec in CODECS:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=codec == "gzip",
            transactional_id="golden-aio" if codec == "zstd" else None,
        )
        await producer.start()
        async with producer.transaction() if codec == "zstd" else contextlib.nullcontext():
            for key, value, headers in values():
                await producer.send("golden-aio", value, key, headers=headers)
            if codec == "zstd":
                from aiokafka.structs import TopicPartition

                await producer.send_offsets_to_transaction({TopicPartition("golden-aio", 0): 1}, "golden-aio")
        await producer.stop()
    for level in ("read_committed", "read_uncommitted"):
        consumer = AIOKafkaConsumer(
            "golden-aio",
            bootstrap_servers=bootstrap,
            group_id="golden-aio",
            auto_offset_reset="earliest",
            isolation_level=level,
        )
        await consumer.start()
        await consumer.getmany(timeout_ms=3000)
        await consumer.commit()
        await consumer.stop()
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("golden-aio-2", 2, 1)])
    await admin.create_partitions({"golden-aio-2": NewPartitions(3)})
    await admin.list_consumer_groups()
    await admin.describe_consumer_groups(["golden-aio"])
    await admin.list_consumer_group_offsets("golden-aio")
    await admin.describe_cluster()
    await admin.delete_topics(["golden-aio-2"])
    await admin.close()


def run_confluent(bootstrap: str) -> None:
    """Run confluent-kafka's clients (librdkafka)."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    for codec in CODECS:
        options = {"bootstrap.servers": bootstrap, "compression.codec": codec, "linger.ms": 20}
        if codec == "lz4":
            options["enable.idempotence"] = True
        if codec == "zstd":
            options["transactional.id"] = "golden-ck"
        producer = Producer(options)
        if codec == "zstd":
            producer.init_transactions(20)
            producer.begin_transaction()
        for key, value, headers in values(9):
            producer.produce("golden-ck", value, key, headers=headers)
        producer.flush(20)
        if codec == "zstd":
            producer.abort_transaction(20)
    for protocol in ("classic", "consumer"):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"golden-ck-{protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["golden-ck"])
        print("  consumed", len(consumer.consume(45, 5)), file=sys.stderr)
        attempt("commit", consumer.commit, asynchronous=False)
        attempt("times", consumer.offsets_for_times, [TopicPartition("golden-ck", 0, 1)], 10)
        consumer.close()
    _confluent_admin(bootstrap)


def _confluent_admin(bootstrap: str) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
        NewTopic,
        OffsetSpec,
    )

    admin = AdminClient({"bootstrap.servers": bootstrap})
    latest: OffsetSpec = OffsetSpec.latest()
    partition = TopicPartition("golden-ck-2", 0)
    resource = ConfigResource("topic", "golden-ck-2")
    edited = ConfigResource(
        "topic",
        "golden-ck-2",
        incremental_configs=[ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)],
    )
    offsets = ConsumerGroupTopicPartitions("golden-ck-classic", [TopicPartition("golden-ck", 0, 3)])
    steps: dict[str, Callable[[], Any]] = {
        "create": lambda: admin.create_topics([NewTopic("golden-ck-2", 2, 1, config={"retention.ms": "7200000"})]),
        "create again": lambda: admin.create_topics([NewTopic("golden-ck-2", 2, 1)], validate_only=True),
        "partitions": lambda: admin.create_partitions([NewPartitions("golden-ck-2", 4)]),
        "configs": lambda: admin.describe_configs([resource, ConfigResource("broker", "1")]),
        "alter": lambda: admin.incremental_alter_configs([edited]),
        "topics": lambda: admin.describe_topics(TopicCollection(["golden-ck", "golden-ck-2", "absent"])),
        "cluster": lambda: {"": admin.describe_cluster()},
        "groups": lambda: {"": admin.list_consumer_groups()},
        "describe groups": lambda: admin.describe_consumer_groups(["golden-ck-classic", "absent"]),
        "group offsets": lambda: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("golden-ck-classic")]),
        "alter offsets": lambda: admin.alter_consumer_group_offsets([offsets]),
        "list offsets": lambda: admin.list_offsets({partition: latest}),
        "delete records": lambda: admin.delete_records([TopicPartition("golden-ck", 0, 2)]),
        "elect": lambda: {"": admin.elect_leaders(_preferred(), [partition])},
        "delete groups": lambda: admin.delete_consumer_groups(["golden-ck-classic", "absent"]),
        "delete": lambda: admin.delete_topics(["golden-ck-2", "absent"]),
    }
    for what, step in steps.items():
        for future in (attempt(what, step) or {}).values():
            attempt(what, future.result, 20)


def _preferred() -> Any:
    from confluent_kafka import ElectionType

    return ElectionType.PREFERRED


def run_java(bootstrap: str) -> None:
    """Run the Java clients and Kafka's command-line tools."""
    java = JavaRunner()
    try:
        _java_clients(java, bootstrap)
        _java_tools(java, bootstrap)
    finally:
        java.close()


def _text(data: str | bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def _java_clients(java: JavaRunner, bootstrap: str) -> None:
    for codec in CODECS:
        records = [
            {
                "key": _text(key),
                "value": _text(value),
                "timestamp": None,
                "partition": 0,
                "headers": [[name, _text(content)] for name, content in headers],
            }
            for key, value, headers in values(7)
        ]
        config = {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": "50",
            "enable.idempotence": str(codec != "gzip").lower(),
        }
        request = {"config": config, "topic": "golden-java", "records": records}
        attempt(f"produce {codec}", java.client, "produce", request)
    for extra in (["--isolation-level", "read_committed"], ["--consumer-property", "group.protocol=consumer"]):
        tool = ["ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", "golden-java", "--from-beginning"]
        tool += ["--timeout-ms", "4000", "--group", f"golden-java-{len(extra[1])}", *extra]
        attempt("consume", java.tool, *tool)


def _java_tools(java: JavaRunner, bootstrap: str) -> None:
    deletions = Path(tempfile.mkdtemp()) / "deletions.json"
    deletions.write_text('{"partitions":[{"topic":"golden-java","partition":0,"offset":3}],"version":1}')
    runs = f"""
        TopicCommand --create --topic golden-java-2 --partitions 2 --config retention.ms=7200000
        TopicCommand --alter --topic golden-java-2 --partitions 3
        TopicCommand --describe
        ConfigCommand --describe --entity-type topics --entity-name golden-java-2 --all
        ConfigCommand --alter --entity-type topics --entity-name golden-java-2 --add-config retention.ms=1
        ConfigCommand --alter --entity-type clients --entity-name c --add-config producer_byte_rate=1000000
        ConfigCommand --describe --entity-type clients
        ConfigCommand --alter --entity-type users --entity-name u --add-config SCRAM-SHA-256=[password=p]
        ConfigCommand --describe --entity-type users
        ConsumerGroupCommand --describe --all-groups
        ConsumerGroupCommand --list --state
        ConsumerGroupCommand --reset-offsets --to-earliest --group golden-java-14 --all-topics --execute
        ConsumerGroupCommand --delete-offsets --group golden-java-14 --topic golden-java
        ConsumerGroupCommand --delete --group golden-java-14
        GetOffsetShell --time -3
        GetOffsetShell --time 1
        DeleteRecordsCommand --offset-json-file {deletions}
        LogDirsCommand --describe
        LeaderElectionCommand --election-type preferred --all-topic-partitions
        BrokerApiVersionsCommand
        GroupsCommand --list
        org.apache.kafka.tools.TransactionsCommand list
        org.apache.kafka.tools.TransactionsCommand describe-producers --topic golden-java --partition 0
        org.apache.kafka.tools.TransactionsCommand describe --transactional-id golden-ck
        org.apache.kafka.tools.FeatureCommand describe
        org.apache.kafka.tools.MetadataQuorumCommand describe --replication
        org.apache.kafka.tools.ClientMetricsCommand --list
        org.apache.kafka.tools.reassign.ReassignPartitionsCommand --list
        org.apache.kafka.tools.AclCommand --list
        org.apache.kafka.tools.consumer.ConsoleShareConsumer --topic golden-java --group golden-share --timeout-ms 3000
        TopicCommand --delete --topic golden-java-2
    """
    for name, *arguments in (line.split() for line in runs.strip().splitlines()):
        run = [name, "--bootstrap-server", bootstrap, *arguments]
        result = attempt(name, java.tool, *run)
        if result is not None and result.status:
            print(f"  {name} {arguments}: {result.err.splitlines()[:1]}", file=sys.stderr)


def run_kcat(bootstrap: str) -> None:
    """Run kcat, also with old protocol versions."""
    lines = b"".join(b"k%d:v%d\n" % (i, i) for i in range(6))
    for codec in CODECS:
        _kcat(["-P", "-b", bootstrap, "-t", "golden-kcat", "-z", codec, "-K:", "-Z", "-H", "h=1"], lines)
    _kcat(["-P", "-b", bootstrap, "-t", "golden-kcat", "-X", "enable.idempotence=true", "-K:"], lines)
    _kcat(["-L", "-b", bootstrap])
    _kcat(["-C", "-b", bootstrap, "-t", "golden-kcat", "-e", "-o", "beginning"])
    _kcat(["-C", "-b", bootstrap, "-t", "__consumer_offsets", "-e", "-o", "beginning"])
    _kcat(["-Q", "-b", bootstrap, "-t", "golden-kcat:0:-1"])
    # An old consumer: Kafka no longer serves the Fetch versions that request message formats before 2.
    _kcat(["-b", bootstrap, "-G", "golden-kcat", "golden-kcat", "-e", "-X", "auto.offset.reset=earliest"])
    _kcat(["-b", bootstrap, "-L", "-X", "api.version.request=false", "-X", "broker.version.fallback=0.10.0"], fail=True)


def _kcat(arguments: list[str], stdin: bytes = b"", fail: bool = False) -> None:
    done = subprocess.run(["kcat", "-m", "10", *arguments], input=stdin, capture_output=True, check=False, timeout=60)
    if done.returncode and not fail:
        print(f"  kcat {arguments}: {done.stderr[-200:]!r}", file=sys.stderr)


CLIENTS: dict[str, Callable[[str], None]] = {
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
    "confluent-kafka": run_confluent,
    "java": run_java,
    "kcat": run_kcat,
}


def main() -> int:
    """Record all sessions, and write the frames into the folder of the command line."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/codec/golden")
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    recorder = Recorder()
    with tempfile.TemporaryDirectory(prefix="kwire-golden-") as home:
        proxy_port = free_port()
        listeners = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy_port}"}
        broker = KafkaBroker(Path(home) / "kafka", listeners)
        broker.start()
        try:
            Proxy(recorder, proxy_port, broker.port)
            for name, session in CLIENTS.items():
                started = time.monotonic()
                recorder.client = name
                attempt(name, session, f"127.0.0.1:{proxy_port}")
                print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
        finally:
            broker.kill()
    recorder.write(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

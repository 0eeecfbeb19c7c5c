"""`kwire start --brokers auto`: one broker per core, as one broker to its users."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from harness.downloads import untar
from harness.processes.brokers import wait_until
from harness.processes.ports import free_port
from harness.wire_client import WireClient
from kwire.base.addresses import parse_address
from kwire.base.errors import ErrorCode
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.records import iter_headers, iter_records

PATIENCE_S = 120.0
OLD = Path(__file__).parents[3] / "tests/old_data/0.1.0-killed.tar.xz"
ON_CORES = """
import sys
from kwire.cli.brokers import preparation
cores = int(sys.argv.pop(1))
preparation.usable_cores = lambda: cores
from kwire.cli import main
sys.exit(main())
"""
"""A process that believes to have so many cores; its brokers are ordinary ones."""


class Host:
    """A running command. ``bootstrap``: the addresses in the ready line, in order."""

    def __init__(self, directory: Path, cores: int | None, *options: str, log: Path | None = None) -> None:
        self.log = log or directory.parent / "log"
        start = [sys.executable, "-m", "kwire"] if cores is None else [sys.executable, "-c", ON_CORES, str(cores)]
        command = [*start, "start", "--brokers", "auto", "--data-dir", str(directory), *options]
        if "--listen" not in options:
            command += ["--listen", "127.0.0.1:0"]
        with self.log.open("ab") as log_file:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log_file)
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline().decode()
        assert self.line.startswith("kwire ready "), self.log_text()
        self.bootstrap = dict(word.split("=", 1) for word in self.line.split()[2:])["bootstrap"]

    def log_text(self) -> str:
        return self.log.read_text()

    def pids(self) -> dict[int, int]:
        """The process ids of the brokers."""
        found: dict[int, int] = {}
        for child in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
            found |= {int(word.partition("=")[2]): int(child) for word in words if word.startswith("node.id=")}
        return found

    def replicas(self, topic: str | None = None) -> dict[str, list[tuple[int, ...]]]:
        """The replicas of each partition, the preferred leader first."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topics = admin.list_topics(topic, timeout=30).topics
        return {
            name: [tuple(each.partitions[number].replicas) for number in sorted(each.partitions)]
            for name, each in topics.items()
        }

    def status(self) -> Any:
        command = [sys.executable, "-m", "kwire", "cluster", "--bootstrap-server", self.bootstrap, "-o", "json"]
        shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        return json.loads(shown.stdout) if shown.stdout else {"well": False, "brokers": []}

    def wait_until_well(self) -> None:
        count = self.bootstrap.count(",") + 1

        def is_well() -> bool:
            status = self.status()
            return bool(status["well"]) and len(status["brokers"]) == count

        wait_until(is_well, PATIENCE_S, "all brokers are there and every partition has a leader", 0.2)

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(PATIENCE_S) == 0, self.log_text()[-3000:]


Start = Callable[..., Host]


@contextmanager
def starting(directory: Path) -> Iterator[Start]:
    """A function that starts `Host`s in a directory; whatever still runs is ended."""
    hosts = []

    def start(cores: int | None, *options: str) -> Host:
        host = Host(directory, cores, *options)
        hosts.append(host)
        return host

    try:
        yield start
    finally:
        for host in hosts:
            if host.process.poll() is None:
                host.process.kill()
                host.process.wait()
            assert host.process.stdout is not None
            host.process.stdout.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path / "data") as function:
        yield function


def create(host: Host, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": host.bootstrap})
    admin.create_topics([NewTopic(name, partitions)])[name].result(60)


def write(host: Host, topic: str, values: list[bytes]) -> None:
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": host.bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(str(error)) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert not failed


def read(host: Host, topic: str, count: int, group: str) -> list[bytes]:
    """``count`` committed values, read by kafka-python as a member of a group, and what comes with the last of them."""
    from kafka import KafkaConsumer  # which warns of a deprecation

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=host.bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    found: list[bytes] = []

    def more() -> bool:
        for records in consumer.poll(timeout_ms=500).values():
            found.extend(record.value for record in records)
        return len(found) >= count

    try:
        wait_until(more, PATIENCE_S, f"{count} records of {topic}", 0.0)
    finally:
        consumer.close()
    return found


def check_spread(replicas: list[tuple[int, ...]], brokers: int) -> None:
    counts = Counter(each[0] for each in replicas)
    assert len(counts) == brokers, counts
    assert max(counts.values()) - min(counts.values()) <= 1, counts


def test_one_broker_for_each_core_of_the_affinity(start: Start, tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        host = start(None)
    finally:
        os.sched_setaffinity(0, cores)
    assert re.fullmatch(rf"kwire ready bootstrap=127\.0\.0\.1:\d+ pid={host.process.pid}\n", host.line)
    host.stop()
    host = start(None)
    assert host.bootstrap.count(":") == min(len(cores), 16)
    host.stop()


def test_two_brokers_are_one_to_their_users(start: Start) -> None:
    port, second = free_port(), free_port()
    while second != port + 1:
        port, second = second, free_port()
    metrics = free_port()
    host = start(
        2, "--listen", f"127.0.0.1:{port}", "--announce", "here", "--set", f"kwire.metrics.listen=127.0.0.1:{metrics}"
    )
    assert host.line == f"kwire ready bootstrap=127.0.0.1:{port},127.0.0.1:{port + 1} pid={host.process.pid}\n"
    assert host.process.stdout is not None
    assert host.process.stdout.readline() == b"here\n"
    _defaults(host)
    _spread(host)
    _transactions(host)
    _metrics(metrics)
    _kill_each(host)
    _usr1(host)
    host.stop()
    lines = [json.loads(line) for line in host.log_text().splitlines()]
    assert {line.get("broker") for line in lines if line["event"] == "stopped"} == {1, 2}


def _defaults(host: Host) -> None:
    """As those of one broker, not set by anybody."""
    admin = AdminClient({"bootstrap.servers": host.bootstrap})
    for node_id in ("1", "2"):
        resource = ConfigResource(ConfigResource.Type.BROKER, node_id)
        values = admin.describe_configs([resource])[resource].result(30)
        for name in (
            "default.replication.factor",
            "min.insync.replicas",
            "offsets.topic.replication.factor",
            "transaction.state.log.replication.factor",
            "transaction.state.log.min.isr",
            "share.coordinator.state.topic.replication.factor",
            "share.coordinator.state.topic.min.isr",
        ):
            assert values[name].value == "1", name
            if name != "min.insync.replicas":
                assert values[name].is_default, name


def _spread(host: Host) -> None:
    """Topics of one partition, of many, and the internal ones."""
    names = [f"small-{number}" for number in range(6)]
    for name in names:
        create(host, name, 1)
    create(host, "wide", 7)
    values = [b"%d" % number for number in range(700)]
    write(host, "wide", values)
    assert sorted(read(host, "wide", 700, "readers")) == sorted(values)
    replicas = host.replicas()
    check_spread([replicas[name][0] for name in names], 2)
    check_spread(replicas["wide"], 2)
    check_spread(replicas["__consumer_offsets"], 2)
    assert all(len(each) == 1 for partitions in replicas.values() for each in partitions)


def _transactions(host: Host) -> None:
    producer = Producer({"bootstrap.servers": host.bootstrap, "transactional.id": "spanning"})
    producer.init_transactions(60)
    committed = []
    create(host, "spanned", 4)
    for number in range(4):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, partition) for partition in range(4)]
        for partition, value in enumerate(values):
            producer.produce("spanned", value, partition=partition)
        if number == 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            committed += values
    assert sorted(read(host, "spanned", len(committed), "committed only")) == sorted(committed)
    check_spread(host.replicas()["__transaction_state"], 2)
    consumer = Consumer({"bootstrap.servers": host.bootstrap, "group.id": "positions"})
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition("spanned", 0, 3)], consumer.consumer_group_metadata(), 60)
    producer.commit_transaction(60)
    assert consumer.committed([TopicPartition("spanned", 0)], timeout=60)[0].offset == 3
    consumer.close()


def _metrics(port: int) -> None:
    from urllib.request import urlopen

    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
        text = page.read().decode()
    assert {'broker="1"', 'broker="2"'} <= set(re.findall(r'broker="\d+"', text))


def _kill_each(host: Host) -> None:
    """A broker that is killed comes back at the same address, and leads again what it led."""
    before = host.replicas()["wide"]
    values = [b"after-%d" % number for number in range(300)]
    for node_id, pid in host.pids().items():
        os.kill(pid, signal.SIGKILL)
        write(host, "wide", values)
        host.wait_until_well()
        assert host.pids()[node_id] != pid
    assert host.replicas()["wide"] == before
    found = read(host, "wide", 700 + 2 * len(values), "readers after kills")
    assert Counter(found)[b"after-0"] == 2
    assert len(found) == 700 + 2 * len(values)
    for each in host.status()["brokers"]:
        assert each["leads"] > 0


def _usr1(host: Host) -> None:
    """SIGUSR1 is for all brokers."""
    host.process.send_signal(signal.SIGUSR1)

    def dumped() -> bool:
        found = [json.loads(line) for line in host.log_text().splitlines() if "dump complete" in line]
        return {line.get("broker") for line in found} >= {1, 2}

    wait_until(dumped, PATIENCE_S, "both brokers have logged their state", 0.1)


def test_growth_keeps_all_data_and_spreads_it(start: Start, tmp_path: Path) -> None:
    host = start(1)
    assert host.bootstrap.count(":") == 1
    create(host, "t", 6)
    values = [b"%d" % number for number in range(3000)]
    write(host, "t", values)
    assert len(read(host, "t", 1000, "readers")) >= 1000
    read_before = Counter(read(host, "t", 3000, "all"))
    host.stop()
    host = start(3)
    wait_until(lambda: _is_spread(host, 3), PATIENCE_S, "partitions are spread over three brokers", 0.5)
    host.wait_until_well()
    check_spread(host.replicas()["t"], 3)
    check_spread(host.replicas()["__consumer_offsets"], 3)
    assert _throttles(host) == []
    more = [b"more-%d" % number for number in range(300)]
    write(host, "t", more)
    found = Counter(read(host, "t", 300, "all"))  # its offsets have moved with it
    assert found == Counter(more), found - Counter(more)
    assert read_before == Counter(values)
    assert Counter(read(host, "t", 3300, "anew")) == Counter([*values, *more])
    os.kill(host.process.pid, signal.SIGKILL)  # its brokers end by themselves
    host.process.wait()
    host = start(1)  # never fewer brokers than hold partitions
    assert host.bootstrap.count(":") == 3
    host.wait_until_well()
    assert Counter(read(host, "t", 3300, "once more")) == Counter([*values, *more])
    host.stop()
    for options, said in (
        (
            ("--brokers", "2"),
            "--brokers 2: .* has partitions in broker-3, too: start it with --brokers 3 or --brokers auto",
        ),
        ((), "holds the data of several brokers: start them with kwire start --brokers auto"),
    ):
        command = [
            sys.executable,
            "-m",
            "kwire",
            "start",
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            str(tmp_path / "data"),
        ]
        refused = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert refused.returncode == 1
        (line,) = [line for line in refused.stderr.splitlines() if line.startswith("kwire: ")]
        assert re.search(said, line), line


def _is_spread(host: Host, brokers: int) -> bool:
    counts = Counter(each[0] for each in host.replicas()["t"])
    return len(counts) == brokers and all(len(each) == 1 for each in host.replicas()["t"]) and not _throttles(host)


def _throttles(host: Host) -> list[str]:
    """The throttles that are set on a topic or a broker."""
    admin = AdminClient({"bootstrap.servers": host.bootstrap})
    resources = [ConfigResource(ConfigResource.Type.TOPIC, "t")]
    resources += [ConfigResource(ConfigResource.Type.BROKER, str(each)) for each in (1, 2, 3)]
    found = []
    for resource in resources:
        values = admin.describe_configs([resource])[resource].result(30).values()
        found += [each.name for each in values if "throttled" in each.name and each.source in (1, 2) and each.value]
    return found


def test_a_directory_of_a_single_broker_is_moved_into_place(start: Start, tmp_path: Path) -> None:
    """Here one of 0.1.0, which was killed."""
    untar(OLD, tmp_path)
    expected = json.loads((tmp_path / "expected.json").read_text())
    host = start(2, "--set", "log.retention.ms=-1", "--set", "log.message.timestamp.before.max.ms=9223372036854775807")
    host.wait_until_well()
    for place, records in expected["records"].items():
        topic, _, partition = place.rpartition("-")
        if topic != "compacted":
            assert [record[:2] for record in sorted(records)] == _records(host, topic, int(partition)), place
    for group, positions in expected["groups"].items():
        consumer = Consumer({"bootstrap.servers": host.bootstrap, "group.id": group})
        asked = [TopicPartition("plain", int(partition)) for partition in positions]
        committed = {str(each.partition): each.offset for each in consumer.committed(asked, timeout=60)}
        consumer.close()
        assert committed == positions, group

    def led() -> set[int]:
        return {each[0] for partitions in host.replicas().values() for each in partitions}

    wait_until(lambda: led() == {1, 2}, PATIENCE_S, "partitions are spread over both brokers", 0.3)
    host.stop()
    assert not (tmp_path / "data/meta.properties").exists()
    users = [sys.executable, "-m", "kwire", "user", "list", "--data-dir", str(tmp_path / "data")]
    assert subprocess.run(users, capture_output=True, check=False, timeout=PATIENCE_S).returncode == 0
    assert not (tmp_path / "data/kwire-store.sqlite").exists()


def _fetched(host: Host, topic: str, partition: int) -> Any:
    """What the partition's leader answers; it may have moved since it was looked up."""
    admin = AdminClient({"bootstrap.servers": host.bootstrap})
    metadata = admin.list_topics(topic, timeout=30)
    broker = metadata.brokers[metadata.topics[topic].partitions[partition].leader]
    asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[asked])]
    with WireClient(str(parse_address(f"{broker.host}:{broker.port}"))) as client:
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=1, topics=topics)
        (told,) = client.call(request, 12).responses[0].partitions
    return told


def _records(host: Host, topic: str, partition: int) -> list[list[Any]]:
    """[offset, value] of every committed record, from the partition's leader, while partitions are spread."""
    answers: list[Any] = []

    def is_led() -> bool:
        answers.append(_fetched(host, topic, partition))
        return bool(answers[-1].error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER)

    wait_until(is_led, PATIENCE_S, f"the leader of {topic}-{partition} has been asked", 0.1)
    told = answers[-1]
    assert told.error_code == 0
    aborted = {each.producer_id: each.first_offset for each in told.aborted_transactions or ()}
    found: list[list[Any]] = []
    view = memoryview(told.records or b"")
    for position, header in iter_headers(view):
        if header.is_control or header.base_offset >= aborted.get(header.producer_id, 1 << 60):
            if header.is_control:
                aborted.pop(header.producer_id, None)
            continue
        for record in iter_records(view[position : position + header.size], max_bytes=1 << 20):
            found.append([record.offset, bytes(record.value or b"").decode()])
    return found

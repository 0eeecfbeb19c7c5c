"""The two brokers as a benchmark runs them, and what they use: processor time and memory.

Both get the properties of Kafka's own `config/server.properties` and Kafka's defaults otherwise; Apache Kafka runs with
the heap and the flags of its start script. Starting and stopping: `harness.processes.brokers`.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.kafka_jars import kafka_classpath, kafka_jars_dir
from harness.processes.brokers import KafkaBroker, KwireBroker, wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic

SETTINGS = {
    "num.partitions": "1",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
    "group.min.session.timeout.ms": "6000",
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.listen.backlog.size": "1000",  # a thousand connections come at once
    "log.retention.ms": "604800000",
    "log.segment.delete.delay.ms": "100",  # so that a workload's data is gone before the next one begins
}
"""Equal on both sides; on top of what `harness.processes.brokers` sets."""

HEAP = ["-Xmx1G", "-Xms1G"]
FLAGS = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]
"""What `kafka-server-start.sh` gives the JVM."""


class Kafka(KafkaBroker):
    """Apache Kafka as its start script runs it, on a directory formatted before."""

    def _command(self, properties: Path) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={kafka_jars_dir() / 'log4j2.properties'}"
        return ["java", *HEAP, *FLAGS, logging, "-cp", kafka_classpath(), "kafka.Kafka", str(properties)]

    def begin(self) -> None:
        """Start the process again, on its directory, without waiting for it."""
        self._process = self._spawn(self._command(self.home / "server.properties"))


class Kwire(KwireBroker):
    """kwire as `kwire start` runs it, its modules compiled before, as an installation does."""

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "kwire", "start", "--listen", f"{self.host}:{self.port}"]
        command += ["--data-dir", str(self.data_dir)]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        return command

    def begin(self) -> None:
        """Start the process again, on its directory, without waiting for it."""
        self._process = self._spawn(self._command())


class Target:
    """A running broker under measurement: topics, offsets, processor time, memory."""

    def __init__(self, kind: str, home: Path, settings: Mapping[str, str] | None = None) -> None:
        make = {"kwire": Kwire, "kafka": Kafka}[kind]
        self.kind = kind
        self.broker: Kwire | Kafka = make(home, {**SETTINGS, **(settings or {})})
        self._topics = 0

    def start(self) -> None:
        self.broker.start()

    def stop(self) -> None:
        self.broker.stop()

    @property
    def port(self) -> int:
        return self.broker.port

    def client(self) -> WireClient:
        return WireClient(self.broker.bootstrap, timeout_s=180)

    # Topics

    def create_topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> Topic:
        """A new topic of which every partition has a leader."""
        self._topics += 1
        name = f"bench-{self._topics}"
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
        new = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
        with self.client() as client:
            answer = client.call(CreateTopicsRequest(topics=[new], timeout_ms=120_000), 7).topics[0]
            assert not answer.error_code, (self.kind, answer.error_code, answer.error_message)
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])

            def led() -> bool:
                found = client.call(asked, 12).topics[0].partitions
                return len(found) == partitions and all(not each.error_code for each in found)

            wait_until(led, 120, f"leaders of {name}")
            topic = Topic(self, name, answer.topic_id, partitions)
            wait_until(lambda: topic.end_offsets() is not None, 120, f"logs of {name}")
        return topic

    def producer_id(self) -> tuple[int, int]:
        """A new idempotent producer's id and epoch."""
        answer: Any = None

        def given() -> bool:
            nonlocal answer
            answer = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
            return not answer.error_code

        with self.client() as client:
            wait_until(given, 30, "a producer id")
        return answer.producer_id, answer.producer_epoch

    def warm_pages(self, size: int) -> None:
        """Make the next ``size`` bytes that are written to files find memory that this machine has already.

        On a virtual machine the first touch of memory that was free is ten times slower than the write itself, and the
        host takes back what was free for two seconds: without this, the two brokers would be measured on different
        memory."""
        block = bytes(1 << 20)
        path = self.broker.home / "warm"
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            for position in range(0, size, len(block)):
                os.pwrite(fd, block, position)
        finally:
            os.close(fd)
            path.unlink()

    # What it uses

    def cpu_s(self) -> float:
        """User and system time of the broker's process, its threads past and present, and of its children."""
        return sum(_cpu_s(pid) for pid in _family(self.broker.pid))

    def resident_mb(self) -> float:
        return sum(_memory_mb(pid, "status", "VmRSS") for pid in _family(self.broker.pid))

    def proportional_mb(self) -> float:
        """Memory with what is shared with other processes counted in part (PSS)."""
        return sum(_memory_mb(pid, "smaps_rollup", "Pss") for pid in _family(self.broker.pid))

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.broker.pid}/fd"))


class Topic:
    """A topic of a target."""

    def __init__(self, target: Target, name: str, topic_id: bytes, partitions: int) -> None:
        self.target = target
        self.name = name
        self.id = topic_id
        self.partitions = partitions

    def end_offsets(self) -> list[int] | None:
        """The end of every partition; None while one has no answer."""
        parts = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(self.partitions)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=self.name, partitions=parts)])
        with self.target.client() as client:
            answers = client.call(request, 7).topics[0].partitions
        if any(each.error_code for each in answers):
            return None
        return [each.offset for each in sorted(answers, key=lambda each: each.partition_index)]

    def records(self) -> int:
        """How many records there are by the partitions' offsets."""
        return sum(self.end_offsets() or ())

    def directories(self) -> list[Path]:
        return [self.target.broker.data_dir / f"{self.name}-{index}" for index in range(self.partitions)]

    def delete(self) -> None:
        """Delete it, and wait until its files are gone, so that nobody pays for that later."""
        with self.target.client() as client:
            states = [DeleteTopicState(name=self.name)]
            client.call(DeleteTopicsRequest(topics=states, timeout_ms=60_000), 6)
        prefix = f"{self.name}-"

        def gone() -> bool:
            return not any(name.startswith(prefix) for name in os.listdir(self.target.broker.data_dir))

        wait_until(gone, 60, f"the files of {self.name} are deleted")

    def forget_cached(self) -> None:
        """Have the system drop what it caches of the files: they are read from the disk next time."""
        for directory in self.directories():
            for path in directory.glob("*.log"):
                fd = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(fd)
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(fd)


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for parent in found:
        try:
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += [int(word) for word in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def _cpu_s(pid: int) -> float:
    # The clock of another process (CPUCLOCK_SCHED in Linux): nanoseconds, where /proc/PID/stat has hundredths.
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def _memory_mb(pid: int, file: str, name: str) -> float:
    try:
        match = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(match[1]) * 1024 / 1e6 if match else 0.0

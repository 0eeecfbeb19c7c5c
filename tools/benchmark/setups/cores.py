"""All cores: ``kwire start --brokers auto``, one broker for each core, beside Apache Kafka, which has its threads.

The topic has a partition for each core, and each connection writes to one of them, at its leader, as clients do. Apache
Kafka gets the same requests. With more brokers than cores (`Workload.brokers`) one sees what the processes cost.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.inspection import process_usage
from harness.processes.brokers import KwireBroker, wait_until
from harness.processes.production import SERVER_PROPERTIES, production_broker
from harness.wire_client import WireClient
from kwire.cli.brokers.cores import usable_cores
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.server.ready_line import ReadyLine
from tools.benchmark import frames, generator
from tools.benchmark.floor import FLOOR, FloorTarget
from tools.benchmark.targets import Target, Topic
from tools.benchmark.workloads import CORES, Facts, Workload, answers


class CoresBroker(KwireBroker):
    """The processes of ``kwire start --brokers``. ``ports``: those of the brokers."""

    def __init__(self, home: Path, count: int | None) -> None:
        super().__init__(home, SERVER_PROPERTIES)
        self.options = ("--brokers", "auto" if count is None else str(count))
        self.ports: list[int] = []

    def choose_ports(self) -> None:
        """The command chooses free ports itself."""

    def _check(self, text: str) -> None:
        super()._check(text)
        self.ports = [address.port for address in ReadyLine.parse(text).addresses]
        self.port = self.ports[0]

    def kill(self) -> None:
        """SIGKILL for all processes; return when they are gone."""
        family = process_usage.family(self.pid) if self.is_running() else []
        super().kill()
        for pid in family[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(_lives, family)), 30, "the brokers have ended")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class CoresTarget(Target):
    """Several brokers under measurement; ``count`` None is one for each core."""

    def __init__(self, home: Path, count: int | None = None) -> None:
        self.brokers = CoresBroker(home, count)
        super().__init__(self.brokers)

    def topic(self, name: str, topic_id: bytes, partitions: int) -> Topic:
        """A topic that there is; its partitions have leaders on all brokers."""
        return CoresTopic(self, name, topic_id, partitions)

    def data_dirs(self) -> list[Path]:
        """The directories of all brokers."""
        return sorted(self.broker.data_dir.glob("broker-*"))


class CoresTopic(Topic):
    """A topic of several brokers; the leader of each partition answers for it."""

    def ports(self) -> list[int]:
        """The port of each partition's leader."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.name)])
        with self.target.client() as client:
            response = client.call(request, 12)
        ports = {broker.node_id: broker.port for broker in response.brokers}
        leaders = {each.partition_index: each.leader_id for each in response.topics[0].partitions}
        return [ports[leaders[index]] for index in range(self.partitions)]

    def end_offsets(self) -> list[int] | None:
        """The log end offset of every partition; None while one is not served."""
        found = []
        for index, port in enumerate(self.ports()):
            part = ListOffsetsPartition(partition_index=index, timestamp=-1)
            request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=self.name, partitions=[part])])
            with WireClient(f"127.0.0.1:{port}") as client:
                answer = client.call(request, 7).topics[0].partitions[0]
            if answer.error_code:
                return None
            found.append(answer.offset)
        return found


@dataclass(frozen=True)
class OneRecordOnCores:
    """One record a request, acks=all, one request under way on each connection; a partition for each core."""

    connections: int
    requests: int = 60_000

    def __call__(self, target: Target, scale: float) -> Facts:
        """Send requests of one record each to the leaders and wait for every response. See `Measure`."""
        topic = target.create_topic(max(usable_cores(), 2))
        batch = frames.batch_of(100, 0)
        templates = [frames.produce(topic.id, [index], *batch, acks=-1) for index in range(topic.partitions)]
        requests = max(int(self.requests * scale), 2 * self.connections)
        send = partial(generator.run, target, templates, port=topic.ports(), producers=self.connections, inflight=1)
        send(requests=max(requests // 5, self.connections))
        before = topic.records()
        result = send(requests=requests)
        assert topic.records() - before == requests
        topic.delete()
        return {
            "requests_s": requests / result["send_s"],
            "cpu_s_per_thousand": result["cpu_s"] / requests * 1e3,
            "generator_busy": result["own_cpu_s"] / result["send_s"],
            **answers(result),
        }


def cores_target(kind: str, home: Path) -> Target:
    """What `cores` measures, not started yet."""
    if kind == FLOOR:
        return FloorTarget(home)
    return CoresTarget(home) if kind == "kwire" else Target(production_broker(kind, home))


@contextmanager
def running(count: int) -> Iterator[Target]:
    """So many brokers on empty directories, warmed up."""
    home = Path(tempfile.mkdtemp(prefix="bench-cores-"))
    target = CoresTarget(home, count)
    try:
        target.start()
        warm_up(target, 1)
        yield target
    finally:
        target.broker.kill()
        shutil.rmtree(home, ignore_errors=True)


def warm_up(target: Target, scale: float) -> None:
    """Run the path for a while: a JVM compiles what it runs often."""
    for connections in (50, 1000):
        OneRecordOnCores(connections, 100_000)(target, scale)


def cores() -> list[Workload]:
    """The workloads, of which those with ``brokers`` are for `running`."""

    def line(key: str, title: str, connections: int, *bounds: tuple[str, float], brokers: int = 0) -> Workload:
        measure, costs = OneRecordOnCores(connections), ("requests_s", "cpu_s_per_thousand")
        return Workload(f"cores-{key}", title, CORES, measure, *costs, bounds, on_floor=not brokers, brokers=brokers)

    better = (("requests_s", 1.2), ("cpu_s_per_thousand", 0.7))
    return [
        line("50", "50 connections", 50, *better),
        line("1000", "1,000 connections", 1000, *better),
        line("5000", "5,000 connections", 5000),
        *(
            line(f"{count}-brokers", f"50 connections, {count} brokers (overhead only)", 50, brokers=count)
            for count in (4, 8)
        ),
    ]

"""Workloads that need more than the load generator: Apache Kafka's own tools, a large group, the metadata of 10,000
partitions, start-up and memory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness.kafka_jars import kafka_classpath, kafka_jars_dir
from harness.processes.production import production_broker
from harness.wire_client import WireClient
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from tools.benchmark import frames, generator
from tools.benchmark.floor import FLOOR, FloorTarget
from tools.benchmark.shared import shared
from tools.benchmark.targets import Target, Topic
from tools.benchmark.workloads import CLUSTER, FOOTPRINT, LATENCY, TOOLS, Facts, Workload
from tools.thousand_members import Crowd, prepare

# -- Kafka's tools ---------------------------------------------------------------------------------------------------

_TOOL_FLAGS = ["-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]


def _tool(name: str, *arguments: str) -> str:
    logging = f"-Dlog4j2.configurationFile={kafka_jars_dir() / 'log4j2.properties'}"
    command = ["java", *_TOOL_FLAGS, logging, "-cp", kafka_classpath(), f"org.apache.kafka.tools.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{name}: {done.stdout[-500:]}{done.stderr[-500:]}"
    return done.stdout


@dataclass(frozen=True)
class ProducerTool:
    """ProducerPerformance with its defaults: idempotent, acks=all, 16 KiB batches."""

    records: int
    arguments: tuple[str, ...] = ()

    def __call__(self, target: Target, scale: float) -> Facts:
        """Send the records with Kafka's ProducerPerformance. See `Measure`."""
        topic = target.create_topic()
        records = max(int(self.records * scale), 100_000)
        common = ["--bootstrap-server", target.broker.bootstrap, "--topic", topic.name]
        common += ["--throughput", "-1", "--record-size", "100", "--warmup-records", str(records // 5)]
        before = target.cpu_s()
        said = _tool("ProducerPerformance", *common, "--num-records", str(records), *self.arguments)
        used = target.cpu_s() - before
        found = re.findall(r"([\d.]+) records/sec.* ([\d.]+) ms 50th.* ([\d.]+) ms 99th", said)[-1]
        written = topic.records()
        assert written >= records, f"{written} records in the log, {records} sent"
        topic.delete()
        rate, p50_ms, p99_ms = map(float, found)
        return {
            "records_s": rate,
            "mb_s": rate * 100 / 1e6,
            "cpu_s_per_million": used / written * 1e6,
            "p50_us": p50_ms * 1e3,
            "p99_us": p99_ms * 1e3,
        }


@dataclass(frozen=True)
class ConsumerTool:
    """ConsumerPerformance, on records that the load generator has written."""

    records: int

    def __call__(self, target: Target, scale: float) -> Facts:
        """Read the records with Kafka's ConsumerPerformance. See `Measure`."""
        topic = target.create_topic()
        records = max(int(self.records * scale), 100_000)
        batch, count = frames.batch_of(100, 16 * 1024)
        requests = records // count + 1
        template = frames.produce(topic.id, [0], batch, count, -1)
        generator.run(target, [template], producers=1, inflight=5, requests=requests)
        before = target.cpu_s()
        common = ["--bootstrap-server", target.broker.bootstrap, "--topic", topic.name, "--hide-header"]
        said = _tool("ConsumerPerformance", *common, "--num-records", str(records))
        used = target.cpu_s() - before
        words = said.strip().splitlines()[-1].split(", ")
        assert float(words[4]) >= records, said
        topic.delete()
        return {"records_s": float(words[9]), "mb_s": float(words[8]), "cpu_s_per_million": used / records * 1e6}


@dataclass(frozen=True)
class EndToEndTool:
    """EndToEndLatency: one record after the other, produced and consumed. Except for the average, Kafka's tool reports
    whole milliseconds."""

    records: int

    def __call__(self, target: Target, scale: float) -> Facts:
        """Measure with Kafka's EndToEndLatency. See `Measure`."""
        topic = target.create_topic()
        records = max(int(self.records * scale), 500)
        before = target.cpu_s()
        words = ["--bootstrap-server", target.broker.bootstrap, "--topic", topic.name]
        words += ["--num-records", str(records), "--producer-acks", "all", "--record-size", "100"]
        said = _tool("EndToEndLatency", *words)
        used = target.cpu_s() - before
        topic.delete()
        average = re.search(r"Avg latency: ([\d.]+) ms", said)
        p99 = re.search(r"99th = (\d+)", said)
        assert average and p99, said
        return {
            "e2e_mean_us": float(average[1]) * 1e3,
            "e2e_p99_us": float(p99[1]) * 1e3,
            "cpu_s_per_thousand": used / records * 1e3,
        }


# -- groups, metadata ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rebalance:
    """A consumer group (KIP-848) whose members join all at once: the time until every partition has an owner."""

    members: int = 100
    partitions: int = 200

    def __call__(self, target: Target, scale: float) -> Facts:
        """Let all members join and leave again. See `Measure`."""
        home = target.broker.home
        marker = home / "members-prepared"
        if not marker.exists():
            prepare(target.broker, self.partitions)
            marker.write_text("")
        crowd = Crowd(target.broker, self.partitions, f"large-{time.monotonic_ns()}")
        before = target.cpu_s()
        started = time.perf_counter()
        crowd.join(self.members)
        crowd.settle()
        facts = {"seconds": time.perf_counter() - started}
        beats = crowd.beats
        used = target.cpu_s() - before
        crowd.leave(self.members)
        for client in crowd.clients:
            client.close()
        return facts | {"cpu_s_per_thousand": used / beats * 1e3, "requests_s": beats / facts["seconds"]}


@dataclass(frozen=True)
class ManyPartitions:
    """Metadata requests for all topics of a broker with 10,000 partitions."""

    partitions: int = 10_000
    requests: int = 200

    def __call__(self, target: Target, scale: float) -> Facts:
        """Request the metadata of all partitions. See `Measure`."""
        topics = 10
        for _ in range(topics):
            target.create_topic(self.partitions // topics)
        template = [frames.metadata_of_all()]
        requests = max(int(self.requests * scale), 20)
        generator.run(target, template, producers=1, inflight=1, requests=requests // 2)
        result = generator.run(target, template, producers=1, inflight=1, requests=requests)
        answer = result["answer_us"]
        return {
            "requests_s": requests / result["send_s"],
            "cpu_s_per_thousand": result["cpu_s"] / requests * 1e3,
            "p50_us": answer["p50"],
            "p99_us": answer["p99"],
            "mb": target.proportional_mb(),
        }


_Work = Callable[[Target, threading.Event], None]


def _elsewhere(work: _Work, target: Target, ended: threading.Event) -> None:
    """Do the work of clients that stand for other machines: it takes what processor time others leave."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    work(target, ended)


@dataclass(frozen=True)
class BesideOthers:
    """One record a millisecond on a schedule, first alone and then beside work that is large for one request: metadata
    of all partitions, batches of 10 MB that the broker has to compress, and members that join a group. ``p99_growth``
    is how many times the p99 becomes. The floor only has the batches, and writes them as they are."""

    topics: int = 10
    topic_partitions: int = 1000
    members: int = 1000
    batch_bytes: int = 10_000_000
    seconds: float = 6

    def __call__(self, target: Target, scale: float) -> Facts:
        """Measure the latency of the producer without the other work and with it. See `Measure`."""
        works = self._works(target, scale)
        topic = target.create_topic()
        quiet = self._produce(target, topic)
        ended = threading.Event()
        threads = [threading.Thread(target=_elsewhere, args=(work, target, ended), daemon=True) for work in works]
        for each in threads:
            each.start()
        try:
            beside = self._produce(target, topic)
        finally:
            ended.set()
            for each in threads:
                each.join(300)
        return {
            "requests_s": beside["requests"] / beside["send_s"],
            "p50_us": beside["answer_us"]["p50"],
            "p99_us": beside["answer_us"]["p99"],
            "p999_us": beside["answer_us"]["p999"],
            "quiet_p99_us": quiet["answer_us"]["p99"],
            "p99_growth": beside["answer_us"]["p99"] / quiet["answer_us"]["p99"],
        }

    def _works(self, target: Target, scale: float) -> list[_Work]:
        """The large requests, and what they need."""
        recompressed = target.create_topic(1, {"compression.type": "zstd", "max.message.bytes": "20000000"})
        works: list[_Work] = [partial(self.compress, recompressed)]
        if target.kind != FLOOR:
            for _ in range(self.topics):
                target.create_topic(max(int(self.topic_partitions * scale), 10))
            prepare(target.broker, 200)
            works += [self._ask, partial(self._join, scale)]
        return works

    def _produce(self, target: Target, topic: Topic) -> dict[str, Any]:
        template = frames.produce(topic.id, [0], *frames.batch_of(100, 0), acks=-1)
        requests = int(1000 * self.seconds)
        return generator.run(target, [template], producers=1, rate=1000, requests=requests, limit_s=120)

    @staticmethod
    def _ask(target: Target, ended: threading.Event) -> None:
        with target.client() as client:
            while not ended.wait(0.5):
                client.call(MetadataRequest(topics=None), 12)

    def compress(self, topic: Topic, target: Target, ended: threading.Event) -> None:
        """Send a large batch a second."""
        data = PartitionProduceData(index=0, records=frames.batch_of(100, self.batch_bytes)[0])
        named = TopicProduceData(topic_id=topic.id, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[named])
        with target.client() as client:
            while not ended.wait(1):
                answer = client.call(request, 13).responses[0].partition_responses[0]
                assert not answer.error_code, answer

    def _join(self, scale: float, target: Target, ended: threading.Event) -> None:
        crowd = Crowd(target.broker, 200, "beside-others")
        crowd.join(max(int(self.members * scale), 10))
        ended.wait()
        for client in crowd.clients:
            client.close()


# -- footprint -------------------------------------------------------------------------------------------------------


def answers_metadata(port: int) -> bool:
    """Whether a Metadata request gets a response with a broker."""
    try:
        with WireClient(f"127.0.0.1:{port}", timeout_s=5) as client:
            return bool(client.call(MetadataRequest(topics=[]), 12).brokers)
    except OSError:
        return False


def plain_target(kind: str, home: Path, settings: dict[str, str] | None = None) -> Target:
    """What `Workload` measures, not started yet."""
    return FloorTarget(home) if kind == FLOOR else Target(production_broker(kind, home, settings))


@contextmanager
def fresh(kind: str, settings: dict[str, str] | None = None, kept_in: Path | None = None) -> Iterator[Target]:
    """A running broker on an empty directory, which is deleted at the end unless it is to be kept in another one."""
    home = Path(tempfile.mkdtemp(prefix=f"bench-{kind}-", dir=kept_in))
    target = plain_target(kind, home, settings)
    try:
        target.start()
        yield target
    finally:
        target.broker.kill()
        if kept_in is None:
            shutil.rmtree(home, ignore_errors=True)


def start_again_s(target: Target) -> float:
    """Stop a broker in order and start it again; return the seconds from its start to the first response."""
    target.stop()
    broker = target.broker
    started = time.perf_counter()
    broker.begin()
    while not answers_metadata(broker.port):
        time.sleep(0.002)
    return time.perf_counter() - started


def startup(target: Target, scale: float) -> Facts:
    """Seconds until the broker is ready again after a restart."""
    return {"seconds": start_again_s(target)}


def idle_memory(target: Target, scale: float) -> Facts:
    """Memory in MB and CPU use in percent of an idle broker."""
    time.sleep(3)
    before, started = target.cpu_s(), time.perf_counter()
    time.sleep(2)
    share = (target.cpu_s() - before) / (time.perf_counter() - started)
    return {"mb": target.proportional_mb(), "resident_mb": target.resident_mb(), "idle_cpu_percent": 100 * share}


def loaded_memory(target: Target, scale: float) -> Facts:
    """Memory in MB of a broker after the other workloads."""
    return {"mb": target.proportional_mb(), "resident_mb": target.resident_mb()}


TRANSACTIONAL = ("--transactional-id", "bench", "--transaction-duration-ms", "100")


def tools() -> list[Workload]:
    """The workloads on the brokers that stay up, like `throughput`."""
    rate, cost = "records_s", "cpu_s_per_million"
    return [
        Workload("tool-produce", "ProducerPerformance", TOOLS, ProducerTool(2_000_000), rate, cost),
        Workload(
            "tool-transactions", "transactions of 100 ms", TOOLS, ProducerTool(1_000_000, TRANSACTIONAL), rate, cost
        ),
        Workload("tool-consume", "ConsumerPerformance", TOOLS, ConsumerTool(3_000_000), rate, cost),
        Workload("tool-latency", "EndToEndLatency", TOOLS, EndToEndTool(3000), "", "cpu_s_per_thousand"),
        Workload("group-100", "100 members join a group", CLUSTER, Rebalance(), "", "cpu_s_per_thousand"),
        *shared(_tool),
        Workload("memory-load", "memory after all of the above", FOOTPRINT, loaded_memory, bounds=(("mb", 0.1),)),
    ]


def alone() -> list[Workload]:
    """The workloads that need a new broker each."""
    return [
        Workload("memory-idle", "memory when idle", FOOTPRINT, idle_memory, bounds=(("mb", 0.1),)),
        Workload("start", "start to the first answer", FOOTPRINT, startup, bounds=(("seconds", 0.125),)),
        Workload(
            "metadata-10000",
            "metadata of 10,000 partitions",
            CLUSTER,
            ManyPartitions(),
            "requests_s",
            "cpu_s_per_thousand",
        ),
        Workload(
            "beside-others",
            "1,000 records/s beside large requests",
            LATENCY,
            BesideOthers(),
            "requests_s",
            limits=(("p99_growth", 2.0),),
            on_floor=True,
        ),
    ]

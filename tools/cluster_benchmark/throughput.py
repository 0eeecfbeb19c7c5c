"""Throughput with three replicas and acks=all, per partition and in total, and the processor time of all brokers.

The load generator is that of `scripts/bench`, one process for each broker that leads something. What lives elsewhere:
the generator and its requests (`tools.benchmark`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.processes.clusters import DEFAULTS, Cluster, started
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tools.benchmark import frames, generator
from tools.benchmark.targets import Target

MEGABYTE = 1_000_000
KIB = 1024

Facts = dict[str, float]


@dataclass(frozen=True)
class Workload:
    """100-byte records. ``connections`` to each leader with ``inflight`` requests; ``data``: bytes in all."""

    title: str
    partitions: int
    batch: int
    data: int = 100 * MEGABYTE
    connections: int = 1
    inflight: int = 5


WORKLOADS = {
    "1p-16k": Workload("1 partition, 16 KiB batches", 1, 16 * KIB),
    "1p-128k": Workload("1 partition, 128 KiB batches", 1, 128 * KIB),
    "6p-16k": Workload("6 partitions, 16 KiB batches", 6, 16 * KIB),
    "60p-16k": Workload("60 partitions, 16 KiB batches", 60, 16 * KIB),
    "one-1": Workload("1 record a request, 1 connection", 1, 0, data=200_000, inflight=1),
    "one-50": Workload("1 record a request, 50 connections", 1, 0, data=MEGABYTE, connections=50, inflight=1),
}


def measure(kind: str, home: Path, keys: Sequence[str], scale: float, say: Callable[[str], None]) -> dict[str, Facts]:
    """The facts of these workloads on one cluster."""
    found: dict[str, Facts] = {}
    with started(kind, home, DEFAULTS) as cluster:
        for key in ("6p-16k", "one-50"):  # a JVM compiles what it runs often
            if key in keys:
                _measure(cluster, f"warm-{key}", WORKLOADS[key], scale)
        for key in keys:
            workload = WORKLOADS[key]
            _measure(cluster, f"first-{key}", workload, scale / 4)
            facts = found[key] = _measure(cluster, key, workload, scale)
            shown = ", ".join(f"{name} {value:,.4g}" for name, value in facts.items())
            say(f"{workload.title}: {kind}: {shown}")
    return found


def _measure(cluster: Cluster, topic: str, workload: Workload, scale: float) -> Facts:
    cluster.create({topic: workload.partitions})
    cluster.until(lambda: cluster.all_lead(workload.partitions, [topic]), "all lead")
    led = cluster.leaders(1, [topic])
    assert led is not None
    topic_id = cluster.metadata(1, [topic]).topics[0].topic_id
    runs = {leader: _templates(topic_id, by_topic[topic], workload) for leader, by_topic in led.items()}
    before = cluster.cpu_s()
    with ThreadPoolExecutor(len(runs)) as pool:
        results = list(pool.map(lambda each: _run(cluster, workload, scale, *each), runs.items()))
    used = cluster.cpu_s() - before
    sent = sum(each["sent_records"] for each in results)
    written = _end_offsets(cluster, topic, led)
    assert written == sent, f"{cluster.kind}: {written} records in the logs, {sent} sent"
    seconds = max(each["send_s"] for each in results)
    return {
        "records_s": sent / seconds,
        "records_s_partition": sent / seconds / workload.partitions,
        "cpu_s_per_million": used / sent * 1e6,
        "p50_ms": max(each["answer_us"]["p50"] for each in results) / 1000,
        "p99_ms": max(each["answer_us"]["p99"] for each in results) / 1000,
    }


def _templates(topic_id: bytes, indexes: list[int], workload: Workload) -> list[frames.Template]:
    batch, count = frames.batch_of(100, workload.batch)
    return [frames.produce(topic_id, indexes[at : at + 50], batch, count, -1) for at in range(0, len(indexes), 50)]


def _run(
    cluster: Cluster, workload: Workload, scale: float, leader: int, templates: list[frames.Template]
) -> dict[str, Any]:
    """The share of one leader, by its number of partitions."""
    batches = sum(len(each.batches) for each in templates)
    share = workload.data * scale * batches / workload.partitions
    per_round = sum(each.records for each in templates) * 100
    requests = max(int(share / per_round), 2) * len(templates)
    return generator.run(
        Target(cluster.nodes[leader]),
        templates,
        producers=workload.connections,
        inflight=workload.inflight,
        requests=max(requests, workload.connections),
        limit_s=240,
    )


def _end_offsets(cluster: Cluster, topic: str, led: dict[int, dict[str, list[int]]]) -> int:
    total = 0
    for leader, by_topic in led.items():
        asked = [ListOffsetsPartition(partition_index=at, timestamp=-1) for at in by_topic[topic]]
        with cluster.client(leader) as client:
            answer = client.call(ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=asked)]), 7)
        total += sum(each.offset for each in answer.topics[0].partitions)
    return total

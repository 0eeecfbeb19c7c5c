"""The cost of thousands of partitions: creation, memory, idle time, metadata of all, a start, a killed broker.

All with the short timeouts (`harness.processes.clusters.SHORT`), so that the work shows and not the waiting. Growth is
what each partition adds to the empty cluster's value at the largest number, over what it adds at the smallest one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from harness.processes.clusters import METADATA_VERSION, SHORT, Cluster, metadata_request, started

PER_TOPIC = 100
PER_REQUEST = 1000
IDLE_S = 5.0
FACTS = {
    "create_s": "creating them",
    "resident_mb": "memory of three brokers",
    "idle_cpu": "processor time while idle, per second",
    "metadata_ms": "metadata request of all",
    "failover_s": "kill -9 of a broker: all lead again",
    "rejoin_s": "its start: all in sync again",
    "stop_s": "orderly stop of all three",
    "start_s": "start of all three: all lead",
}

Facts = dict[str, float]


def measure(kind: str, home: Path, partitions: int, say: Callable[[str], None]) -> Facts:
    """All facts of one cluster with so many partitions."""
    facts: Facts = {}

    def note(name: str, value: float) -> None:
        facts[name] = value
        say(f"{partitions} partitions: {kind}: {FACTS[name]}: {value:.3g}")

    with started(kind, home, SHORT) as cluster:
        note("create_s", _create(cluster, partitions))
        cluster.until(cluster.in_sync, "all in sync")
        note("idle_cpu", _idle(cluster))
        note("resident_mb", cluster.resident_mb())
        note("metadata_ms", _metadata_ms(cluster))
        note("failover_s", _fail_over(cluster, partitions))
        note("rejoin_s", _rejoin(cluster))
        note("stop_s", cluster.stop())
        begun = time.monotonic()
        cluster.start()
        cluster.until(lambda: cluster.all_lead(partitions), "all lead")
        note("start_s", time.monotonic() - begun)
    return facts


def _create(cluster: Cluster, partitions: int) -> float:
    begun = time.monotonic()
    for start in range(0, partitions, PER_REQUEST):
        end = min(start + PER_REQUEST, partitions)
        cluster.create({f"many-{at}": min(PER_TOPIC, end - at) for at in range(start, end, PER_TOPIC)})
    cluster.until(lambda: cluster.all_lead(partitions), "all lead")
    return time.monotonic() - begun


def _idle(cluster: Cluster) -> float:
    time.sleep(1)
    before, begun = cluster.cpu_s(), time.monotonic()
    time.sleep(IDLE_S)
    return (cluster.cpu_s() - before) / (time.monotonic() - begun)


def _metadata_ms(cluster: Cluster) -> float:
    """The median of several requests to one broker, decoding apart."""
    request = metadata_request(None)
    taken = []
    with cluster.client(1) as client:
        for _ in range(12):
            begun = time.monotonic()
            client.send(request, METADATA_VERSION)
            client.receive_frame()
            taken.append((time.monotonic() - begun) * 1000)
    return statistics.median(taken[2:])


def _fail_over(cluster: Cluster, partitions: int) -> float:
    """Of broker 2; the others must lead, and serve, all that there is."""
    killed = cluster.kill(2)
    cluster.until(lambda: cluster.all_lead(partitions), "all lead again")
    return time.monotonic() - killed


def _rejoin(cluster: Cluster) -> float:
    begun = time.monotonic()
    cluster.begin(2)
    cluster.await_all()
    cluster.until(cluster.in_sync, "all in sync again", interval_s=0.2)
    return time.monotonic() - begun


def growth(facts: dict[int, Facts], name: str) -> float | None:
    """What a partition adds to the empty cluster at the largest number, over what it adds at the smallest one."""
    empty, *counts = sorted(facts)
    if empty or len(counts) < 2:
        return None
    small, large = counts[0], counts[-1]
    added = {count: (facts[count][name] - facts[0][name]) / count for count in (small, large)}
    return added[large] / added[small] if added[small] > 0 else None

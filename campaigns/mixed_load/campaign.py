"""A run of the campaign of mixed load: what the broker uses when the clients are gone, and whether that has grown. The
rules are in `__main__`."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from campaigns.mixed_load.clients import PROBED, STEADY, TRANSACTED, Load
from harness.inspection import process_usage
from harness.inspection.hanging import dump
from harness.processes.brokers import wait_until
from harness.processes.production import secured_production_broker
from harness.processes.secured import SecuredBroker
from harness.wire_client import WireClient
from kwire.base.processes.memory import LOOK_S
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

GROWTH_MAX: Final = 0.05
SHORT_GROWTH_MB: Final = 4.0
P99_GROWTH_MAX: Final = 1.5
LONG_MINUTES: Final = 10.0
WINDOWS: Final = 100
CALM_S: Final = 3 * LOOK_S
"""Within this, a calm broker gives back the memory that it does not use."""


@dataclass(frozen=True)
class AtRest:
    """What the broker uses without clients."""

    memory_mb: float
    descriptors: int
    threads: int
    tasks: int


@dataclass(frozen=True)
class Outcome:
    """What a run has found. ``p99_ms``: of each window of the probe, in order. ``done``: how often which work was.
    ``longest_s``: how long each client took for one step, at most."""

    minutes: float
    early: AtRest
    late: AtRest
    p99_ms: list[float]
    done: dict[str, int]
    failures: list[str]
    longest_s: dict[str, float] = field(default_factory=dict)


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


def at_rest(broker: SecuredBroker, calm_s: float = 0.0) -> AtRest:
    """What the broker uses once the clients' connections are closed, their topics deleted and ``calm_s`` are over."""
    pid = broker.pid

    def is_quiet() -> bool:
        return not [name for name in os.listdir(broker.data_dir) if name.startswith("made-")]

    wait_until(is_quiet, 120, "the files of deleted topics are gone", interval_s=0.5)
    counts: list[tuple[int, int]] = []

    def is_steady() -> bool:
        counts.append((descriptors(pid), tasks(broker)))
        return len(counts) > 4 and len(set(counts[-4:])) == 1

    wait_until(is_steady, 120, "the broker is at rest", interval_s=1)
    time.sleep(calm_s)
    descriptor_count, task_count = counts[-1]
    threads = len(os.listdir(f"/proc/{pid}/task"))
    return AtRest(round(process_usage.own_mb(pid), 2), descriptor_count, threads, task_count)


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
    return sum('"event": "task"' in line for line in dump(broker))


def windows(latencies_s: list[tuple[float, float]], count: int) -> list[float]:
    """The p99 in milliseconds of each of so many stretches of time with at least ten latencies."""
    if not latencies_s:
        return []
    start, end = latencies_s[0][0], latencies_s[-1][0] + 1e-9
    parts: list[list[float]] = [[] for _ in range(count)]
    for at, latency in latencies_s:
        parts[int((at - start) / (end - start) * count)].append(latency)
    return [round(sorted(part)[int(0.99 * len(part))] * 1000, 3) for part in parts if len(part) >= 10]


def run(minutes: float, home: Path, debug: str = "") -> Outcome:
    """Run the load on a new broker in ``home``. ``debug``: what librdkafka writes to standard error."""
    broker = secured_production_broker("kwire", home)
    broker.start()
    try:
        create_topics(broker)
        load = Load(broker, debug=debug)
        rests = []
        for share in (0.25, 0.75):
            load.start()
            load.work_for(minutes * 60 * share)
            load.stop()
            rests.append(at_rest(broker, CALM_S if minutes >= LONG_MINUTES else 0.0))
        p99_ms = windows(load.latencies_s, WINDOWS)
        return Outcome(minutes, rests[0], rests[1], p99_ms, dict(load.done), load.failures[:20], load.longest_s)
    finally:
        broker.kill()

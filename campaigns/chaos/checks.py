"""The checks of a run: the anomalies of `harness.simulation.checker`, and what only real processes can show.

- *out of order*: acknowledged records of one idempotent producer are not in the order in which they were sent;
- *copy*: what was copied in transactions differs from its source;
- *replicas differ*: the logs of the three brokers are not equal, byte for byte (compacted topics are left out, because
  each broker cleans them at its own time).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from campaigns.chaos.history import Event, history_of
from harness.simulation.checker import anomalies
from harness.simulation.workload import History

Logs = Mapping[int, Mapping[int, int]]
"""Value by offset, by partition."""


def check_history(events: list[Event], final: Logs, committed: Logs, copies: Logs) -> list[str]:
    """All anomalies, one sentence each; none if the run is correct."""
    history = history_of(events)
    history.final.update({partition: dict(log) for partition, log in final.items()})
    history.committed.update({partition: dict(log) for partition, log in committed.items()})
    return [*anomalies(history), *out_of_order(events, history), *uneven_copies(committed, copies)]


def out_of_order(events: list[Event], history: History) -> Iterator[str]:
    """Pairs of acknowledged records of one producer that are in the wrong order in a partition."""
    offsets = {value: offset for log in history.final.values() for offset, value in log.items()}
    last: dict[tuple[str, int], tuple[int, int]] = {}
    for event in events:
        if event["f"] != "send" or event["type"] != "invoke" or event["value"] not in history.acked:
            continue
        value, lane = event["value"], (event["process"], event["partition"])
        offset = offsets.get(value, -1)
        before, value_before = last.get(lane, (-1, -1))
        if 0 <= offset < before:
            yield f"out of order: {value} of {lane} is at {offset}, {value_before}, sent before it, at {before}"
        last[lane] = max((before, value_before), (offset, value))


def uneven_copies(committed: Logs, copies: Logs) -> Iterator[str]:
    """The first difference between copy and original in each partition."""
    for partition, log in committed.items():
        original = [value for _, value in sorted(log.items())]
        copied = [value for _, value in sorted(copies.get(partition, {}).items())]
        for number, (one, other) in enumerate(zip_longest(original, copied)):
            if one != other:
                yield f"copy: record {number} of partition {partition} is {one}, in the copy {other}"
                break


def different_replicas(directories: list[Path], topics: list[str]) -> Iterator[str]:
    """Partitions whose logs differ between the data directories of brokers that were stopped in order."""
    names = {path.parent.name for directory in directories for path in directory.glob("*/*.log")}
    for name in sorted(each for each in names if each.rpartition("-")[0] in topics):
        logs = [
            b"".join(path.read_bytes() for path in sorted((directory / name).glob("*.log")))
            for directory in directories
        ]
        if len(set(logs)) > 1:
            at = [_first_difference(logs[0], log) for log in logs[1:]]
            yield f"replicas differ: {name} has {[len(log) for log in logs]} bytes, first difference at {at}"


def _first_difference(one: bytes, other: bytes) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

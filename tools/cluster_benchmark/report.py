"""The results of `tools.cluster_benchmark`, as a text table and as JSON."""

from __future__ import annotations

import json
import statistics
from typing import Any

from harness.processes.clusters import EMBEDDED, KAFKA, TITLES, ZOOKEEPER
from tools.cluster_benchmark import failover, partitions, throughput

Rounds = dict[str, dict[str, dict[str, list[float]]]]
"""Values of all rounds: by row, kind of cluster and fact."""

GOALS = {EMBEDDED: 0.5, ZOOKEEPER: 1.0}
"""The bound of kwire's time without a leader over Kafka's."""

_KILLS = {"leader": "a leader", "controller": "a leader that is the controller"}
_TIMEOUTS = {"default": "default timeouts", "short": "short timeouts (session 1 s, heartbeat 0.2 s)"}


class Results:
    """All values, row by row."""

    def __init__(self, kinds: list[str]) -> None:
        self.kinds = kinds
        self.failover: Rounds = {}
        self.throughput: Rounds = {}
        self.partitions: Rounds = {}
        self.failures: list[str] = []

    @staticmethod
    def add(rounds: Rounds, row: str, kind: str, facts: dict[str, float]) -> None:
        """Add the facts of one round to a row."""
        for name, value in facts.items():
            rounds.setdefault(row, {}).setdefault(kind, {}).setdefault(name, []).append(value)

    def text(self) -> str:
        """The tables of the parts that ran."""
        parts = [self._failover_text(), self._throughput_text(), self._partitions_text()]
        parts += [f"FAILED: {failure}" for failure in self.failures]
        return "\n\n".join(part for part in parts if part) + "\n"

    def json(self, facts: dict[str, Any]) -> str:
        """All results and the description of the machine as JSON."""
        return json.dumps(
            {
                "machine": facts,
                "failover_s": self.failover,
                "throughput": self.throughput,
                "partitions": self.partitions,
                "failures": self.failures,
            },
            indent=1,
        )

    # Tables

    def _head(self, title: str, width: int = 44) -> str:
        cells = [f"{TITLES[kind]:>18}" for kind in self.kinds]
        cells += [f"{'/ Kafka':>10}" for kind in self.kinds if kind != KAFKA and KAFKA in self.kinds]
        return f"{title:<{width}}" + "".join(cells)

    def _row(self, title: str, by_kind: dict[str, dict[str, list[float]]], fact: str, unit: str = "") -> str:
        values = {kind: median(by_kind.get(kind, {}).get(fact)) for kind in self.kinds}
        cells = [f"{number(values[kind], unit):>18}" for kind in self.kinds]
        theirs = values.get(KAFKA)
        for kind in self.kinds:
            if kind != KAFKA and KAFKA in self.kinds:
                mine = values[kind]
                cells.append(f"{f'{mine / theirs:.2f}x' if mine is not None and theirs else '-':>10}")
        return f"  {title:<42}" + "".join(cells)

    def _failover_text(self) -> str:
        out = []
        for timeouts, by_kind in self.failover.items():
            for kill in failover.KILLS:
                names = [name for facts in by_kind.values() for name in facts if name.startswith(f"{kill}/")]
                if not names:
                    continue
                out += ["", self._head(f"kill -9 of {_KILLS[kill]}"), f"  {_TIMEOUTS[timeouts]}"]
                for name in dict.fromkeys(names):
                    client = name.partition("/")[2]
                    title = "another leader is named" if client == failover.ELECTED else f"{client}: no acknowledgement"
                    out.append(self._row(title, by_kind, name, "s"))
        return "\n".join([*out, *self._goals()][1:])

    def _goals(self) -> list[str]:
        """Whether the goals are kept, by the worst client."""
        out = []
        for timeouts, by_kind in self.failover.items():
            for kind, goal in GOALS.items():
                mine, theirs = by_kind.get(kind, {}), by_kind.get(KAFKA, {})
                ratios = [
                    statistics.median(mine[name]) / statistics.median(theirs[name])
                    for name in mine
                    if name in theirs and not name.endswith(failover.ELECTED)
                ]
                if ratios:
                    word = "kept" if max(ratios) <= goal else "MISSED"
                    shown = f"{TITLES[kind]} has at most {max(ratios):.2f} of Kafka's time, goal {goal:g}: {word}"
                    out.append(f"  {timeouts} timeouts: {shown}")
        return ["", *out] if out else []

    def _throughput_text(self) -> str:
        if not self.throughput:
            return ""
        out = [self._head("three replicas, acks=all, 100 B records")]
        for key, by_kind in self.throughput.items():
            workload = throughput.WORKLOADS[key]
            out.append(f"  {workload.title}")
            out.append(self._row("  records a second", by_kind, "records_s"))
            if workload.partitions > 1:
                out.append(self._row("  of them for each partition", by_kind, "records_s_partition"))
            out.append(self._row("  processor time, million records", by_kind, "cpu_s_per_million", "s"))
            out.append(self._row("  answered in, median", by_kind, "p50_ms", "ms"))
            out.append(self._row("  answered in, 99 %", by_kind, "p99_ms", "ms"))
        return "\n".join(out)

    def _partitions_text(self) -> str:
        if not self.partitions:
            return ""
        units = {"_s": "s", "ms": "ms", "mb": "MB"}
        out = [self._head("partitions with three replicas")]
        for name, title in partitions.FACTS.items():
            out.append(f"  {title}")
            for count, by_kind in self.partitions.items():
                out.append(self._row(f"  {int(count):,}", by_kind, name, units.get(name[-2:], "")))
        return "\n".join([*out, *self._growth()])

    def _growth(self) -> list[str]:
        out = []
        for kind in self.kinds:
            facts = {
                int(count): {name: statistics.median(values) for name, values in by_kind[kind].items()}
                for count, by_kind in self.partitions.items()
                if kind in by_kind
            }
            ratios = {name: partitions.growth(facts, name) for name in partitions.FACTS}
            shown = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio is not None]
            if shown:
                out.append(f"  {TITLES[kind]}: {', '.join(shown)}")
        head = "", "  What each partition adds at the largest number, over what it adds at the smallest (1: linear)"
        return [*head, *out] if out else []


def median(values: list[float] | None) -> float | None:
    """The median; None without values."""
    return statistics.median(values) if values else None


def number(value: float | None, unit: str) -> str:
    """Three figures and the unit."""
    if value is None:
        return "-"
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{shown} {unit}".rstrip()

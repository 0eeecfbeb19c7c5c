"""The results of the rounds: medians, best rounds, ratios, the text table and the JSON."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.benchmark.workloads import SECURED, Facts, Workload

KINDS = ("kwire", "kafka")
ALL_KINDS = (*KINDS, "floor")
HIGHER_IS_BETTER = frozenset({"records_s", "mb_s", "requests_s", "rate", "plain_rate"})


@dataclass
class Line:
    """One workload's rounds on both brokers, and on the floor where it has it. ``when`` and ``cpu``: the time and the
    processor of the run, if it was another one than this."""

    workload: Workload
    rounds: dict[str, list[Facts]] = field(default_factory=lambda: {kind: [] for kind in ALL_KINDS})
    failures: list[str] = field(default_factory=list)
    when: str = ""
    cpu: str = ""

    def values(self, kind: str, fact: str) -> list[float]:
        """The values of one fact for one kind of broker, one per round."""
        return [facts[fact] for facts in self.rounds.get(kind, ()) if fact in facts]

    def best(self, kind: str, fact: str) -> float | None:
        """The best round of one fact; None without values."""
        values = self.values(kind, fact)
        if not values:
            return None
        return max(values) if fact in HIGHER_IS_BETTER else min(values)

    def median(self, kind: str, fact: str) -> float | None:
        """The median of one fact over the rounds; None without values."""
        values = self.values(kind, fact)
        return statistics.median(values) if values else None

    def ratio(self, fact: str, *, best: bool = True) -> float | None:
        """kwire's value over Kafka's."""
        pick = self.best if best else self.median
        ours, theirs = pick("kwire", fact), pick("kafka", fact)
        return ours / theirs if ours is not None and theirs else None

    def from_floor(self, kind: str, fact: str) -> float | None:
        """A broker's value over the floor's, of the best rounds; None without one of them."""
        value, floor = self.best(kind, fact), self.best("floor", fact)
        return value / floor if value is not None and floor else None

    def verdicts(self) -> list[tuple[str, float, float, bool]]:
        """Of each bound: the fact, the ratio of the best rounds, the bound, whether it is kept."""
        found = []
        for fact, bound in self.workload.bounds:
            ratio = self.ratio(fact)
            if ratio is not None:
                kept = ratio >= bound if fact in HIGHER_IS_BETTER else ratio <= bound
                found.append((fact, ratio, bound, kept))
        return found

    def limits(self) -> list[tuple[str, float, float, bool]]:
        """Of each limit: the fact, kwire's median, the limit, whether it is kept."""
        found = []
        for fact, limit in self.workload.limits:
            value = self.median("kwire", fact)
            if value is not None:
                found.append((fact, value, limit, value <= limit))
        return found

    def as_json(self) -> dict[str, Any]:
        """The rounds and their summary as a JSON object."""
        facts = list(dict.fromkeys(name for each in self.rounds.values() for found in each for name in found))
        summary = {
            fact: {
                **{f"{kind}_median": self.median(kind, fact) for kind in ALL_KINDS},
                **{f"{kind}_best": self.best(kind, fact) for kind in ALL_KINDS},
                "ratio_median": self.ratio(fact, best=False),
                "ratio_best": self.ratio(fact),
                **{f"{kind}_from_floor": self.from_floor(kind, fact) for kind in KINDS},
            }
            for fact in facts
        }
        return {
            "title": self.workload.title,
            "group": self.workload.group,
            "when": self.when,
            "cpu": self.cpu,
            "summary": summary,
            "bounds": [
                {"fact": fact, "ratio": ratio, "bound": bound, "kept": kept}
                for fact, ratio, bound, kept in self.verdicts()
            ],
            "limits": [
                {"fact": fact, "kwire_median": value, "limit": limit, "kept": kept}
                for fact, value, limit, kept in self.limits()
            ],
            "rounds": self.rounds,
            "failures": self.failures,
        }


def count_text(value: float | None) -> str:
    """A rate or amount with three figures: 1.23 M, 45.6 k, 789."""
    if value is None:
        return "-"
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{_three(value / limit)}{unit}"
    return _three(value)


def time_text(us: float | None) -> str:
    """Microseconds with three figures: 85 us, 1.23 ms, 2.50 s."""
    if us is None:
        return "-"
    if us >= 1e6:
        return f"{_three(us / 1e6)} s"
    return f"{_three(us / 1e3)} ms" if us >= 1000 else f"{us:.0f} us"


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio_text(ratio: float | None) -> str:
    """A ratio with two decimals, or "-"."""
    return "-" if ratio is None else f"{ratio:.2f}x"


def fact_text(fact: str, value: float | None) -> str:
    """A value in the unit of its fact."""
    if value is None:
        return "-"
    if fact.endswith("_us"):
        return time_text(value)
    if fact == "cpu_s_per_million":
        return f"{value * 1e3:.0f} ms"
    if fact == "cpu_s_per_thousand":
        return time_text(value * 1e3)
    if fact == "seconds":
        return f"{value:.2f} s"
    if fact in ("mb", "resident_mb"):
        return f"{value:.0f} MB"
    return count_text(value)


_COLUMNS = (
    ("rate", "rate, best (median): kwire", 22),
    ("", "Kafka", 22),
    ("", "ratio", 7),
    ("", "CPU: kwire", 10),
    ("", "Kafka", 10),
    ("", "ratio", 7),
    ("", "floor", 9),
    ("", "kwire", 7),
    ("", "Kafka", 7),
    ("", "p50", 20),
    ("", "p99", 20),
    ("", "p99.9", 20),
)


def text_table(lines: list[Line]) -> str:
    """All lines, group by group. Pairs are kwire's and Kafka's; ratios are kwire's over Kafka's, of the best rounds;
    behind the floor's processor time is how often each broker takes it."""
    out = []
    group = ""
    for line in lines:
        of_tls = line.workload.group == SECURED
        if line.workload.group != group:
            group = line.workload.group
            out += ["", group, _SECURED_HEAD if of_tls else _head()]
        out.append(_secured_row(line) if of_tls else _row(line))
        out += [f"    FAILED: {failure}" for failure in line.failures]
    return "\n".join(out[1:]) + "\n"


def _head() -> str:
    cells = [f"{name:>{width}}" for _, name, width in _COLUMNS]
    return f"{'':46}" + " ".join(cells)


def _row(line: Line) -> str:
    workload = line.workload
    rate = workload.rate or next((f for f in ("seconds", "mb") if line.values("kwire", f)), "")
    cells = [_best_and_median(line, kind, rate) for kind in KINDS] + [ratio_text(line.ratio(rate))]
    cells += [fact_text(workload.cost, line.best(kind, workload.cost)) for kind in KINDS]
    cells.append(ratio_text(line.ratio(workload.cost)))
    cells.append(fact_text(workload.cost, line.best("floor", workload.cost)))
    cells += [ratio_text(line.from_floor(kind, workload.cost)) for kind in KINDS]
    cells += [_pair(line, fact) for fact in ("p50_us", "p99_us", "p999_us")]
    padded = [f"{cell:>{width}}" for cell, (_, _, width) in zip(cells, _COLUMNS, strict=True)]
    row = f"  {workload.title:<44}" + " ".join(padded)
    ends = [_pair(line, fact) for fact in ("e2e_p50_us", "e2e_p99_us")]
    if any(each != "-" for each in ends):
        row += f"\n    {'to the reader':<42}" + " " * 110 + " ".join(f"{end:>20}" for end in ends)
    return row.rstrip()


_SECURED_CELLS = tuple((kind, fact) for kind in KINDS for fact in ("cpu_plain_us", "cpu_tls_us", "cpu_added_us"))
_SECURED_NAMES = ("kwire:", "TLS", "adds", "Kafka:", "TLS", "adds", "rate:", "Kafka")
_SECURED_HEAD = (
    "  Medians for one unit: CPU without TLS, with TLS, and what TLS adds; rate: units a second with TLS\n"
    f"{'':46}" + " ".join(f"{name:>10}" for name in _SECURED_NAMES)
)


def _secured_row(line: Line) -> str:
    cells = [time_text(line.median(kind, fact)) for kind, fact in _SECURED_CELLS]
    cells += [count_text(line.median(kind, "rate")) for kind in KINDS]
    row = f"  {line.workload.title:<44}" + " ".join(f"{cell:>10}" for cell in cells)
    if (bare := line.median("kwire", "cpu_bare_us")) is not None:
        row += f"\n    {'OpenSSL alone, without a socket':<42}" + f"{time_text(bare):>21}"
    return row


def _best_and_median(line: Line, kind: str, fact: str) -> str:
    if not line.values(kind, fact):
        return "-"
    return f"{fact_text(fact, line.best(kind, fact))} ({fact_text(fact, line.median(kind, fact))})"


def _pair(line: Line, fact: str) -> str:
    """kwire and Kafka of one latency, best rounds."""
    ours, theirs = line.best("kwire", fact), line.best("kafka", fact)
    return "-" if ours is None and theirs is None else f"{time_text(ours)} / {time_text(theirs)}"


def verdict_table(lines: list[Line]) -> str:
    """Which bounds were kept, in the best rounds."""
    out = ["Bounds (kwire over Kafka, best rounds)"]
    for line in lines:
        for fact, ratio, bound, kept in line.verdicts():
            sign = ">=" if fact in HIGHER_IS_BETTER else "<="
            word = "kept" if kept else "MISSED"
            out.append(f"  {line.workload.key:<18} {fact:<20} {ratio:6.2f}  {sign} {bound:<6} {word}")
    limits = [(line, *limit) for line in lines for limit in line.limits()]
    if limits:
        out += ["", "Limits (kwire, median of the rounds; the floor's where it has one)"]
    for line, fact, value, limit, kept in limits:
        word = "kept" if kept else "MISSED"
        floor = line.median("floor", fact)
        beside = "" if floor is None else f"; the floor: {floor:.2f}"
        out.append(f"  {line.workload.key:<18} {fact:<20} {value:7.2f}  <= {limit:<6g} {word}{beside}")
    return "\n".join(out) + "\n"


def machines(lines: list[Line]) -> str:
    """Where and when the lines were measured: "AMD EPYC, 2026-11-25 21:33; ..."."""
    times: dict[str, set[str]] = {}
    for line in sorted(lines, key=lambda each: each.when):
        times.setdefault(line.cpu, set()).add(line.when[:16])
    return "; ".join(f"{cpu}, {' and '.join(sorted(found))}" for cpu, found in times.items())


def as_json(lines: list[Line], machine: dict[str, Any]) -> str:
    """All lines and the description of the machine as JSON."""
    return json.dumps({"machine": machine, "lines": {each.workload.key: each.as_json() for each in lines}}, indent=1)


def recorded(path: Path, workloads: list[Workload]) -> list[Line]:
    """The lines of an earlier run from its JSON, as far as the workloads still exist."""
    earlier = json.loads(path.read_text())
    found = []
    for workload in workloads:
        line = earlier["lines"].get(workload.key)
        if line is not None:
            when, cpu = (line.get(name) or earlier["machine"][name] for name in ("when", "cpu"))
            found.append(Line(workload, line["rounds"], line["failures"], when, cpu))
    return found

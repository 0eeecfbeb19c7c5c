"""The results of all sizes as a table and as a picture, and how costs grow from size to size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, Final

from harness.charts.log_log import Panel, svg

Row = dict[str, Any]
"""One size as in the JSON: ``brokers``, ``partitions``, ``image_bytes``, ``when`` and ``steps``."""

STEPS: Final = {
    "start": "all brokers start, one after the other, without topics",
    "create": "topics with three replicas are created",
    "idle": "two seconds in which nobody does anything",
    "config": "one property of one topic is changed",
    "topic": "one topic of one partition is created",
    "death": "one broker is killed, until other brokers lead and all know it",
    "return": "it starts again, until it is in all ISRs",
    "preferred": "it leads again what it led (ElectLeaders for all partitions)",
    "restart": "it stops in order and starts again, until it is in all ISRs: one step of a rolling restart",
}
COLUMNS: Final = (
    "brokers",
    "partitions",
    "simulated",
    "CPU",
    "requests",
    "sent",
    "commits",
    "keys",
    "written",
    "delivered",
    "memory",
)
GROWN: Final = 0.2
"""Seconds of processor time from which on growth says something."""


def step_of(row: Row, name: str) -> Row:
    """One step of a size."""
    found: Row = next(step for step in row["steps"] if step["step"] == name)
    return found


def table(rows: Sequence[Row]) -> str:
    """All steps, each with all sizes."""
    ordered = sorted(rows, key=lambda row: (row["brokers"], row["partitions"]))
    steps = (line for name in STEPS for line in (*_step_lines(name, ordered), ""))
    return "\n".join((*steps, *_image_lines(ordered), "", *_growth_lines(ordered)))


def _step_lines(name: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"{name}: {STEPS[name]}"
    yield ""
    yield _line(COLUMNS)
    yield "-|-".join("-" * _WIDTH for _ in COLUMNS)
    for row in rows:
        step = step_of(row, name)
        yield _line(
            (
                f"{row['brokers']:,}",
                f"{row['partitions']:,}",
                f"{step['virtual_s']:.2f} s",
                f"{step['cpu_s']:.2f} s",
                f"{sum(step['requests'].values()):,}",
                f"{step['bytes'] / 1e6:.2f} MB",
                f"{step['commits']:,}",
                f"{step['keys']:,}",
                f"{step['store_bytes'] / 1e6:.3f} MB",
                f"{step['delivered_bytes'] / 1e6:.2f} MB",
                f"{step['memory_mb']:,.0f} MB",
            )
        )


_WIDTH: Final = 11


def _line(cells: Sequence[str]) -> str:
    return " | ".join(f"{cell:>{_WIDTH}}" for cell in cells)


def _image_lines(rows: Sequence[Row]) -> Iterator[str]:
    yield "image: the memory of one broker's image of the cluster's metadata"
    yield ""
    yield _line(("brokers", "partitions", "in all", "per partition"))
    for row in rows:
        total = row["image_bytes"]
        yield _line(
            (
                f"{row['brokers']:,}",
                f"{row['partitions']:,}",
                f"{total / 1e6:.2f} MB",
                f"{total / row['partitions']:.0f} B",
            )
        )


MEASURES: Final[dict[str, Callable[[Row], float]]] = {
    "CPU": lambda step: float(step["cpu_s"]),
    "requests": lambda step: float(sum(step["requests"].values())),
    "delivered": lambda step: float(step["delivered_bytes"]),
}


def exponents(rows: Sequence[Row], along: str) -> Iterator[tuple[str, int, int, int, dict[str, float]]]:
    """How each step's costs grow ``along`` "partitions" or "brokers" while the other one stays: the step, the one that
    stays, the two sizes, and for each measure the exponent (1: linear)."""
    other = "brokers" if along == "partitions" else "partitions"
    ordered = sorted(rows, key=lambda row: (row[other], row[along]))
    for name in STEPS:
        for fixed, group in groupby(ordered, key=lambda row: row[other]):
            for small, large in pairwise(group):
                ratio = math.log(large[along] / small[along])
                found = {}
                for measure, of in MEASURES.items():
                    before, after = of(step_of(small, name)), of(step_of(large, name))
                    if before > 0 and after > (GROWN if measure == "CPU" else 0):
                        found[measure] = math.log(after / before) / ratio
                yield name, int(fixed), small[along], large[along], found


def _growth_lines(rows: Sequence[Row]) -> Iterator[str]:
    for along, other in (("partitions", "brokers"), ("brokers", "partitions")):
        yield f"growth with {along}: the exponent between two sizes (1: linear)"
        yield ""
        yield _line(("step", other, "from", "to", *MEASURES))
        for name, fixed, small, large, found in exponents(rows, along):
            cells = (f"{found[each]:.2f}" if each in found else "" for each in MEASURES)
            yield _line((name, f"{fixed:,}", f"{small:,}", f"{large:,}", *cells))
        yield ""


# -- the picture ------------------------------------------------------------------------------------------------------

PANELS: Final = ("create", "death", "return", "restart", "idle", "topic")


def picture(rows: Sequence[Row], footnote: str) -> str:
    """Processor time of the whole cluster by partitions, one curve for each number of brokers, as SVG."""
    brokers = sorted({row["brokers"] for row in rows})
    panels = [
        Panel(
            name,
            {
                f"{count} brokers": [
                    (row["partitions"], step_of(row, name)["cpu_s"]) for row in rows if row["brokers"] == count
                ]
                for count in brokers
            },
            "s",
            slope=0 if name in ("idle", "topic") else 1,
        )
        for name in PANELS
    ]
    return svg("Processor time of all brokers, by partitions", panels, footnote)

"""Panels of curves on logarithmic axes, as SVG: on a card of its own, so that it reads well on a light and on a dark
page. A dashed line through the last point of the longest curve shows a given growth: a curve that comes from below it
grows faster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

Point = tuple[float, float]

COLOURS: Final = ("#3b82f6", "#10b981", "#f59e0b", "#ef4444", "#8b5cf6", "#64748b")
WIDTH: Final = 860
COLUMNS: Final = 3
LEFT, TOP = 64, 66
PANEL_WIDTH, PANEL_HEIGHT, GAP_WIDTH, GAP_HEIGHT = 210, 160, 66, 62
LEGEND_WIDTH: Final = 105
LEAST: Final = 1e-6
"""Logarithms need something positive."""

_STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de; }
  text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .head { font-size: 14px; font-weight: 600; }
  .small { font-size: 10px; fill: #59636e; }
  .grid { stroke: #d0d7de; stroke-width: 0.5; }
  .expected { stroke: #9aa4b2; stroke-dasharray: 3 3; fill: none; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #161b22; stroke: #30363d; }
    text { fill: #e6edf3; }
    .small { fill: #9198a1; }
    .grid { stroke: #30363d; }
  }
"""


@dataclass(frozen=True)
class Panel:
    """Curves under one title: points by label. ``unit`` stands behind the values; ``slope``: the growth that the
    dashed line shows, 1 for linear, 0 for none."""

    title: str
    curves: Mapping[str, Sequence[Point]]
    unit: str
    slope: float


def svg(title: str, panels: Sequence[Panel], footnote: str) -> str:
    """The picture. A legend names the curves if there are several."""
    labels = sorted({label for panel in panels for label in panel.curves}, key=lambda each: (len(each), each))
    legend = any(len(panel.curves) > 1 for panel in panels)
    colours = {label: COLOURS[at % len(COLOURS)] for at, label in enumerate(labels)}
    height = TOP + -(-len(panels) // COLUMNS) * (PANEL_HEIGHT + GAP_HEIGHT) + 14
    out = [f'<text class="head" x="24" y="28">{escape(title)}</text>']
    if legend:
        out += _legend(colours)
    for at, panel in enumerate(panels):
        left = LEFT + at % COLUMNS * (PANEL_WIDTH + GAP_WIDTH)
        top = TOP + at // COLUMNS * (PANEL_HEIGHT + GAP_HEIGHT)
        out += _Axes(panel, left, top).drawn(colours)
    out.append(f'<text class="small" x="{WIDTH - 24}" y="{height - 12}" text-anchor="end">{escape(footnote)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">\n<style>{_STYLE}</style>\n'
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n'
        + "\n".join(out)
        + "\n</svg>\n"
    )


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    x = WIDTH - 24 - LEGEND_WIDTH * len(colours)
    for label, colour in colours.items():
        yield f'<rect x="{x}" y="18" width="11" height="11" rx="2" fill="{colour}"/>'
        yield f'<text x="{x + 16}" y="28">{escape(label)}</text>'
        x += LEGEND_WIDTH


class _Axes:
    """One panel, whose axes end at powers of ten."""

    def __init__(self, panel: Panel, left: float, top: float) -> None:
        self._panel = panel
        self._left, self._top = left, top
        points = [point for curve in panel.curves.values() for point in curve]
        self._x = _powers([x for x, _ in points])
        self._y = _powers([y for _, y in points])

    def _place(self, x: float, y: float) -> Point:
        (x0, x1), (y0, y1) = self._x, self._y
        across = (math.log10(max(x, LEAST)) - x0) / (x1 - x0)
        up = (math.log10(max(y, LEAST)) - y0) / (y1 - y0)
        return self._left + across * PANEL_WIDTH, self._top + (1 - up) * PANEL_HEIGHT

    def drawn(self, colours: Mapping[str, str]) -> Iterator[str]:
        """The panel's elements."""
        panel, left, top = self._panel, self._left, self._top
        bottom, right = top + PANEL_HEIGHT, left + PANEL_WIDTH
        yield f'<text x="{left}" y="{top - 8}">{escape(panel.title)}</text>'
        for power in range(self._x[0], self._x[1] + 1):
            x, _ = self._place(10.0**power, 10.0 ** self._y[0])
            yield f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
            yield f'<text class="small" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{10.0**power:,.0f}</text>'
        for power in range(self._y[0], self._y[1] + 1):
            _, y = self._place(10.0 ** self._x[0], 10.0**power)
            yield f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
            yield (
                f'<text class="small" x="{left - 5}" y="{y + 3:.1f}" text-anchor="end">'
                f"{10.0**power:g} {escape(panel.unit)}</text>"
            )
        yield from self._expected()
        for label, curve in panel.curves.items():
            places = [self._place(x, y) for x, y in sorted(curve)]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            yield f'<polyline points="{path}" fill="none" stroke="{colours[label]}" stroke-width="2"/>'
            for x, y in places:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colours[label]}"/>'

    def _expected(self) -> Iterator[str]:
        longest = max(self._panel.curves.values(), key=len)
        curve = sorted(longest)
        (start, _), (x, y) = curve[0], curve[-1]
        if start >= x or y <= 0:
            return
        if self._panel.slope:
            lowest = 10.0 ** self._y[0]
            start = max(start, x * (lowest / y) ** (1 / self._panel.slope))
        (x1, y1), (x2, y2) = self._place(start, y * (start / x) ** self._panel.slope), self._place(x, y)
        yield f'<line class="expected" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _powers(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around values; at least one apart."""
    logarithms = [math.log10(max(value, LEAST)) for value in values]
    low = math.floor(min(logarithms))
    return low, max(math.ceil(max(logarithms)), low + 1)

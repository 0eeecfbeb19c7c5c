"""Pictures of an audit as SVG, without scripts."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

from kwire.audit.reports.text import time
from kwire.audit.rows import PartitionRow, WindowRow

COLOURS: Final = {
    "missing": "#b00020",
    "duplicate": "#c25e00",
    "changed": "#7b3fa0",
    "reordered": "#00658a",
    "misplaced": "#00796b",
    "unexpected": "#8d6e00",
    "late": "#5d4037",
    "gap": "#b00020",
    "repeated": "#c25e00",
    "count": "#7b3fa0",
}
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 960, 260, 70, 46, 14
_BARS_MAX: Final = 120


def windows_picture(windows: Sequence[WindowRow]) -> str:
    """Records of both ends by window, and above them a mark for each kind of fault."""
    shown = _merged(windows)
    if not shown:
        return ""
    highest = max(max(each.source_records, each.copy_records) for each in shown) or 1
    kinds = sorted({kind for each in shown for kind in each.faults})
    marks = 16 * len(kinds)
    step, floor = (_WIDTH - _LEFT) / len(shown), _HEIGHT + marks - _BOTTOM
    parts = [_scale(highest, marks, floor)]
    for index, each in enumerate(shown):
        left = _LEFT + index * step
        for offset, count, name in ((0.12, each.source_records, "source"), (0.5, each.copy_records, "copy")):
            height = (floor - _TOP - marks) * count / highest
            parts.append(
                f'<rect class="{name}" x="{left + offset * step:.1f}" y="{floor - height:.1f}" '
                f'width="{max(step * 0.38, 0.5):.1f}" height="{height:.1f}">'
                f"<title>{_span(each)}: {count:,} in the {name}</title></rect>"
            )
        parts += [_mark(kind, each, left + step / 2, _TOP + 16 * row) for row, kind in enumerate(kinds)]
    parts += [
        f'<text x="{_LEFT - 8}" y="{_TOP + 16 * row + 4}" text-anchor="end" fill="{COLOURS[kind]}">{kind}</text>'
        for row, kind in enumerate(kinds)
    ]
    first, last = time(shown[0].start_ms)[:16], time(shown[-1].end_ms)[:16]
    parts.append(f'<text x="{_LEFT}" y="{floor + 18}">{first}</text>')
    parts.append(f'<text x="{_WIDTH}" y="{floor + 18}" text-anchor="end">{last}</text>')
    return _svg(_HEIGHT + marks, "Records and faults by window", parts)


def partitions_picture(partitions: Sequence[PartitionRow]) -> str:
    """Records of both ends by partition."""
    shown = list(partitions[:_BARS_MAX])
    highest = max((max(each.source_records, each.copy_records) for each in shown), default=0) or 1
    step = (_WIDTH - _LEFT) / max(len(shown), 8)
    floor = _HEIGHT - _BOTTOM
    parts = [_scale(highest, 0, floor)]
    for index, each in enumerate(shown):
        left = _LEFT + index * step
        for offset, count, name in ((0.12, each.source_records, "source"), (0.5, each.copy_records, "copy")):
            height = (floor - _TOP) * count / highest
            parts.append(
                f'<rect class="{name}" x="{left + offset * step:.1f}" y="{floor - height:.1f}" '
                f'width="{step * 0.38:.1f}" height="{height:.1f}"><title>{each.partition}: {count:,}</title></rect>'
            )
        if len(shown) <= 40:
            parts.append(
                f'<text x="{left + step / 2:.1f}" y="{floor + 18}" text-anchor="middle">{each.partition}</text>'
            )
    return _svg(_HEIGHT, "Records by partition", parts)


def _mark(kind: str, window: WindowRow, x: float, y: int) -> str:
    count = window.faults.get(kind, 0)
    if not count:
        return ""
    return (
        f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{COLOURS[kind]}"><title>{_span(window)}: {count:,} {kind}</title>'
        "</circle>"
    )


def _scale(highest: int, marks: int, floor: int) -> str:
    lines = []
    for part in (0, 0.5, 1):
        y = floor - (floor - _TOP - marks) * part
        lines.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{round(highest * part):,}</text>'
        )
    return "".join(lines)


def _merged(windows: Sequence[WindowRow]) -> list[WindowRow]:
    """At most `_BARS_MAX` windows: some that follow each other become one."""
    together = -(-len(windows) // _BARS_MAX)
    found = []
    for first in range(0, len(windows), together or 1):
        several = windows[first : first + together]
        faults: dict[str, int] = {}
        for each in several:
            for kind, count in each.faults.items():
                faults[kind] = faults.get(kind, 0) + count
        source, copy = sum(each.source_records for each in several), sum(each.copy_records for each in several)
        found.append(WindowRow(several[0].start_ms, several[-1].end_ms, source, copy, faults))
    return found


def _span(window: WindowRow) -> str:
    return f"{time(window.start_ms)[:19]} to {time(window.end_ms)[:19]}"


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    label = html.escape(title)
    return (
        f'<svg role="img" viewBox="0 0 {_WIDTH} {height}" aria-label="{label}">'
        f"<title>{label}</title>{''.join(parts)}</svg>"
    )

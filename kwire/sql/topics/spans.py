"""The offsets that a query reads, by topic and partition, and their form in JSON. Pure."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Span(NamedTuple):
    """Offsets from ``start`` to before ``end``."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return max(0, self.end - self.start)


Spans = dict[int, Span]
"""A span for each partition of a topic."""
Snapshot = dict[str, Spans]
"""The spans of topics by their names."""

_OFFSET_MAX = 2**63


def to_json(snapshot: Snapshot) -> str:
    """On one line: ``{"orders": {"0": [0, 1200]}}``."""
    plain = {
        topic: {str(partition): list(span) for partition, span in sorted(spans.items())}
        for topic, spans in sorted(snapshot.items())
    }
    return json.dumps(plain, ensure_ascii=False)


def parse(text: str) -> Snapshot:
    """What `to_json` writes. ValueError with what is wrong."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError('offsets are JSON like {"orders": {"0": [0, 1200]}}')
    return {topic: _spans(topic, spans) for topic, spans in found.items()}


def _spans(topic: str, given: Any) -> Spans:
    if not isinstance(given, dict):
        raise ValueError(f'the offsets of {topic} are like {{"0": [0, 1200]}}')
    return {_partition(topic, number): _span(f"{topic}-{number}", bounds) for number, bounds in given.items()}


def _partition(topic: str, text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**31:
        raise ValueError(f"{topic}: {text!r} is not the number of a partition")
    return int(text)


def _span(name: str, bounds: Any) -> Span:
    if (
        not isinstance(bounds, list)
        or len(bounds) != 2
        or not all(type(each) is int and 0 <= each < _OFFSET_MAX for each in bounds)
        or bounds[0] > bounds[1]
    ):
        raise ValueError(f"the offsets of {name} are like [0, 1200]: the first, and the one after the last")
    return Span(*bounds)

"""The two ways to name series (``kwire.metrics.names``).

``jmx`` leaves names and labels as the JMX exporter and kafka-exporter write them. ``prometheus`` changes what
`promtool check metrics` remarks on, and nothing else:

- Labels are in snake case: ``logDirectory`` is ``log_directory``.
- Gauges whose names end in ``_count`` or ``_sum``, which Prometheus keeps for histograms and summaries, have no type.
- Milliseconds that a name abbreviates (``_ms``) are seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kwire.metrics.mbeans import Sample

Naming = Callable[[Sample], Sample]

PROMETHEUS: Final = "prometheus"
JMX: Final = "jmx"
UNTYPED: Final = "unknown"
"""prometheus_client's word for it; the text format says ``untyped``."""

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


def _as_it_is(sample: Sample) -> Sample:
    return sample


def _for_promtool(sample: Sample) -> Sample:
    if sample.kind == "gauge":
        if sample.family.endswith(("_count", "_sum")):
            sample = sample._replace(kind=UNTYPED)
        elif sample.family.endswith("_ms"):
            sample = sample._replace(family=sample.family.removesuffix("ms") + "seconds", value=sample.value / 1000)
    if any(label != label.lower() for label in sample.labels):
        return sample._replace(labels={_snake(label): value for label, value in sample.labels.items()})
    return sample


def _snake(label: str) -> str:
    return _CAPITAL.sub(r"_\1", label).lower()


NAMINGS: Final[Mapping[str, Naming]] = {PROMETHEUS: _for_promtool, JMX: _as_it_is}
"""What gives a sample of the JMX exporter's its name, by the value of the property."""

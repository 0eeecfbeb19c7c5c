"""`Renderer`: snapshots of brokers as text for Prometheus, written by prometheus_client.

What belongs to one topic or group is rendered apart, and again only after it has changed: of 10,000 partitions few are
written to between two scrapes, and rendering all of them takes a second.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Metric

from kwire.metrics.facts import ends_of, of_broker, of_group, of_partition, of_topic
from kwire.metrics.mbeans import Sample, samples
from kwire.metrics.names import NAMINGS, PROMETHEUS, Naming
from kwire.metrics.process import of_process

Row = list[Any]
Snapshot = tuple[list[Row], Mapping[str, Any]]
"""Rows, and facts about the broker."""
Encode = Callable[[Any], bytes]
"""A function of prometheus_client that writes a registry in one of Prometheus's formats."""

_TOPIC: Final = re.compile(r",topic=(.+)$")
_HEADER: Final = re.compile(rb"(# HELP [^\n]*\n# TYPE [^\n]*\n)")
_END: Final = b"# EOF\n"


class _Part(NamedTuple):
    """What is rendered together. ``key``: the same in each scrape; ``inputs``: what decides the samples."""

    key: Hashable
    inputs: object
    samples: Callable[[], Iterable[Sample]]


class Renderer:
    """Renders snapshots, and remembers the text of each part in each format. For any thread. ``naming`` gives each
    sample its name."""

    def __init__(self, naming: Naming = NAMINGS[PROMETHEUS]) -> None:
        self._naming = naming
        self._lock = threading.Lock()
        self._remembered: dict[str, dict[Hashable, tuple[object, dict[bytes, bytes]]]] = {}

    def render(self, snapshots: Mapping[str, Snapshot], encode: Encode, content_type: str) -> bytes:
        """The text of brokers by the value of their label ``broker``; "" has no label."""
        with self._lock:
            return self._render(snapshots, encode, content_type)

    def _render(self, snapshots: Mapping[str, Snapshot], encode: Encode, content_type: str) -> bytes:
        before = self._remembered.get(content_type, {})
        now: dict[Hashable, tuple[object, dict[bytes, bytes]]] = {}
        whole: dict[bytes, list[bytes]] = {}
        for _, part in _parts(snapshots):
            found = before.get(part.key)
            if found is None or found[0] != part.inputs:
                found = part.inputs, _blocks(encode(_Families(map(self._naming, part.samples()))))
            now[part.key] = found
            for header, lines in found[1].items():
                whole.setdefault(header, []).append(lines)
        self._remembered[content_type] = now  # what is gone is forgotten
        end = _END if "openmetrics" in content_type else b""
        return b"".join(piece for header, lines in whole.items() for piece in (header, *lines)) + end


def _blocks(text: bytes) -> dict[bytes, bytes]:
    """The lines of each family by its header."""
    _, *pieces = _HEADER.split(text.removesuffix(_END))
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


class _Families(CollectorRegistry):
    """A registry of some samples."""

    def __init__(self, given: Iterable[Sample]) -> None:
        super().__init__(auto_describe=False)
        self._given = given

    def collect(self) -> Iterator[Metric]:
        """The samples by family."""
        found: dict[str, Metric] = {}
        for sample in self._given:
            family = found.get(sample.family)
            if family is None:
                text = f"{sample.family} of Kafka, as the JMX exporter and kafka-exporter name it"
                family = found[sample.family] = Metric(sample.family, text, sample.kind)
            family.add_sample(sample.family + sample.suffix, dict(sample.labels), sample.value)
        yield from found.values()


def all_samples(snapshots: Mapping[str, Snapshot], naming: Naming) -> Iterator[tuple[str, Sample]]:
    """The samples of brokers, each with the value of its broker's label ``broker``."""
    for broker, part in _parts(snapshots):
        for sample in part.samples():
            yield broker, naming(sample)


def _parts(snapshots: Mapping[str, Snapshot]) -> Iterator[tuple[str, _Part]]:
    ends = ends_of([row for rows, _ in snapshots.values() for row in rows if row[0] in ("partition", "end")])
    for broker, (rows, facts) in snapshots.items():
        extra = {"broker": broker} if broker else {}
        grouped: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            if row[0] != "end":
                grouped.setdefault(_scope(row), []).append(row)
        yield broker, _Part((broker, "facts"), facts, partial(_labelled, of_broker, facts, extra))
        process = list(of_process(facts["pid"]))
        yield broker, _Part((broker, "process"), process, partial(_labelled, iter, process, extra))
        for (kind, name), those in grouped.items():
            inputs: object = those
            of_row = _MAKERS.get(kind, _of_metric)
            if kind == "offsets":
                inputs = those, [ends.get((topic, index)) for row in those for topic, index, _ in row[3]]
                of_row = partial(of_group, ends=ends)
            made = partial(_of_rows, of_row)
            yield broker, _Part((broker, kind, name), inputs, partial(_labelled, made, those, extra))


def _scope(row: Row) -> tuple[str, str]:
    """What is rendered together: the same kind of row of one topic or group; other metrics together."""
    kind, name = row[0], row[1]
    if kind != "metric":
        return kind, name
    tag = _TOPIC.search(name)
    return kind, tag[1] if tag is not None else ""


def _labelled(make: Callable[[Any], Iterator[Sample]], argument: object, extra: Mapping[str, str]) -> Iterator[Sample]:
    for sample in make(argument):
        yield sample._replace(labels={**sample.labels, **extra}) if extra else sample


def _of_rows(of_row: Callable[[Row], Iterator[Sample]], rows: Iterable[Row]) -> Iterator[Sample]:
    for row in rows:
        yield from of_row(row)


def _of_metric(row: Row) -> Iterator[Sample]:
    return samples(row[1], row[2])


_MAKERS: Final[dict[str, Callable[[Row], Iterator[Sample]]]] = {"partition": of_partition, "topic": of_topic}

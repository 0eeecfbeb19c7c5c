"""An audit on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from kwire.audit.rows import MEANINGS, AuditRow, ContentRow, ExampleRow, ProducerRow

_WIDTH: Final = 90
_PRODUCERS: Final = 20


def lines(row: AuditRow) -> Iterator[str]:
    """What an audit found, in lines. Control characters of records are escaped."""
    if row.copy is not None:
        yield f"{row.verdict}: {row.source} ({row.source_records:,} records) and {row.copy} ({row.copy_records:,})"
        order = {"none": "no order", "key": "the order within keys", "partition": "the order within partitions"}[
            row.order
        ]
        yield f"compared: {', '.join(row.compared)}; {order}; {row.seconds:.1f} s"
    else:
        yield f"{row.verdict}: {row.source}, {row.source_records:,} records"
    if row.confidence is not None:
        yield row.confidence
    if row.pending:
        yield f"pending: {row.pending:,} records are not in the copy yet and younger than --grace allows"
    for kind, count in row.faults.items():
        yield f"{kind + ':':12} {count:>11,}   {MEANINGS[kind]}"
    for each in row.examples:
        yield from _example(each)
    if row.producers:
        yield from _producers(row.producers)


def _example(example: ExampleRow) -> Iterator[str]:
    for end, content in (("source", example.source), ("copy", example.copy)):
        if content is not None:
            yield f"  {example.kind:11} {end:6} {_content(content)}"


def _content(content: ContentRow) -> str:
    found = f"{content.partition}:{content.offset}"
    if content.timestamp is not None:
        found += f" {time(content.timestamp)}"
    for text in (content.key, content.value):
        shown = "null" if text is None else printable(text)
        found += f" {shown[:_WIDTH]}{'…' if len(shown) > _WIDTH else ''}"
    return found


def _producers(rows: Sequence[ProducerRow]) -> Iterator[str]:
    yield "producer     epoch  partition    batches     records    aborted  sequences              missing  repeated"
    for each in sorted(rows, key=lambda row: (not (row.missing or row.repeated), row))[:_PRODUCERS]:
        name = str(each.producer_id) if each.producer_id >= 0 else "without id"
        sequences = f"{each.first_sequence}..{each.last_sequence}" if each.producer_id >= 0 else "-"
        yield (
            f"{name:12} {each.epoch:5}  {each.partition:9}  {each.batches:9,}  {each.records:10,}  {each.aborted:9,}"
            f"  {sequences:21}  {each.missing:7,}  {each.repeated:8,}"
        )
    if len(rows) > _PRODUCERS:
        yield f"… and {len(rows) - _PRODUCERS} more: -o json has all"


def printable(text: str) -> str:
    """Text without characters that a terminal would obey."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def time(stamp_ms: int) -> str:
    """A time in UTC."""
    try:
        found = datetime.fromtimestamp(stamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"@{stamp_ms}"
    return found.strftime("%Y-%m-%dT%H:%M:%S") + f".{stamp_ms % 1000:03}Z"

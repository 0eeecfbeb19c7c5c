"""What the command does: each pair of ends, one after the other, and the reports."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kwire.audit.auditing import Wanted, audit
from kwire.audit.ends import DirectoryEnd, End, TableEnd, TopicEnd, parse_end
from kwire.audit.errors import AuditError
from kwire.audit.fields import Comparison, Pair
from kwire.audit.order import Order
from kwire.audit.planning import plan, topics
from kwire.audit.producers import producers, proof
from kwire.audit.reports.page import page
from kwire.audit.reports.text import lines
from kwire.audit.rows import EQUAL, FAULTS, AuditRow
from kwire.audit.work import Progress, Work
from kwire.cli import output
from kwire.cli.positions import Kind, parse_position


class _Pair(NamedTuple):
    """Two ends to compare; without a copy only the source's producers are looked at."""

    source: End
    copy: End | None


def run_audit(arguments: argparse.Namespace) -> int:
    """Audit what a command line names, print and write the reports; the exit status: 1 if there are faults."""
    if arguments.copy is None and not arguments.producers:
        raise AuditError("name the copy, too, or look at producers alone with --producers")
    if arguments.expect is not None and not arguments.producers:
        raise AuditError("--expect goes with --producers")
    if arguments.html is not None:
        Path(arguments.html).touch()  # what cannot be written is known before the work
    rows = [_audited(each, arguments) for each in _pairs(arguments)]
    if arguments.html is not None:
        Path(arguments.html).write_text(page(rows), encoding="utf-8")
    _print(rows, arguments)
    return int(any(each.is_faulty for each in rows))


def _pairs(arguments: argparse.Namespace) -> Iterator[_Pair]:
    source = parse_end(arguments.source, arguments, is_copy=False)
    copy = None if arguments.copy is None else parse_end(arguments.copy, arguments, is_copy=True)
    stars = (_pattern(source), 1 if copy is None else _pattern(copy))
    if stars == (0, 1) and copy is None:
        stars = (0, 0)
    if max(stars) > 1 or (copy is not None and stars[0] != stars[1]):
        raise AuditError("one * in the source and one in the copy stand for topics: '*' '*@mirror', '*' 'a.*'")
    if not stars[0]:
        yield _Pair(source, copy)
        return
    assert not isinstance(source, TableEnd)
    before, _, after = source.topic.partition("*")
    names = [
        each
        for each in topics(source)
        if each.startswith(before) and each.endswith(after) and len(each) > len(before + after)
    ]
    if not names:
        raise AuditError(f"{source.text}: there is no such topic")
    for name in names:
        middle = name[len(before) : len(name) - len(after)]
        yield _Pair(_named(source, middle), None if copy is None else _named(copy, middle))


def _pattern(end: End) -> int:
    return 0 if isinstance(end, TableEnd) else end.topic.count("*")


def _named(end: End, middle: str) -> End:
    assert isinstance(end, TopicEnd | DirectoryEnd)
    return end._replace(text=end.text.replace("*", middle, 1), topic=end.topic.replace("*", middle))


def _audited(pair: _Pair, arguments: argparse.Namespace) -> AuditRow:
    row = None
    if pair.copy is not None:
        folder = arguments.work_dir or tempfile.gettempdir()
        work = Work(folder, arguments.memory, arguments.jobs or os.cpu_count() or 1, arguments.quiet)
        row = audit(_wanted(pair.source, pair.copy, arguments), work)
    return _with_producers(pair.source, row, arguments) if arguments.producers or row is None else row


def _wanted(source: End, copy: End, arguments: argparse.Namespace) -> Wanted:
    comparison = Comparison(
        identity=tuple(map(Pair.parse, arguments.identity)),
        compared=tuple(map(Pair.parse, arguments.compare)),
        times=None if arguments.time is None else Pair.parse(arguments.time),
        headers=not arguments.ignore_headers,
        timestamps=arguments.timestamps,
    )
    return Wanted(
        source,
        copy,
        comparison,
        order=None if arguments.order is None else Order(arguments.order),
        sample=arguments.sample,
        from_ms=_moment(arguments.start, "--from"),
        until_ms=_moment(arguments.until, "--until"),
        late_ms=arguments.late_after,
        grace_ms=arguments.grace,
        window_ms=arguments.window,
        committed=arguments.isolation == "read_committed",
        examples=arguments.examples,
        may_lack="*" in arguments.source,
    )


def _moment(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        found = parse_position(text, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise AuditError(f"{option}: {error}") from None
    if found.kind is not Kind.TIME:
        raise AuditError(f"{option}: {text!r} is no time: 2026-11-23T10:00, @MILLISECONDS or '10 minutes ago'")
    return found.number


def _with_producers(source: End, row: AuditRow | None, arguments: argparse.Namespace) -> AuditRow:
    """The proof of the source's producers, added to an audit or alone."""
    if isinstance(source, TableEnd):
        raise AuditError("--producers: a table has no producers; name a topic or a data directory")
    started_ms = time.time_ns() // 1_000_000
    progress = Progress(quiet=arguments.quiet)
    try:
        found = proof(
            producers(plan(source, committed=False), lambda offset: progress("batches up to offset", offset, 0)),
            arguments.expect,
        )
    finally:
        progress.close()
    if row is not None:
        verdict = FAULTS if found.faults else row.verdict
        return row._replace(verdict=verdict, faults={**row.faults, **found.faults}, producers=found.rows)
    return AuditRow(
        source=source.text,
        copy=None,
        verdict=FAULTS if found.faults else EQUAL,
        source_records=found.records,
        copy_records=0,
        faults=found.faults,
        pending=0,
        compared=["sequences of producers"],
        order="partition",
        sample=1.0,
        confidence=None,
        started_ms=started_ms,
        seconds=round(time.time_ns() / 1e9 - started_ms / 1000, 3),
        window_ms=0,
        windows=[],
        partitions=[],
        keys=[],
        examples=[],
        producers=found.rows,
    )


def _print(rows: list[AuditRow], arguments: argparse.Namespace) -> None:
    """Print the report. A reader that has gone does not change what was found."""
    try:
        if arguments.output == "table":
            for row in rows:
                print("\n".join(lines(row)))
        else:
            output.show(rows, arguments.output)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

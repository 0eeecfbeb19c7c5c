"""What ``kwire sql`` does: a session for its options, statements one after the other, and what each has read."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kwire.arrow.errors import ReadError
from kwire.arrow.reading import Brokers
from kwire.base.extras import missing
from kwire.cli import fail, fail_with_file
from kwire.cli.connection import options
from kwire.cli.connection.errors import CommandError
from kwire.sql.errors import SqlError, UsageError
from kwire.sql.progress import Progress
from kwire.sql.results.lines import show
from kwire.sql.results.running import Rows
from kwire.sql.session import Limits, Session
from kwire.sql.statements import Statement
from kwire.sql.topics.brokers import BrokerTopics
from kwire.sql.topics.contents import Contents
from kwire.sql.topics.directories import DirectoryTopics
from kwire.sql.topics.forms import Forms
from kwire.sql.topics.source import Source
from kwire.sql.topics.spans import to_json

if TYPE_CHECKING:
    from kwire.cli.schemas.lookup import SchemaLookup

_PARQUET: Final = ".parquet"
FAILURES: Final = (SqlError, ReadError, CommandError)
"""What a query ends with if it cannot be answered; each is one line."""


def run(arguments: argparse.Namespace) -> int:
    """The exit status of ``kwire sql``."""
    try:
        if arguments.continuous:
            if arguments.registry is not None:
                raise UsageError("--registry: not with --continuous; kwire.spark decodes by a registry (from_avro)")
            from kwire.sql.continuous.running import run as run_continuous

            return run_continuous(arguments, _brokers(arguments))
        check(arguments)
        text = arguments.query if arguments.query is not None else _input()
        with opened(arguments) as session:
            if text is None:
                from kwire.sql.prompt.loop import prompt

                return prompt(session, arguments, answer_all)
            answer_all(session, arguments, text)
    except UsageError as error:
        return fail(error, 2)
    except FAILURES as error:
        return fail(error)
    except BrokenPipeError:
        raise
    except OSError as error:
        return fail_with_file(error)
    return 0


def check(arguments: argparse.Namespace) -> None:
    """`UsageError` for options that do not fit each other."""
    if arguments.query is not None and not arguments.query.strip():
        raise UsageError("the query is empty: kwire sql 'select count(*) from orders'")
    if arguments.to is not None and not arguments.to.endswith(_PARQUET):
        raise UsageError(f"--to {arguments.to}: the file is a Parquet file, its name ends with {_PARQUET}")
    if (arguments.to or arguments.to_topic) and arguments.output != "table":
        raise UsageError(f"-o {arguments.output} is for standard output: leave it out with --to and --to-topic")


def _input() -> str | None:
    """The statements of standard input; None if it is a terminal. `SqlError` if it is no text."""
    if sys.stdin is None:
        raise UsageError("there is no query, and standard input is closed")
    if sys.stdin.isatty():
        return None
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise SqlError("standard input is not UTF-8 text") from None


@contextmanager
def opened(arguments: argparse.Namespace) -> Iterator[Session]:
    """A session for the options; what it keeps on disk goes with it. `SqlError`, `CommandError`."""
    with tempfile.TemporaryDirectory(prefix="kwire-sql-", dir=arguments.temp_directory) as temporary:
        limits = Limits(arguments.memory_limit, temporary, arguments.allow_files, arguments.threads)
        forms = Forms(dict(arguments.key_type), dict(arguments.value_type), _lookup(arguments))
        session = Session(_source(arguments), limits, forms, arguments.as_of)
        try:
            yield session
        finally:
            session.close()


def _source(arguments: argparse.Namespace) -> Source:
    if arguments.data_dir:
        return DirectoryTopics(arguments.data_dir, in_time_order=arguments.in_time_order)
    return BrokerTopics(_brokers(arguments), in_time_order=arguments.in_time_order)


def _lookup(arguments: argparse.Namespace) -> SchemaLookup | None:
    """The registry whose schemas give keys and values their types, if there is one. `CommandError`, `SqlError`."""
    if arguments.registry is None:
        return None
    if (reason := missing("registry")) is not None:
        raise SqlError(reason)
    from kwire.cli.schemas.client import RegistryClient
    from kwire.cli.schemas.lookup import SchemaLookup

    chosen = options.settings(arguments)
    return SchemaLookup(RegistryClient(arguments.registry, chosen.properties, chosen.timeout_s))


def _brokers(arguments: argparse.Namespace) -> Brokers:
    chosen = options.settings(arguments)
    return Brokers(chosen.bootstrap, chosen.properties, chosen.timeout_s)


def answer_all(session: Session, arguments: argparse.Namespace, text: str) -> None:
    """Run statements and show their rows. `SqlError`, `ReadError`, `CommandError`, OSError."""
    statements = session.statements(text)
    if not statements:
        raise UsageError("there is no statement: kwire sql 'select count(*) from orders'")
    try:
        for statement in statements:
            answer(session, arguments, statement)
    finally:
        if arguments.offsets:
            print(f"kwire: offsets {to_json(session.snapshot)}", file=sys.stderr)


def answer(session: Session, arguments: argparse.Namespace, statement: Statement) -> None:
    """Run a statement and show its rows. `SqlError`, `ReadError`, `CommandError`, OSError."""
    with Progress(session, enabled=not arguments.no_progress) as progress, Rows(session, progress.tick) as rows:
        if rows.start(statement):
            _write(session, arguments, rows)
    _report(session, arguments)


def _write(session: Session, arguments: argparse.Namespace, rows: Rows) -> None:
    if arguments.to is not None:
        from kwire.sql.results.destinations import to_parquet

        print(f"{_counted(to_parquet(rows, arguments.to))} written to {arguments.to}")
    elif arguments.to_topic is not None:
        from kwire.sql.results.destinations import to_topic

        count = to_topic(session, rows, _brokers(arguments), arguments.to_topic)
        print(f"{_counted(count)} written to {arguments.to_topic}")
    else:
        show(session, rows, arguments.output, arguments.rows)


def _counted(rows: int) -> str:
    return f"{rows} row{'s' * (rows != 1)}"


def _report(session: Session, arguments: argparse.Namespace) -> None:
    """What did not fit, and with ``--stats`` how much was read, on standard error."""
    misfits: dict[tuple[str, str], Contents] = {}
    for scan in session.scans:
        for column, contents in scan.misfits.items():
            place = (scan.topic, column)
            misfits[place] = max(misfits.get(place, contents), contents, key=lambda each: each.misfits)
    for (topic, column), contents in misfits.items():
        if contents.misfits:
            print(f"kwire: {topic}: {contents.note(topic, column)}", file=sys.stderr)
    if arguments.stats:
        for scan in session.scans:
            counts = scan.counts
            segments = f"{counts.segments} of {counts.segments_there} segments, " if counts.segments_there else ""
            print(
                f"kwire: {scan.topic}: read {segments}{counts.offsets} of {counts.offsets_there} offsets, "
                f"{counts.records} record{'s' * (counts.records != 1)}",
                file=sys.stderr,
            )

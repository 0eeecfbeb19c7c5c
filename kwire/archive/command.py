"""``kwire archive TOPIC``: keep a topic's records in a table.

    kwire archive orders --to parquet --path /archive/orders --until-end
    kwire archive orders --to delta --path /archive/orders
    kwire archive orders --to iceberg --path /archive/orders --data-dir /var/lib/kwire --until-end

Without ``--until-end`` it goes on until Ctrl-C or SIGTERM. Another run goes on where the table ends.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.extras import missing
from kwire.cli import connection, fail, output
from kwire.cli.actions import positive
from kwire.cli.connection.options import seconds

if TYPE_CHECKING:
    from threading import Event

    from kwire.archive.archiving import Archiver
    from kwire.archive.identity import Identity
    from kwire.archive.sources import Source
    from kwire.archive.targets.target import Target

FORMATS: Final = ("delta", "iceberg", "parquet")
_INTERVAL_S: Final = 60.0


class Archived(NamedTuple):
    """What a run has done. ``commits``: how often the table has changed."""

    topic: str
    to: str
    path: str | None
    records: int
    commits: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire archive``."""
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("--to", choices=FORMATS, required=True, metavar="FORMAT", help="delta, iceberg or parquet")
    parser.add_argument("--path", metavar="PATH", help="the table's folder; of Delta and Iceberg also s3://BUCKET/NAME")
    parser.add_argument("--until-end", action="store_true", help="end when all is archived that is there at the start")
    text = "read from this data directory instead of brokers; a broker may be using it"
    parser.add_argument("--data-dir", metavar="DIR", help=text)
    text = (
        "kwire: this process; spark: a Spark job, as spark-submit configures it, or on all cores here (default: kwire)"
    )
    parser.add_argument("--engine", choices=("kwire", "spark"), default="kwire", metavar="ENGINE", help=text)
    _add_amounts(parser)
    iceberg = parser.add_argument_group("Iceberg")
    text = "a catalog of pyiceberg's configuration (default: one in the folder, catalog.db)"
    iceberg.add_argument("--catalog", metavar="NAME", help=text)
    iceberg.add_argument("--table", metavar="NAMESPACE.TABLE", help="the table's name (default: kwire.TOPIC)")
    output.add_arguments(parser)
    connection.add_arguments(parser)


def _add_amounts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        type=seconds,
        default=_INTERVAL_S,
        metavar="SECONDS",
        help=f"how long to wait for more records after a commit (default: {_INTERVAL_S:.0f})",
    )
    parser.add_argument(
        "--commit-records",
        type=positive,
        default=1_000_000,
        metavar="N",
        help="commit after so many records at the latest (default: 1000000)",
    )
    parser.add_argument(
        "--commit-bytes",
        type=positive,
        default=64 * 1024 * 1024,
        metavar="N",
        help="commit after so many bytes at the latest; memory holds two to three times as much (default: 67108864)",
    )
    text = "go on after records that were deleted from the topic before they were archived"
    parser.add_argument("--skip-lost", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> int:
    """Archive until the end that the options name; the exit status."""
    from kwire.archive.errors import ArchiveError
    from kwire.cli.connection.errors import CommandError

    wrong = _wrong(arguments)
    if wrong is not None:
        return fail(wrong, 2)
    if arguments.engine == "spark" and (reason := missing("spark")) is not None:
        return fail(reason)
    try:
        done = _archive(arguments)
    except (ArchiveError, CommandError) as error:
        return fail(error)
    if arguments.output == "table":
        print(f"{done.records} records of {done.topic} archived, commits: {done.commits}")
    else:
        output.show_one(done, arguments.output)
    return 0


def _wrong(arguments: argparse.Namespace) -> str | None:
    """What is wrong with the options together."""
    if arguments.to != "iceberg" and (arguments.catalog or arguments.table):
        return "--catalog and --table are for --to iceberg"
    if arguments.path is None and arguments.catalog is None:
        return "--path: the folder of the table is missing"
    if arguments.path == "":
        return "--path: the folder's name is empty"
    if arguments.engine == "spark" and (arguments.to == "iceberg" or "://" in arguments.path):
        return "--engine spark writes Parquet files and Delta tables in a folder"
    if arguments.data_dir is not None and arguments.bootstrap_server is not None:
        return "--data-dir reads without brokers: leave --bootstrap-server out"
    return None


def _archive(arguments: argparse.Namespace) -> Archived:
    make_source = _source(arguments)
    identity = make_source().identity()
    with _stop_on_signals() as stop, _target(arguments, identity) as target:
        archiver = _archiver(arguments, make_source, target, identity, stop)
        if arguments.until_end:
            archiver.round()
        else:
            archiver.follow(arguments.interval)
    return Archived(arguments.topic, arguments.to, arguments.path, archiver.records, archiver.commits)


def _archiver(
    arguments: argparse.Namespace, make_source: Callable[[], Source], target: Any, identity: Identity, stop: Event
) -> Archiver:
    from kwire.archive.archiving import Archiver, Settings

    settings = Settings(arguments.commit_records, arguments.commit_bytes, arguments.skip_lost)
    if arguments.engine == "spark":
        from kwire.archive.spark import SparkArchiver, session

        return SparkArchiver(session(), arguments.path, make_source, target, identity, settings, stop)
    return Archiver(make_source(), target, identity, settings, stop)


def _source(arguments: argparse.Namespace) -> Callable[[], Source]:
    """What makes the source, also in another process."""
    from kwire.archive.sources import BrokerSource, DirectorySource
    from kwire.arrow.reading import Brokers
    from kwire.cli.connection.options import settings

    if arguments.data_dir is not None:
        return partial(DirectorySource, arguments.data_dir, arguments.topic)
    chosen = settings(arguments)
    return partial(BrokerSource, Brokers(chosen.bootstrap, chosen.properties, chosen.timeout_s), arguments.topic)


def _target(arguments: argparse.Namespace, identity: Identity) -> AbstractContextManager[Target]:
    if arguments.to == "parquet":
        from kwire.archive.targets.parquet import ParquetTarget

        return ParquetTarget.opened(arguments.path, identity)
    if arguments.to == "delta":
        from kwire.archive.targets.delta import DeltaTarget

        return DeltaTarget.opened(arguments.path, identity)
    from kwire.archive.targets.iceberg import IcebergTarget

    return IcebergTarget.opened(arguments.path, identity, arguments.catalog, arguments.table)


@contextmanager
def _stop_on_signals() -> Iterator[Event]:
    """Set by the first SIGINT or SIGTERM: what was read is committed, then the command ends. The second one ends it at
    once, which does no harm either."""
    from threading import Event

    stop = Event()

    def first(number: int, _frame: Any) -> None:
        signal.signal(number, before[signal.Signals(number)])
        stop.set()

    before = {number: signal.signal(number, first) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""``kwire sql``: query topics as tables.

    kwire sql "select value->>'region' as region, count(*) from orders group by region"
    kwire sql --data-dir /var/lib/kafka -o csv 'select * from "my-topic" where timestamp > now() - interval 1 hour'
    kwire sql --registry http://localhost:8081 "select value.region, sum(value.amount) from orders group by 1"
    kwire sql --to big.parquet "from orders"
    echo "from orders limit 3; from payments limit 3;" | kwire sql
    kwire sql

Without a query statements come from standard input, or from a prompt if that is a terminal.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kwire.cli import connection
from kwire.cli.actions import positive
from kwire.cli.connection.options import seconds

_FORMATS = ("table", "json", "jsonl", "csv")
_MEMORY = "2GB"
_TABLE_ROWS = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire sql``."""
    parser.add_argument("query", metavar="QUERY", nargs="?", help="statements of SQL, as DuckDB has it")
    connection.add_arguments(parser)
    _add_reading(parser)
    _add_results(parser)
    _add_limits(parser)
    _add_continuous(parser)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("topics")
    group.add_argument(
        "--data-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="read topics of a data directory, without a broker; may be given more than once",
    )
    group.add_argument(
        "--value-type",
        metavar="[TOPIC=]TYPE",
        action="append",
        default=[],
        type=_kind,
        help="the type of value, of all topics or of one: json, varchar or blob (default: by samples)",
    )
    group.add_argument(
        "--key-type", metavar="[TOPIC=]TYPE", action="append", default=[], type=_kind, help="the same for key"
    )
    group.add_argument(
        "--registry",
        metavar="URL",
        help="key and value have columns by the schemas of this registry (Avro, JSON Schema, Protobuf)",
    )
    group.add_argument(
        "--as-of",
        metavar="OFFSETS",
        type=_offsets,
        help="read these offsets, as --offsets prints them; @FILE: those in a file",
    )
    group.add_argument(
        "--in-time-order",
        action="store_true",
        help="timestamps do not fall within a partition: a filter's latest time ends the reading",
    )


def _add_results(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results")
    group.add_argument(
        "-o",
        "--output",
        choices=_FORMATS,
        default="table",
        metavar="FORMAT",
        help="table, json (an array of rows), jsonl or csv (default: table)",
    )
    group.add_argument(
        "--rows",
        metavar="N",
        type=_count,
        default=_TABLE_ROWS,
        help=f"rows that a table shows, 0 for all (default: {_TABLE_ROWS})",
    )
    places = group.add_mutually_exclusive_group()
    places.add_argument(
        "--to", metavar="FILE", help="write the rows to a Parquet file (.parquet); with --continuous, to a folder"
    )
    places.add_argument("--to-topic", metavar="TOPIC", help="write the rows to a topic")
    group.add_argument(
        "--offsets", action="store_true", help="print the offsets that were read on standard error, for --as-of"
    )
    group.add_argument("--stats", action="store_true", help="print how much of each topic was read on standard error")
    group.add_argument("--no-progress", action="store_true", help="show no progress on a terminal")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--memory-limit",
        metavar="SIZE",
        default=_MEMORY,
        help=f"memory for sorting, grouping and joining; what is more goes to disk (default: {_MEMORY})",
    )
    group.add_argument("--temp-directory", metavar="DIR", help="where that goes to (default: that for temporary files)")
    group.add_argument("--threads", metavar="N", type=positive, help="threads of DuckDB (default: one for each core)")
    group.add_argument(
        "--allow-files", action="store_true", help="let statements read and write files, and load extensions"
    )


def _add_continuous(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("continuous queries")
    group.add_argument(
        "--continuous",
        action="store_true",
        help="a query of Spark SQL that goes on, exactly once, into --to-topic TOPIC or a table in --to FOLDER",
    )
    group.add_argument("--name", metavar="NAME", help="what it goes on as after a restart (default: the target's name)")
    group.add_argument(
        "--table-format", choices=("parquet", "delta"), default="parquet", help="of --to (default: parquet)"
    )
    group.add_argument(
        "--start", choices=("earliest", "latest"), default="earliest", help="where a new query begins (earliest)"
    )
    group.add_argument(
        "--watermark",
        metavar="TIME",
        help="how late records may come ('10 minutes'), for groups by window(timestamp, …)",
    )
    group.add_argument("--until-end", action="store_true", help="end when all that is there is done")
    group.add_argument("--every", metavar="SECONDS", type=seconds, help="a batch every so often (default: at once)")
    group.add_argument(
        "--checkpoint", metavar="DIR", help="where its state is kept (default: ~/.local/state/kwire/sql/NAME)"
    )


def _kind(text: str) -> tuple[str, str]:
    from kwire.sql.topics.columns import KINDS

    topic, _, kind = text.rpartition("=")
    if kind.lower() not in KINDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not [TOPIC=]TYPE with a type of {', '.join(KINDS)}")
    return topic, kind.lower()


def _offsets(text: str):  # type: ignore[no-untyped-def]
    from kwire.sql.topics.spans import parse

    try:
        return parse(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text[1:]}: {error.strerror}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Answer the query, the statements of standard input, or what is written at the prompt."""
    from kwire.sql.running import run as run_queries

    return run_queries(arguments)

"""``kwire audit SOURCE COPY``: compare the two ends of a pipeline.

kwire audit orders orders-copy
kwire audit orders orders@mirror:9092 --html report.html
kwire audit '*' '*@mirror'
kwire audit orders /tables/orders --identity '$.order_id=order_id' --compare '$.amount=amount'
kwire audit orders@/var/lib/kwire/data --producers

Exit status 0: equal; 1: faults were found; 2: they could not be compared.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import Final

from kwire.base.extras import missing
from kwire.cli import connection, fail, output

COULD_NOT: Final = 2
_MEMORY_MB: Final = 1024
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire audit``."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="TOPIC, TOPIC@HOST:PORT, TOPIC@PROFILE, TOPIC@/DATA/DIRECTORY, or a table: /PATH, parquet:PATH, delta:PATH"
        "; * in a topic stands for several",
    )
    parser.add_argument("copy", metavar="COPY", nargs="?", help="the same; * for the name that * is in the source")
    _add_what(parser.add_argument_group("what is compared"))
    _add_which(parser.add_argument_group("which records"))
    _add_how(parser.add_argument_group("work and report"))
    output.add_arguments(parser)
    connection.add_arguments(parser)
    parser.add_argument(
        "--copy-command-config", metavar="FILE", help="client properties of the copy, if it is TOPIC@HOST:PORT"
    )


def _add_what(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--identity",
        metavar="FIELD[=FIELD]",
        action="append",
        default=[],
        help="which record is which, by fields instead of key and content: $.PATH in JSON, a table's column, key, value"
        "; with = another one in the copy; may be given more than once",
    )
    group.add_argument(
        "--compare",
        metavar="FIELD[=FIELD]",
        action="append",
        default=[],
        help="fields to compare, as above, instead of the whole value and the headers; may be given more than once",
    )
    group.add_argument("--time", metavar="FIELD[=FIELD]", help="where a record's time is (default: its timestamp)")
    group.add_argument("--ignore-headers", action="store_true", help="headers may differ")
    group.add_argument("--timestamps", action="store_true", help="timestamps must be equal, too")
    group.add_argument(
        "--order",
        choices=("partition", "key", "none"),
        help="what has to stay in order (default: partitions, if records stay in theirs, else keys)",
    )
    group.add_argument(
        "--late-after", metavar="TIME", type=duration, help="records whose copy is later by more are faults: 10s, 5m"
    )
    group.add_argument(
        "--grace", metavar="TIME", type=duration, help="records that are younger may be missing: 10s, 5m"
    )
    group.add_argument("--producers", action="store_true", help="also follow the sequences of the source's producers")
    group.add_argument(
        "--expect", metavar="N", type=_count, help="with --producers: how many records have been written"
    )


def _add_which(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--from", dest="start", metavar="TIME", help="only records from this time on: 2026-11-23T10:00")
    group.add_argument("--until", metavar="TIME", help="only records before this time: '10 minutes ago'")
    group.add_argument(
        "--sample", metavar="PART", type=_part, default=1.0, help="look at a part of the keys only: 1%%, 0.01"
    )
    group.add_argument(
        "--isolation",
        choices=("read_uncommitted", "read_committed"),
        default="read_committed",
        help="whether records of open and aborted transactions count (default: read_committed)",
    )


def _add_how(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--html", metavar="FILE", help="write a report for people, with pictures")
    group.add_argument("--window", metavar="TIME", type=duration, help="length of the report's windows: 1m, 1h")
    group.add_argument("--examples", metavar="N", type=_count, default=5, help="faults of each kind to show (5)")
    group.add_argument(
        "--memory", metavar="MB", type=_memory, default=_MEMORY_MB, help=f"for matching (default: {_MEMORY_MB})"
    )
    group.add_argument("--jobs", metavar="N", type=_jobs, help="processes that read (default: the processors)")
    group.add_argument(
        "--work-dir",
        metavar="DIR",
        help="for what does not fit into memory, 60 bytes for a record (default: /tmp)",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")


def run(arguments: argparse.Namespace) -> int:
    """Compare, report; the exit status."""
    if (reason := missing("audit")) is not None:
        return _failed(reason)
    from kwire.audit.running import run_audit

    try:
        return run_audit(arguments)
    except Exception as error:  # whatever it is: status 1 would mean that faults were found
        return _failed(_described(error))


def _failed(reason: object) -> int:
    fail(reason)
    return COULD_NOT


def _described(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def duration(text: str) -> int:
    """Milliseconds of a command line: ``500ms``, ``10s``, ``5m``, ``1h``, ``1d``."""
    found = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", text.strip())
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time: 500ms, 10s, 5m, 1h, 1d")
    return int(found[1]) * _UNITS_MS[found[2]]


def _part(text: str) -> float:
    try:
        found = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        found = 0.0
    if not 1e-6 <= found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no part between 0.0001% and 100%: 1%, 0.01")
    return found


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return int(text)


def _memory(text: str) -> int:
    if not text.isdecimal() or not 256 <= int(text) <= 1 << 20:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of MB from 256 on")
    return int(text)


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 4 * (os.cpu_count() or 1) + 12:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)

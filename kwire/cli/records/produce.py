"""``kwire produce TOPIC``: write records.

printf 'k1:v1\\nk2:v2\\n' | kwire produce orders -k :
kwire produce orders --input jsonl records.jsonl
kwire consume orders --until-end -o jsonl | kwire produce copy --input jsonl
kwire produce orders lines.txt --repeat 100 --rate 1000
"""

from __future__ import annotations

import argparse
from typing import Final

from kwire.cli import connection

_ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire produce``."""
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("files", metavar="FILE", nargs="*", help="what to read; - is standard input (the default)")
    parser.set_defaults(words_as="files")
    _add_input(parser)
    _add_additions(parser)
    _add_sending(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "jsonl", "yaml"),
        default="table",
        metavar="FORMAT",
        help="how the number of records written is shown: table, json, jsonl or yaml (default: table)",
    )
    connection.add_arguments(parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-i",
        "--input",
        choices=("text", "jsonl"),
        default="text",
        metavar="FORMAT",
        help="text, a record a line (default), or jsonl: objects with key, value, headers and timestamp, as "
        "`kwire consume -o jsonl` writes them",
    )
    parser.add_argument("-k", "--key-separator", metavar="SEP", help="what stands between key and value (\\t: a tab)")
    parser.add_argument(
        "-D",
        "--delimiter",
        metavar="TEXT",
        default="\\n",
        help="what stands between records (default: \\n); '': each file is a record",
    )
    parser.add_argument("--repeat", type=_count, default=1, metavar="N", help="write all of it N times")
    parser.add_argument("--rate", type=_rate, metavar="N", help="at most N records a second")
    parser.add_argument(
        "--linger", type=_linger, default=0.01, metavar="SECONDS", help="how long to wait for more (default: 0.01)"
    )


def _add_additions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", metavar="KEY", help="the key of records that have none")
    parser.add_argument(
        "-H",
        "--header",
        type=_header,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a header of all records",
    )
    parser.add_argument("-Z", "--tombstone", action="store_true", help="an empty value is null")
    partitions = parser.add_mutually_exclusive_group()
    partitions.add_argument("-p", "--partition", type=_partition, metavar="N", help="all records go there")
    partitions.add_argument(
        "--keep-partitions", action="store_true", help="with -i jsonl: records go to the partition that they name"
    )


def _add_sending(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-z", "--compression", choices=_COMPRESSIONS, default="none", metavar="TYPE", help=", ".join(_COMPRESSIONS)
    )
    parser.add_argument(
        "--acks",
        choices=tuple(_ACKS),
        default="all",
        help="which brokers confirm a batch: all, 1 (the leader), 0 (none)",
    )
    parser.add_argument(
        "--no-idempotence",
        action="store_true",
        help="a batch sent again may be written twice (acks other than all: too)",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e12:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return rate


def _linger(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 60:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds up to 60")
    return seconds


def _partition(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a partition")
    return int(text)


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value.encode("utf-8", "surrogateescape")


def run(arguments: argparse.Namespace) -> int:
    """Write the records; how many are written is the last line."""
    from kwire.cli.connection.running import run as run_on_cluster
    from kwire.cli.records.producing import produce

    arguments.acks = _ACKS[arguments.acks]
    arguments.compression = _COMPRESSIONS.index(arguments.compression)
    return run_on_cluster(arguments, produce)

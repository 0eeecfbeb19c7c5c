"""``kwire bench produce|consume|latency``: measure a cluster with a topic that exists.

kwire bench produce test --num-records 1000000 --record-size 100
kwire bench consume test
kwire bench latency test --num-records 1000 --rate 100
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Final

from kwire.cli import connection, output

ACTIONS: Final = {
    "produce": "write records as fast as the cluster takes them",
    "consume": "read all records as fast as they come",
    "latency": "write records one by one and measure how long each takes to a consumer",
}
"""Action -> what it does; each is a function of `kwire.cli.bench.measuring`."""
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS: Final = {"all": -1, "1": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire bench``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    counts = {"produce": 1_000_000, "consume": None, "latency": 1000}
    for name, text in ACTIONS.items():
        each = actions.add_parser(name, help=text, description=f"{text.capitalize()}.")
        each.add_argument("topic", metavar="TOPIC", help="a topic that exists; produce and latency write to it")
        default = "all there are" if counts[name] is None else str(counts[name])
        each.add_argument(
            "-n",
            "--num-records",
            type=_count,
            default=counts[name],
            metavar="N",
            help=f"how many records (default: {default})",
        )
        if name != "consume":
            _add_writing(each)
        output.add_arguments(each)
        connection.add_arguments(each)
    actions.choices["latency"].set_defaults(rate=100)


def _add_writing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--record-size", type=_count, default=100, metavar="BYTES", help="of a value (default: 100)")
    parser.add_argument(
        "-z", "--compression", choices=_COMPRESSIONS, default="none", metavar="TYPE", help=", ".join(_COMPRESSIONS)
    )
    parser.add_argument("--acks", choices=tuple(_ACKS), default="all", help="which brokers confirm a batch: all, 1")
    parser.add_argument(
        "--rate", type=_count, metavar="N", help="at most N records a second (latency: 100, produce: no limit)"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10**12:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Measure and show."""
    from kwire.cli.connection.running import run as run_on_cluster

    if arguments.action != "consume":
        arguments.acks = _ACKS[arguments.acks]
        arguments.compression = _COMPRESSIONS.index(arguments.compression)
    return run_on_cluster(arguments, getattr(import_module("kwire.cli.bench.measuring"), f"bench_{arguments.action}"))

"""``kwire txn list|describe|abort|find-hanging|abort-hanging``: transactions of a running cluster.

kwire txn list --state ongoing
kwire txn describe payments-1
kwire txn abort payments-1
kwire txn find-hanging orders
kwire txn abort-hanging orders:0 --start-offset 17
"""

from __future__ import annotations

import argparse
from typing import Final

from kwire.cli import actions
from kwire.cli.connection import options as connection

ACTIONS: Final = {
    "list": ("list transactional ids with their states", "actions.list_transactions"),
    "describe": ("show transactions and their partitions", "actions.describe"),
    "abort": ("abort the open transaction of a transactional id, and fence its producer", "actions.abort"),
    "find-hanging": ("find transactions in partitions that no coordinator will end", "hanging.find_hanging"),
    "abort-hanging": ("abort a transaction in one partition, whatever its coordinator knows", "hanging.abort_hanging"),
}
OPEN_FOR_S: Final = 900.0
STATES: Final = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire txn``."""
    parsers = actions.add_parsers(parser, ACTIONS)
    states = ", ".join(STATES)
    parsers["list"].add_argument("--state", action="append", default=[], type=_state, metavar="STATE", help=states)
    find, hanging = parsers["find-hanging"], parsers["abort-hanging"]
    find.add_argument("topics", metavar="TOPIC", nargs="*", type=actions.partitions, help="TOPIC or TOPIC:0,1,2")
    find.add_argument(
        "--open-for",
        type=connection.seconds,
        default=OPEN_FOR_S,
        metavar="SECONDS",
        help="only those without a record for so long: transaction.max.timeout.ms of the brokers (default: 900)",
    )
    hanging.add_argument("partition", metavar="TOPIC:PARTITION", type=actions.partitions, help="where it hangs")
    hanging.add_argument(
        "--start-offset", required=True, type=_offset, metavar="N", help="where it begins, as find-hanging shows it"
    )
    for name in ("describe", "abort"):
        parsers[name].add_argument("ids", metavar="TRANSACTIONAL-ID", nargs="+", help="transactional.id of a producer")


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    return actions.run_action(arguments, ACTIONS, "kwire.cli.transactions")


def _offset(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is no offset")
    return int(text)


def _state(text: str) -> str:
    for name in STATES:
        if text.lower().replace("-", "") == name.lower():
            return name
    raise argparse.ArgumentTypeError(f"{text!r} is no state: {', '.join(STATES)}")

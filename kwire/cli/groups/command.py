"""``kwire group list|describe|lag|seek|delete|delete-offsets``: groups of a running cluster.

kwire group list --state stable
kwire group lag billing -o json
kwire group seek billing --to "10 minutes ago" --execute
kwire group delete billing
"""

from __future__ import annotations

import argparse
from typing import Final

from kwire.cli import actions

ACTIONS: Final = {
    "list": ("list groups of all types", "listing.list_all"),
    "describe": ("show state and members of groups", "listing.describe"),
    "lag": ("show committed and end offsets", "lag.show_lag"),
    "seek": ("commit other offsets for a group without members", "seeking.seek"),
    "delete": ("delete groups without members", "deletion.delete"),
    "delete-offsets": ("delete committed offsets of topics", "deletion.delete_offsets"),
}
STATES: Final = ("preparing-rebalance", "completing-rebalance", "stable", "empty", "dead", "assigning", "reconciling")
TYPES: Final = ("classic", "consumer", "share", "streams")
_TO: Final = (
    "earliest, latest, an offset, -N (N before the end), a time (2026-11-23T10:00, @MILLISECONDS), '10 minutes ago'"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire group``."""
    parsers = actions.add_parsers(parser, ACTIONS)
    listed, seek, offsets = parsers["list"], parsers["seek"], parsers["delete-offsets"]
    listed.add_argument("--state", action="append", default=[], type=_state, metavar="STATE", help=", ".join(STATES))
    listed.add_argument("--type", action="append", default=[], choices=TYPES, metavar="TYPE", help=", ".join(TYPES))
    for name in ("describe", "delete"):
        parsers[name].add_argument("groups", metavar="GROUP", nargs="+", help="the id of a group")
    parsers["delete"].add_argument("--if-exists", action="store_true", help="a group that does not exist is no failure")
    for each in (parsers["lag"], seek, offsets):
        each.add_argument("group", metavar="GROUP", help="the id of a consumer group")
    seek.add_argument("--to", required=True, type=actions.position, metavar="POSITION", help=_TO)
    seek.add_argument("--execute", action="store_true", help="do it; otherwise it is only shown")
    for each, default in ((seek, " (default: all that is committed)"), (offsets, "")):
        each.add_argument(
            "--topic",
            action="append",
            default=[],
            required=each is offsets,
            type=actions.partitions,
            metavar="TOPIC",
            help=f"TOPIC or TOPIC:0,1,2; may be given more than once{default}",
        )


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    return actions.run_action(arguments, ACTIONS, "kwire.cli.groups")


def _state(text: str) -> str:
    """A state by Kafka's name, in any case, with or without hyphens."""
    for name in STATES:
        if text.lower().replace("-", "") == name.replace("-", ""):
            return "".join(word.capitalize() for word in name.split("-"))
    raise argparse.ArgumentTypeError(f"{text!r} is no state: {', '.join(STATES)}")

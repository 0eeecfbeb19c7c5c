"""``kwire log dump`` and ``kwire log verify``: what ``kwire dump-log`` and ``kwire verify-log`` do."""

from __future__ import annotations

import argparse

from kwire.cli import dump_log, verify_log

ACTIONS = {
    "dump": ("print the contents of segments, indexes, snapshots and checkpoints", dump_log),
    "verify": ("check a data directory that no broker is using", verify_log),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire log``."""
    group = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (text, module) in ACTIONS.items():
        module.add_arguments(group.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}."))


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    status: int = ACTIONS[arguments.action][1].run(arguments)
    return status

"""What commands with a noun and a verb have in common: a parser for each action, and the functions behind them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib import import_module

from kwire.cli import connection, output

Actions = Mapping[str, tuple[str, str]]
"""Action -> what it does, and where: ``module.function`` in the command's package."""


def add_parsers(parser: argparse.ArgumentParser, actions: Actions) -> dict[str, argparse.ArgumentParser]:
    """A parser for each action, with the options of the connection and the output."""
    group = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    parsers = {}
    for name, (text, _) in actions.items():
        made = parsers[name] = group.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        output.add_arguments(made)
        connection.add_arguments(made)
    return parsers


def run_action(arguments: argparse.Namespace, actions: Actions, package: str) -> int:
    """Run the action that was chosen; the exit status."""
    from kwire.cli.connection.running import run

    module, function = actions[arguments.action][1].split(".")
    return run(arguments, getattr(import_module(f"{package}.{module}"), function))


def assignment(text: str) -> tuple[str, str]:
    """``NAME=VALUE`` of a command line."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value


def positive(text: str) -> int:
    """A positive number of a command line."""
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def partitions(text: str) -> tuple[str, list[int]]:
    """``TOPIC`` (all partitions: an empty list) or ``TOPIC:0,1,2`` of a command line."""
    name, _, indexes = text.partition(":")
    words = [word for word in indexes.split(",") if word]
    if not name or not all(word.isdecimal() and len(word) < 10 for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not TOPIC or TOPIC:0,1,2")
    return name, [int(word) for word in words]


def position(text: str):  # type: ignore[no-untyped-def]
    """A `Position` of a command line."""
    import time

    from kwire.cli.positions import parse_position

    try:
        return parse_position(text, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None

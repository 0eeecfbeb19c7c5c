"""The ``kwire`` command. One module per subcommand, imported when it is used: `COMMANDS` is the whole list.

A command module has ``add_arguments(parser)`` and ``run(arguments) -> exit status``. Status 0: done; 1: it failed, and
one line on standard error says why; 2: the command line is wrong.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

COMMANDS: Final = {
    "start": "start a broker and serve until SIGTERM or SIGINT",
    "cluster": "show a cluster's brokers, controller, under-replicated and offline partitions; unregister a broker",
    "user": "add, delete and list users who log in with SCRAM",
    "acl": "add, remove and list access control entries",
    "quota": "add, remove and list quotas of clients",
    "zookeeper": "protect what a cluster has in ZooKeeper",
    "ping": "check whether a Kafka broker responds",
    "adopt": "adopt a data directory written by Apache Kafka",
    "dump-log": "print the contents of segments, indexes, snapshots and checkpoints",
    "verify-log": "check a data directory that no broker is using",
}
"""Subcommand -> what it does; its module is `kwire.cli.<name>`, with ``_`` for ``-``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the process's exit status."""
    if sys.platform == "win32":
        print("kwire: Windows is not supported: kwire needs Linux (or macOS for development)", file=sys.stderr)
        return 1
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser, commands = _parser(arguments)
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:  # with the usage of the command, not of kwire
        commands.get(parsed.command, parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    if parsed.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        status: int = _module(parsed.command).run(parsed)
        if parsed.command == "start":  # `start` itself reports that its ready line cannot be written
            return status
        return _flushed(status)
    except BrokenPipeError:  # the reader has closed the pipe (`kwire cluster status | head`)
        _forget_output()
        return 0


def _flushed(status: int) -> int:
    """Flush standard output; the status, or that of a failure."""
    try:
        print(end="", flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        _forget_output()
        return fail(f"standard output: {error.strerror}")
    return status


def _forget_output() -> None:
    """Send standard output to /dev/null, for what the interpreter flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _module(command: str):  # type: ignore[no-untyped-def]
    return import_module(f"kwire.cli.{command.replace('-', '_')}")


def _parser(arguments: Sequence[str]) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and those of the commands by name."""
    import argparse

    from kwire import __version__

    style = partial(argparse.HelpFormatter, width=_help_width())
    parser = argparse.ArgumentParser(prog="kwire", description="A Kafka broker in Python.", formatter_class=style)
    parser.add_argument("--version", action="version", version=f"kwire {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        description = summary[0].upper() + summary[1:] + "."
        subparser = subparsers.add_parser(name, help=summary, description=description, formatter_class=style)
        if name in arguments:  # only the command in use is loaded
            _module(name).add_arguments(subparser)
    return parser, subparsers.choices


def _help_width() -> int:
    """The columns for help, as argparse chooses them. By itself it would import shutil for that, which takes 3 ms."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns) - 2
    try:
        return (os.get_terminal_size(1).columns or 80) - 2
    except OSError:  # standard output is no terminal
        return 78


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns below their headings; nothing if there are no rows."""
    table = [headings, *rows] if rows else []
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())


def fail_with_file(error: OSError) -> int:
    """`fail`, with the file's name if the failure is about one."""
    return fail(f"{error.filename}: {error.strerror}" if error.filename else error)


def fail(reason: object) -> int:
    """Say in one line why a command failed; its exit status."""
    print("kwire: " + " ".join(str(reason).split()), file=sys.stderr)
    return 1

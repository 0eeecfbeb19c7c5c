"""The ``kwire`` command. One module per subcommand, imported when it is used: `COMMANDS` is the whole list.

A command module has ``add_arguments(parser)`` and ``run(arguments) -> exit status``. Status 0: done; 1: it failed, and
one line on standard error says why; 2: the command line is wrong.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kwire.base.extras import missing_for_command

if TYPE_CHECKING:
    import argparse

COMMANDS: Final = {
    "start": "start a broker and serve until SIGTERM or SIGINT",
    "topic": "list, create, describe, alter, trim and delete topics",
    "produce": "write records from standard input or files",
    "consume": "read records",
    "group": "list and describe groups, show their lag, commit other offsets, delete them",
    "config": "show and change configurations of topics, brokers, groups and client metrics",
    "audit": "compare the two ends of a pipeline: topics, clusters, tables; follow producers' sequences",
    "txn": "list, describe and abort transactions",
    "sql": "query topics as tables",
    "bench": "measure how fast a topic is written and read",
    "console": "serve a web page that shows clusters: topics, messages, groups, brokers",
    "archive": "keep a topic's records in a Delta, Iceberg or Parquet table",
    "restore": "write the records of an archive to a topic",
    "backup": "back up a data directory to object storage or a folder, list backups, restore one",
    "registry": "serve schemas over HTTP, as Confluent's registry does",
    "schema": "list, show, register, check and delete schemas of a registry",
    "cluster": "show a cluster's brokers, controller, under-replicated and offline partitions; unregister a broker",
    "user": "add, delete and list users who log in with SCRAM",
    "acl": "add, remove and list access control entries",
    "quota": "add, remove and list quotas of clients",
    "profile": "name settings of connections",
    "log": "dump or verify files of a data directory",
    "completion": "print a script that completes commands in a shell",
    "zookeeper": "protect what a cluster has in ZooKeeper",
    "ping": "check whether a Kafka broker responds",
    "adopt": "adopt a data directory written by Apache Kafka",
    "dump-log": "print the contents of segments, indexes, snapshots and checkpoints",
    "verify-log": "check a data directory that no broker is using",
}
"""Subcommand -> what it does; its module is `kwire.cli.<name>`, with ``_`` for ``-``, or that in `_MODULES`."""
INTERRUPTED: Final = 128 + 2  # as shells have it for SIGINT
_OF_OUTPUT: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a write to standard output. Commands report those of files that they write themselves."""
_MODULES: Final = {
    "topic": "topics.command",
    "produce": "records.produce",
    "consume": "records.consume",
    "bench": "bench.command",
    "group": "groups.command",
    "config": "configs.command",
    "txn": "transactions.command",
    "profile": "profiles.command",
    "log": "logs.command",
    "completion": "completions.command",
    "schema": "schemas.command",
}
_ABOVE: Final = {
    "archive": "kwire.archive.command",
    "audit": "kwire.audit.command",
    "backup": "kwire.archive.backup.command",
    "restore": "kwire.archive.restore_command",
    "console": "kwire.console.command",
    "registry": "kwire.registry.command",
    "sql": "kwire.sql.command",
}
"""Commands whose packages lie above this one, from which they are reached by these names only."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the process's exit status."""
    if sys.platform == "win32":
        print("kwire: Windows is not supported: kwire needs Linux (or macOS for development)", file=sys.stderr)
        return 1
    if sys.stdout is None:  # closed (`>&-`): the next file or socket would be descriptor 1, and get what is printed
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:2] == ["__complete", "--"]:
        return int(import_module("kwire.cli.completions.command").complete(arguments[2:]))
    parsed = parse(arguments)
    if parsed.command is None:
        _parser(arguments)[0].print_help(sys.stderr)
        return 2
    if (reason := missing_for_command(parsed.command)) is not None:
        return fail(reason)
    try:
        status: int = _module(parsed.command).run(parsed)
        if parsed.command == "start":  # `start` itself reports that its ready line cannot be written
            return status
        return _flushed(status)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe (`kwire cluster status | head`)
        _forget_output()
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_OUTPUT:
            raise
        _forget_output()
        return fail(f"standard output: {error.strerror}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line; SystemExit for those that are wrong."""
    parser, commands = _parser(arguments)
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown and not _takes(parsed, unknown):  # with the usage of the action, not of kwire
        used = _of_action(commands.get(parsed.command, parser), getattr(parsed, "action", None))
        used.error(f"unrecognized arguments: {' '.join(unknown)}")
    return parsed


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
    if command in _ABOVE:
        return import_module(_ABOVE[command])
    name = _MODULES.get(command) or command.replace("-", "_")
    return import_module(f"kwire.cli.{name}")


def _parser(arguments: Sequence[str]) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and those of the commands by name."""
    import argparse

    from kwire import __version__
    from kwire.cli.parser import Parser

    style = partial(argparse.HelpFormatter, width=_help_width())
    parser = Parser(prog="kwire", description="A Kafka broker in Python.", formatter_class=style)
    parser.add_argument("--version", action="version", version=f"kwire {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, summary in COMMANDS.items():
        description = summary[0].upper() + summary[1:] + "."
        subparser = subparsers.add_parser(name, help=summary, description=description, formatter_class=style)
        if name in arguments:  # only the command in use is loaded
            _module(name).add_arguments(subparser)
    return parser, subparsers.choices


def _takes(parsed: argparse.Namespace, words: list[str]) -> bool:
    """Give a command the words behind its options (``produce TOPIC --key k FILE``), which argparse takes only before
    them; whether it wants them. ``words_as`` is the argument that they belong to."""
    name = getattr(parsed, "words_as", None)
    if name is None or any(word.startswith("-") and word != "-" for word in words):
        return False
    setattr(parsed, name, [*getattr(parsed, name), *words])
    return True


def _of_action(parser: argparse.ArgumentParser, action: object) -> argparse.ArgumentParser:
    """The parser of a command's action, or of the command if it has no actions."""
    for each in parser._actions:
        if each.dest == "action" and isinstance(each.choices, dict):
            return each.choices.get(action, parser)  # type: ignore[no-any-return]
    return parser


def command_parser(command: str) -> argparse.ArgumentParser:
    """The parser of one command, with its arguments."""
    return _parser([command])[1][command]


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


def fail(reason: object, status: int = 1) -> int:
    """Say in one line why a command failed; its exit status. One of several brokers says which it is."""
    broker = os.environ.get("KWIRE_LOG_BROKER")
    print("kwire: " + (f"broker {broker}: " if broker else "") + " ".join(str(reason).split()), file=sys.stderr)
    return status

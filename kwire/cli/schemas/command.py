"""``kwire schema list|show|register|check|delete``: schemas of a registry.

kwire schema list
kwire schema show orders-value --text
kwire schema check orders-value order.avsc
kwire schema register orders-value order.avsc
kwire schema delete orders-value --version 1
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any, Final

from kwire.cli import fail, output
from kwire.cli.connection import options
from kwire.cli.connection.errors import CommandError

ACTIONS: Final = {
    "list": ("list subjects with their latest versions", "list_subjects"),
    "show": ("show a version of a subject, or the schema of an id", "show"),
    "register": ("add a version to a subject", "register"),
    "check": ("check whether a schema is compatible with a subject's latest version", "check"),
    "delete": ("delete a subject, or one version of it", "delete"),
}
TYPES: Final = ("AVRO", "JSON", "PROTOBUF")
_SUFFIXES: Final = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire schema``."""
    group = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    parsers = {name: _add_action(group, name, text) for name, (text, _) in ACTIONS.items()}
    parsers["list"].add_argument("--deleted", action="store_true", help="also those that are deleted, but not for good")
    show = parsers["show"]
    show.add_argument("subject", metavar="SUBJECT", nargs="?", help="such as orders-value")
    show.add_argument("--id", type=_number, metavar="ID", help="the schema with this id, instead of a subject's")
    show.add_argument("--version", type=_version, default="latest", metavar="N", help="which one (default: latest)")
    show.add_argument("--text", action="store_true", help="print the schema alone")
    for name in ("register", "check"):
        _add_schema(parsers[name])
    delete = parsers["delete"]
    delete.add_argument("subject", metavar="SUBJECT", help="such as orders-value")
    delete.add_argument("--version", type=_version, metavar="N", help="only this version")
    delete.add_argument("--permanent", action="store_true", help="for good, after it was deleted without this option")


def run(arguments: argparse.Namespace) -> int:
    """Run the action; the exit status."""
    actions = import_module("kwire.cli.schemas.actions")
    try:
        status: int = getattr(actions, ACTIONS[arguments.action][1])(arguments)
    except CommandError as error:
        return fail(error)
    return status


def _add_action(group: Any, name: str, text: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = group.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    output.add_arguments(made)
    connection = made.add_argument_group("connection")
    connection.add_argument(
        "--registry",
        metavar="URL",
        help="the registry; also schema.registry.url as a property (default: http://localhost:8081)",
    )
    connection.add_argument("--profile", metavar="NAME", help="settings of `kwire profile` to use")
    options.add_client_arguments(connection)
    made.set_defaults(bootstrap_server=None)
    return made


def _add_schema(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", metavar="SUBJECT", help="such as orders-value")
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the schema (default: standard input)")
    kinds = ", ".join(f"{kind} for {suffix}" for suffix, kind in _SUFFIXES.items())
    parser.add_argument("--type", choices=TYPES, help=f"by default the file's ending says it ({kinds}), else AVRO")
    parser.add_argument(
        "--reference",
        action="append",
        default=[],
        type=_reference,
        metavar="NAME=SUBJECT:VERSION",
        help="a schema that this one uses; may be given more than once",
    )


def type_of(arguments: argparse.Namespace) -> str:
    """The type of the schema of a command line."""
    found: str | None = arguments.type
    if found is not None:
        return found
    return next((kind for suffix, kind in _SUFFIXES.items() if arguments.file.endswith(suffix)), "AVRO")


def _number(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _version(text: str) -> str:
    return text if text == "latest" else str(_number(text))


def _reference(text: str) -> dict[str, Any]:
    name, equals, place = text.partition("=")
    subject, colon, version = place.rpartition(":")
    if not (name and equals and subject and colon and version.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=SUBJECT:VERSION")
    return {"name": name, "subject": subject, "version": int(version)}

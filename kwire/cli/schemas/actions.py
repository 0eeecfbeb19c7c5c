"""The actions of ``kwire schema``. Each returns an exit status, and raises `CommandError`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from kwire.cli import output
from kwire.cli.connection import options
from kwire.cli.connection.errors import CommandError
from kwire.cli.schemas.client import RegistryClient
from kwire.cli.schemas.command import type_of
from kwire.cli.schemas.rows import CheckedSchema, DeletedVersion, RegisteredSchema, ShownSchema, SubjectRow

_DELETED: Final = "deleted=true"


def list_subjects(arguments: argparse.Namespace) -> int:
    """List subjects."""
    query = "latestOnly=true" + (f"&{_DELETED}" if arguments.deleted else "")
    found = _client(arguments).get("schemas", query=query)
    rows = [SubjectRow(each["subject"], each["version"], each["id"], each.get("schemaType", "AVRO")) for each in found]
    output.show(sorted(rows), arguments.output)
    return 0


def show(arguments: argparse.Namespace) -> int:
    """Show a schema."""
    if (arguments.subject is None) == (arguments.id is None):
        raise CommandError("a SUBJECT or an --id is needed, not both")
    client = _client(arguments)
    if arguments.id is not None:
        found = ShownSchema.of(client.get("schemas", "ids", str(arguments.id)), arguments.id)
    else:
        found = ShownSchema.of(client.get("subjects", arguments.subject, "versions", arguments.version))
    if arguments.text:
        print(found.schema)
    else:
        output.show_one(found, arguments.output)
    return 0


def register(arguments: argparse.Namespace) -> int:
    """Add a version to a subject, unless it has this schema."""
    client, body = _client(arguments), _body(arguments)
    id = client.post("subjects", arguments.subject, "versions", body=body)["id"]
    version = client.post("subjects", arguments.subject, body=body)["version"]
    row = RegisteredSchema(arguments.subject, version, id)
    if arguments.output == "table":
        print(f"{row.subject}: version {row.version}, id {row.id}")
    else:
        output.show_one(row, arguments.output)
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Check a schema; the exit status is 1 if it may not follow."""
    client = _client(arguments)
    path = ("compatibility", "subjects", arguments.subject, "versions", "latest")
    found = client.post(*path, body=_body(arguments), query="verbose=true")
    row = CheckedSchema(arguments.subject, bool(found["is_compatible"]), list(found.get("messages") or ()))
    if arguments.output != "table":
        output.show_one(row, arguments.output)
    elif row.compatible:
        print(f"{row.subject}: compatible")
    else:
        print(f"{row.subject}: not compatible", *row.reasons, sep="\n  ")
    return 0 if row.compatible else 1


def delete(arguments: argparse.Namespace) -> int:
    """Delete a subject or a version."""
    client = _client(arguments)
    query = "permanent=true" if arguments.permanent else ""
    path = ["subjects", arguments.subject, *(() if arguments.version is None else ("versions", arguments.version))]
    found = client.delete(*path, query=query)
    versions = found if isinstance(found, list) else [found]
    rows = [DeletedVersion(arguments.subject, each, arguments.permanent) for each in versions]
    output.show(rows, arguments.output)
    return 0


def _client(arguments: argparse.Namespace) -> RegistryClient:
    chosen = options.settings(arguments)
    return RegistryClient(arguments.registry, chosen.properties, chosen.timeout_s)


def _body(arguments: argparse.Namespace) -> dict[str, Any]:
    try:
        data = sys.stdin.buffer.read() if arguments.file == "-" else Path(arguments.file).read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise CommandError(f"{arguments.file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{arguments.file}: it is no UTF-8") from None
    body: dict[str, Any] = {"schema": text, "schemaType": type_of(arguments)}
    if arguments.reference:
        body["references"] = arguments.reference
    return body

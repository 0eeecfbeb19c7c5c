"""Write `docs/command_line.schema.json`: the JSON of each command, by JSON Schema.

    .venv/bin/python -m tools.command_schemas            rewrites it
    .venv/bin/python -m tools.command_schemas --check    changes nothing; the exit status is 1 if it is out of date

The schemas are made of the types of the rows that commands print.
"""

from __future__ import annotations

import argparse
import json
import sys
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from harness.paths import ROOT
from kwire.archive.backup.command import BackupRow
from kwire.archive.backup.creating import Created
from kwire.archive.backup.restoring import RestoredDirectory
from kwire.archive.command import Archived
from kwire.archive.restoring.restore import Restored
from kwire.audit.rows import AuditRow
from kwire.cli.acl import AclRow
from kwire.cli.adopt import AdoptedRow
from kwire.cli.bench.measuring import EndToEnd, Throughput
from kwire.cli.cluster import ClusterStatus, UnregisteredBroker
from kwire.cli.configs.actions import ChangedConfig, ResourceRow
from kwire.cli.configs.requests import ConfigRow
from kwire.cli.groups.deletion import DeletedGroup, DeletedOffset
from kwire.cli.groups.description import DescribedGroup, GroupRow
from kwire.cli.groups.lag import LagRow
from kwire.cli.groups.seeking import SeekRow
from kwire.cli.ping import PingRow
from kwire.cli.profiles.command import DeletedProfile, ProfileRow, UsedProfile
from kwire.cli.quota import QuotaRow
from kwire.cli.records.producing import Written
from kwire.cli.schemas.rows import CheckedSchema, DeletedVersion, RegisteredSchema, ShownSchema, SubjectRow
from kwire.cli.topics.rows import AlteredTopic, DeletedTopic, DescribedTopic, TopicRow, TrimmedPartition
from kwire.cli.transactions.actions import AbortedTransaction, DescribedTransaction, TransactionRow
from kwire.cli.transactions.hanging import OpenTransaction
from kwire.cli.user import DeletedUser, UserRow
from kwire.cli.verify_log import VerifiedDirectory
from kwire.cli.zookeeper import ProtectedNodes
from kwire.log.verification.offline import Finding

FILE: Final = ROOT / "docs" / "command_line.schema.json"
LISTS: Final[dict[str, type]] = {
    "acl add": AclRow,
    "acl list": AclRow,
    "acl remove": AclRow,
    "audit": AuditRow,
    "backup list": BackupRow,
    "config get": ConfigRow,
    "config list": ResourceRow,
    "config set": ChangedConfig,
    "config unset": ChangedConfig,
    "group delete": DeletedGroup,
    "group delete-offsets": DeletedOffset,
    "group describe": DescribedGroup,
    "group lag": LagRow,
    "group list": GroupRow,
    "group seek": SeekRow,
    "profile list": ProfileRow,
    "quota add": QuotaRow,
    "quota list": QuotaRow,
    "quota remove": QuotaRow,
    "schema delete": DeletedVersion,
    "schema list": SubjectRow,
    "topic alter": AlteredTopic,
    "topic create": TopicRow,
    "topic delete": DeletedTopic,
    "topic describe": DescribedTopic,
    "topic list": TopicRow,
    "topic trim": TrimmedPartition,
    "txn abort": AbortedTransaction,
    "txn abort-hanging": OpenTransaction,
    "txn describe": DescribedTransaction,
    "txn find-hanging": OpenTransaction,
    "txn list": TransactionRow,
    "user add": UserRow,
    "user delete": DeletedUser,
    "user list": UserRow,
}
"""Commands that print an array, and their rows."""
OBJECTS: Final[dict[str, type]] = {
    "adopt": AdoptedRow,
    "archive": Archived,
    "backup create": Created,
    "backup restore": RestoredDirectory,
    "bench consume": Throughput,
    "bench latency": EndToEnd,
    "bench produce": Throughput,
    "cluster status": ClusterStatus,
    "cluster unregister": UnregisteredBroker,
    "ping": PingRow,
    "produce": Written,
    "profile delete": DeletedProfile,
    "profile set": ProfileRow,
    "profile use": UsedProfile,
    "restore": Restored,
    "schema check": CheckedSchema,
    "schema register": RegisteredSchema,
    "schema show": ShownSchema,
    "zookeeper protect": ProtectedNodes,
}
"""Commands that print one object."""
_CONTENT: Final = {
    "anyOf": [
        {"type": "string"},
        {"type": "null"},
        {
            "type": "object",
            "properties": {"base64": {"type": "string"}},
            "required": ["base64"],
            "additionalProperties": False,
        },
    ]
}
"""Keys, values and values of headers: bytes that are not UTF-8 are in base64."""
_SIMPLE: Final = {int: "integer", str: "string", bool: "boolean", float: "number", NoneType: "null"}


def schema(kind: Any) -> dict[str, Any]:
    """The schema of a type."""
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if get_origin(kind) in (Union, UnionType):
        return {"anyOf": [schema(each) for each in get_args(kind)]}
    if get_origin(kind) is list:
        return {"type": "array", "items": schema(get_args(kind)[0])}
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": schema(get_args(kind)[1])}
    return _object({name: schema(each) for name, each in get_type_hints(kind).items()})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _record() -> dict[str, Any]:
    header = _object({"key": {"type": "string"}, "value": _CONTENT})
    simple = {"topic": str, "partition": int, "offset": int, "timestamp": int}
    fields = {name: schema(kind) for name, kind in simple.items()}
    return _object({**fields, "key": _CONTENT, "value": _CONTENT, "headers": {"type": "array", "items": header}})


def schemas() -> dict[str, Any]:
    """The schemas of all commands."""
    lists = {name: {"type": "array", "items": schema(row)} for name, row in LISTS.items()}
    objects = {name: schema(row) for name, row in OBJECTS.items()}
    anything = {"type": "object"}  # a query says which columns its rows have, a file what its lines are
    verified = {"anyOf": [schema(Finding), schema(VerifiedDirectory)]}
    others = {
        "consume": _record(),
        "dump-log": anything,
        "log dump": anything,
        "log verify": verified,
        "sql": anything,
        "verify-log": verified,
    }
    arrays = {name: {"type": "array", "items": items} for name, items in others.items()}
    return dict(sorted({**lists, **objects, **arrays}.items()))


def main() -> int:
    """Write or check the file."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    text = json.dumps(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": "by command", "$defs": schemas()},
        indent=2,
    )
    if arguments.check:
        return int(FILE.read_text(encoding="utf-8") != text + "\n")
    FILE.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

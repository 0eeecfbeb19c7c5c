"""Keys and values of the topic ``_schemas``, byte for byte as Confluent's registry writes them.

    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}
    {"subject":"orders-value","version":1,"id":7,"schema":"\\"string\\"","deleted":false}

The order of the fields of a key is part of it: compaction compares bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

SCHEMA, CONFIG, MODE, NOOP = "SCHEMA", "CONFIG", "MODE", "NOOP"
DELETE_SUBJECT, CLEAR_SUBJECT, CONTEXT = "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONTEXT"
_MAGIC: Final = {SCHEMA: 1}
_TENANT: Final = "default"


class Record(NamedTuple):
    """A record to write. ``value``: None for a tombstone."""

    key: bytes
    value: bytes | None


def schema_key(subject: str, version: int) -> bytes:
    """The key of a version."""
    return _bytes({"keytype": SCHEMA, "subject": subject, "version": version, "magic": 1})


def key(kind: str, subject: str | None) -> bytes:
    """The key of a configuration, a mode (None: for all subjects) or a deletion."""
    return _bytes({"keytype": kind, "subject": subject, "magic": _MAGIC.get(kind, 0)})


NOOP_KEY: Final = b'{"keytype":"NOOP","magic":0}'


def context_key(context: str) -> bytes:
    """The key that names a context."""
    return _bytes({"keytype": CONTEXT, "tenant": _TENANT, "context": context, "magic": 0})


def context_value(context: str) -> bytes:
    """The value that names a context."""
    return _bytes({"tenant": _TENANT, "context": context})


def value(fields: Mapping[str, Any]) -> bytes:
    """A value."""
    return _bytes(fields)


def _bytes(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def parsed(data: bytes | None) -> dict[str, Any] | None:
    """The fields of a key or value; None if it is no object of JSON."""
    try:
        found = json.loads(data or b"")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None

"""Payloads of the wire format to values, and values to what JSON can have."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from kwire.schemas import wire
from kwire.schemas.json_text import compact
from kwire.schemas.schema import Schema

Lookup = Callable[[int], Schema]
"""Finds a schema by its id; it raises what it likes if there is none."""


def decode(payload: bytes, lookup: Lookup) -> Any:
    """The value of a payload. `DecodeError`, and what ``lookup`` raises."""
    schema_id, body = wire.split(payload)
    return lookup(schema_id).decode(body)


def decoded_text(payload: bytes, lookup: Lookup) -> str:
    """The value of a payload as JSON. `DecodeError`, and what ``lookup`` raises."""
    return compact(jsonable(decode(payload, lookup)))


def jsonable(value: Any) -> Any:
    """A decoded value as JSON can have it: bytes in Base64, times in ISO 8601, decimals and UUIDs as texts, numbers
    that JSON does not have as ``NaN``, ``Infinity`` and ``-Infinity`` in quotes."""
    if isinstance(value, dict):
        return {str(name): jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(each) for each in value]
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal) or type(value).__name__ == "UUID":
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value

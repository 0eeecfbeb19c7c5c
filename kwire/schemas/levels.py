"""The seven levels of compatibility, and what they ask of a schema that is to follow others.

A schema is compatible backward if it reads data of earlier ones, and forward if earlier ones read its data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kwire.schemas.schema import Incompatibility, Schema

NONE, BACKWARD, FORWARD, FULL = "NONE", "BACKWARD", "FORWARD", "FULL"
LEVELS: Final = (NONE, BACKWARD, "BACKWARD_TRANSITIVE", FORWARD, "FORWARD_TRANSITIVE", FULL, "FULL_TRANSITIVE")
DEFAULT_LEVEL: Final = BACKWARD
TYPE_CHANGED: Final = "SCHEMA_TYPE_CHANGED"


class Finding(NamedTuple):
    """Why a schema may not follow an earlier one. ``earlier``: its index in the sequence that was checked; ``forward``:
    whether the earlier one is the reader."""

    earlier: int
    forward: bool
    reason: Incompatibility


def check(level: str, schema: Schema, earlier: Sequence[Schema]) -> list[Finding]:
    """Why a schema may not follow ``earlier`` ones (oldest first) at a level; empty if it may. The latest one comes
    first, and the check ends with the first schema that forbids it. `SchemaError` beyond the limits."""
    if level == NONE or not earlier:
        return []
    direction, _, transitive = level.partition("_")
    for index in range(len(earlier) - 1, -1 if transitive else len(earlier) - 2, -1):
        found = [
            Finding(index, forward, reason)
            for forward in (False, True)
            if direction in (FULL, FORWARD if forward else BACKWARD)
            for reason in _reasons(schema, earlier[index], forward)
        ]
        if found:
            return found
    return []


def _reasons(schema: Schema, earlier: Schema, forward: bool) -> list[Incompatibility]:
    if schema.type != earlier.type:
        detail = f"the schema is of type {schema.type}, the earlier one of type {earlier.type}"
        return [Incompatibility(TYPE_CHANGED, "/", detail)]
    return earlier.incompatibilities(schema) if forward else schema.incompatibilities(earlier)

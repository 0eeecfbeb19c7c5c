"""The body of a request about a schema, and the version that a path names."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kwire.registry import failures
from kwire.registry.store.records import Record
from kwire.registry.store.versions import read_references
from kwire.schemas import AVRO, TYPES, Reference
from kwire.schemas.limits import REFERENCES_MAX, TEXT_CHARACTERS_MAX

LATEST: Final = -1
_VERSION_MAX: Final = 2**31 - 1


class Wanted(NamedTuple):
    """A schema that a request brings. ``id`` and ``version``: only for imports; ``fields``: the whole body."""

    text: str
    type: str
    references: tuple[Reference, ...]
    id: int | None
    version: int | None
    fields: dict[str, Any]


class Change(NamedTuple):
    """What a request changes. ``records``: written as one batch, none if there is nothing to do; ``answer``: what the
    client gets once they are."""

    records: list[Record]
    answer: Any


def wanted(body: Any) -> Wanted:
    """The schema of a body. `Refusal`."""
    if not isinstance(body, dict):
        raise failures.invalid_schema("The body has to be an object with the field schema")
    text = body.get("schema")
    if not isinstance(text, str) or not text.strip():
        raise failures.invalid_schema("Empty schema")
    if len(text) > TEXT_CHARACTERS_MAX:
        raise failures.too_large(f"The schema has {len(text)} characters; at most {TEXT_CHARACTERS_MAX} are allowed")
    kind = body.get("schemaType") or AVRO
    if not isinstance(kind, str) or kind.upper() not in TYPES:
        raise failures.invalid_schema(f"Invalid schema type {kind!s:.50}: only {', '.join(TYPES)} are known")
    references = read_references(body.get("references") or [])
    if references is None:
        raise failures.invalid_schema("Each reference needs a name, a subject and a version")
    if len(references) > REFERENCES_MAX:
        raise failures.invalid_schema(f"{len(references)} references; at most {REFERENCES_MAX} are allowed")
    for each in ("metadata", "ruleSet"):
        if not isinstance(body.get(each), dict | None):
            raise failures.invalid_field(each)
    id, version = _number(body.get("id"), -1), _number(body.get("version"), 0)
    return Wanted(text, kind.upper(), references, id, version, body)


def _number(value: Any, absent: int) -> int | None:
    """A number of a body; None if it is missing or stands for that."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= _VERSION_MAX:
        raise failures.invalid_schema(f"{value!s:.50} is no id or version")
    return None if value <= absent else value


def version_number(text: str) -> int:
    """The version that a path names; `LATEST` for the newest. `Refusal`."""
    if text in ("latest", "-1"):
        return LATEST
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:11]) <= _VERSION_MAX:
        raise failures.invalid_version(text[:100])
    return int(text)

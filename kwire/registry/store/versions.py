"""`Version`: one version of a subject, as a record of the topic has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kwire.schemas import AVRO, Reference

_SHOWN: Final = ("metadata", "ruleSet")

Identity = tuple[str, str, tuple[Reference, ...], str]
"""What makes two schemas the same one: type, text, references, and metadata with rules (as JSON)."""


class Version(NamedTuple):
    """A version. ``fields``: all fields of the record, those that are not understood as well."""

    subject: str
    version: int
    id: int
    type: str
    text: str
    references: tuple[Reference, ...]
    deleted: bool
    fields: Mapping[str, Any]

    @property
    def identity(self) -> Identity:
        """What makes it the same schema as another one."""
        return self.type, self.text, self.references, extras(self.fields)

    def shown(self) -> dict[str, Any]:
        """The version as the REST interface shows it."""
        found: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.id}
        return {**found, **shown_schema(self)}

    def as_deleted(self) -> dict[str, Any]:
        """The fields of the record that deletes it softly."""
        return {**self.fields, "deleted": True}


def shown_schema(version: Version) -> dict[str, Any]:
    """The schema alone: type and references only where they are not the default."""
    found: dict[str, Any] = {}
    if version.type != AVRO:
        found["schemaType"] = version.type
    if version.references:
        found["references"] = shown_references(version.references)
    found.update({name: version.fields[name] for name in _SHOWN if version.fields.get(name) is not None})
    found["schema"] = version.text
    return found


def shown_references(references: tuple[Reference, ...]) -> list[dict[str, Any]]:
    """References as JSON has them."""
    return [each._asdict() for each in references]


def extras(fields: Mapping[str, Any]) -> str:
    """Metadata and rules, which belong to a schema's identity; "" if there are none."""
    found = {name: fields[name] for name in _SHOWN if fields.get(name) is not None}
    return repr(sorted(found.items())) if found else ""


def read_version(fields: Mapping[str, Any]) -> Version | None:
    """The version of a record's value; None if it is none."""
    subject, version, id, text = (fields.get(name) for name in ("subject", "version", "id", "schema"))
    if not isinstance(subject, str) or not isinstance(version, int) or not isinstance(id, int):
        return None
    if not isinstance(text, str):
        return None
    references = read_references(fields.get("references") or [])
    if references is None:
        return None
    kind = fields.get("schemaType") or AVRO
    return Version(subject, version, id, str(kind), text, references, bool(fields.get("deleted")), dict(fields))


def read_references(value: Any) -> tuple[Reference, ...] | None:
    """The references of a piece of JSON; None if there are none in it."""
    if not isinstance(value, list):
        return None
    found = []
    for each in value:
        if not isinstance(each, dict):
            return None
        name, subject, version = each.get("name"), each.get("subject"), each.get("version")
        if not isinstance(name, str) or not isinstance(subject, str) or not isinstance(version, int):
            return None
        found.append(Reference(name, subject, version))
    return tuple(found)


def new_fields(version: Version) -> dict[str, Any]:
    """The fields of a new record, in Confluent's order."""
    found: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    if version.type != AVRO:
        found["schemaType"] = version.type
    if version.references:
        found["references"] = shown_references(version.references)
    found.update({name: version.fields[name] for name in _SHOWN if version.fields.get(name) is not None})
    return {**found, "schema": version.text, "deleted": version.deleted}

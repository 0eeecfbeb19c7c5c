"""What the actions print. Fields have the names of Confluent's JSON where it has them."""

from __future__ import annotations

from typing import Any, NamedTuple


class SubjectRow(NamedTuple):
    """The latest version of a subject. ``id``: of its schema, which other subjects may have as well."""

    subject: str
    version: int
    id: int
    type: str


class SchemaReference(NamedTuple):
    """Another schema that one uses, by the name that it has there."""

    name: str
    subject: str
    version: int


class ShownSchema(NamedTuple):
    """A schema. ``subject`` and ``version`` are null if it was asked for by its id."""

    subject: str | None
    version: int | None
    id: int
    type: str
    references: list[SchemaReference]
    schema: str

    @classmethod
    def of(cls, found: dict[str, Any], id: int | None = None) -> ShownSchema:
        """From a response of the registry."""
        return cls(
            found.get("subject"),
            found.get("version"),
            found["id"] if id is None else id,
            found.get("schemaType", "AVRO"),
            [SchemaReference(each["name"], each["subject"], each["version"]) for each in found.get("references", ())],
            found["schema"],
        )


class RegisteredSchema(NamedTuple):
    """A version that a subject has now."""

    subject: str
    version: int
    id: int


class CheckedSchema(NamedTuple):
    """Whether a schema may follow, and if not, why."""

    subject: str
    compatible: bool
    reasons: list[str]


class DeletedVersion(NamedTuple):
    """A version that is deleted. ``permanent``: for good."""

    subject: str
    version: int
    permanent: bool

"""The facts of a message class, parsed from its ``FIELDS`` text: the input of the codec's code generators."""

from __future__ import annotations

import sys
from typing import Any

from kwire.base.uuids import ZERO_UUID
from kwire.codec.message import Struct

LAST_VERSION = 32767
#: Type -> (format character of `struct`, size in bytes) of everything that has a fixed size.
FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
_EMPTY: dict[str, Any] = {"bool": False, "float64": 0.0, "string": "", "uuid": ZERO_UUID, "bytes": b"", "records": None}


_fields: dict[type[Any], tuple[Field, ...]] = {}


class Versions:
    """An inclusive range of versions, written as in Kafka's tables: ``3+``, ``0-2``, ``4``, ``none``."""

    __slots__ = ("first", "last")

    def __init__(self, text: str) -> None:
        first, plus, _ = text.partition("+")
        low, _, high = first.partition("-")
        if text == "none":
            self.first, self.last = 0, -1
        else:
            self.first, self.last = int(low), LAST_VERSION if plus else int(high or low)

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


class Field:
    """One field of a struct. ``struct`` is the class of its elements when they are structs."""

    __slots__ = (
        "array",
        "default",
        "element",
        "flexible",
        "ignorable",
        "name",
        "nullable",
        "struct",
        "tag",
        "tagged",
        "versions",
    )

    def __init__(self, owner: type[Struct], line: str) -> None:
        self.name, type_name, versions, *rest = line.split()
        facts = dict(fact.partition("=")[::2] for fact in rest)
        self.array = type_name.startswith("[]")
        self.element = type_name.removeprefix("[]")
        self.struct: type[Struct] | None = None
        if self.element[0].isupper():
            self.struct = getattr(sys.modules[owner.__module__], self.element)
        self.versions = Versions(versions)
        self.nullable = Versions(facts.get("nullable", "none"))
        tag, _, tagged = facts.get("tag", "-1@none").partition("@")
        self.tag, self.tagged = int(tag), Versions(tagged)
        self.flexible = Versions(facts["flexible"]) if "flexible" in facts else None
        self.ignorable = "ignorable" in facts
        self.default = self._default(facts.get("default"))

    def _default(self, text: str | None) -> Any:
        """The default as a Python value: an empty list stands for every array's, None also for null."""
        if text == "null":
            return None
        if self.array:
            return []
        if self.struct is not None:
            return self.struct
        if text is None:
            return _EMPTY.get(self.element, 0)
        return text == "true" if self.element == "bool" else int(text)

    def is_tagged(self, version: int, flexible: bool) -> bool:
        """Whether it is a tagged field in this version (KIP-482)."""
        return flexible and self.tag >= 0 and version in self.tagged

    def is_compact(self, version: int, flexible: bool) -> bool:
        """Whether its lengths are varints in this version."""
        return flexible and (self.flexible is None or version in self.flexible)


def fields_of(struct: type[Struct]) -> tuple[Field, ...]:
    """The fields of a struct in wire order, parsed at the first call."""
    fields = _fields.get(struct)
    if fields is None:
        fields = _fields[struct] = tuple(Field(struct, line) for line in struct.FIELDS.split("\n") if line)
    return fields


def layout(struct: type[Struct], version: int, flexible: bool) -> tuple[list[Field], list[Field], list[Field]]:
    """Fields of a struct in one version: (in wire order, tagged in order of tag, absent)."""
    plain, tagged, absent = [], [], []
    for field in fields_of(struct):
        if version not in field.versions:
            absent.append(field)
        elif field.is_tagged(version, flexible):
            tagged.append(field)
        else:
            plain.append(field)
    tagged.sort(key=lambda field: field.tag)
    return plain, tagged, absent


def min_size(struct: type[Struct], version: int, flexible: bool) -> int:
    """The fewest bytes one struct takes."""
    plain, _, _ = layout(struct, version, flexible)
    return sum(_min_field_size(field, version, flexible) for field in plain) + flexible


def min_element_size(field: Field, version: int, flexible: bool) -> int:
    """The fewest bytes one element of an array takes."""
    if field.struct is not None:
        return min_size(field.struct, version, flexible)
    if field.element in FIXED:
        return FIXED[field.element][1]
    return 1 if field.is_compact(version, flexible) else 2 if field.element == "string" else 4


def _min_field_size(field: Field, version: int, flexible: bool) -> int:
    if field.array:
        return 1 if field.is_compact(version, flexible) else 4
    if field.struct is not None and version in field.nullable:
        return 1
    return min_element_size(field, version, flexible)


def weight(field: Field) -> int:
    """What one element of an array costs the budget: 1, and 1 for each object and each four numbers that it holds.

    So the budget bounds time and memory of a decode, whatever the elements are: about half a microsecond and a
    hundred bytes for each unit.
    """
    return _struct_weight(field.struct) if field.struct is not None else 1


def _struct_weight(struct: type[Struct]) -> int:
    fields = fields_of(struct)
    inner = sum(_struct_weight(each.struct) for each in fields if each.struct is not None and not each.array)
    objects = sum(each.array or each.element in ("string", "bytes", "records", "uuid") for each in fields)
    return 1 + inner + objects + (len(fields) - objects) // 4


def holds_records(struct: type[Struct]) -> bool:
    """Whether a `records` field lies somewhere in it."""
    return any(
        field.element == "records" or (field.struct is not None and holds_records(field.struct))
        for field in fields_of(struct)
    )

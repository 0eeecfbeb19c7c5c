"""The types of an Avro union in a struct: their names, and which of them a decoded value has.

A decoded value shows its type by Python's type, and a named one by its name; int and long, and float and double, look
alike and are one field.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kwire.arrow.payloads.logical import logical
from kwire.arrow.payloads.shapes import NoShape
from kwire.schemas.avro.model import AvroType, Named, Union

_ALIKE: Final = {"int": "long", "float": "double"}
_KEYS: Final[dict[type, str]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    bytes: "bytes",
    str: "string",
    list: "array",
    dict: "map",
}


class Label(NamedTuple):
    """A field for a type of a union. ``key``: what `key_of` says of its values."""

    label: str
    key: str
    type: AvroType


def key(type: AvroType) -> str:
    """What `key_of` says of a type's values."""
    return type.full_name if isinstance(type, Named) else _ALIKE.get(type.kind, type.kind)


def key_of(value: Any) -> str:
    """Which type of a union a raw value has, which is not null."""
    return value[0] if type(value) is tuple else _KEYS[type(value)]


def labels(union: Union) -> list[Label]:
    """The types beside null. `NoShape` if values do not show which one they have."""
    found: dict[str, AvroType] = {}
    for each in union.branches:
        if each.kind == "null":
            continue
        if key(each) in found:
            other = found[key(each)]
            if logical(each) or logical(other):
                raise NoShape(f"a union has both {other.kind} and {each.kind}")
            each = each if each.kind in _ALIKE.values() else other
        found[key(each)] = each
    names = [_name(each) for each in found.values()]
    clear = len({each.lower() for each in names}) == len(names)
    return [
        Label(name if clear else own.replace(".", "_"), own, type)
        for name, (own, type) in zip(names, found.items(), strict=True)
    ]


def _name(type: AvroType) -> str:
    return type.name if isinstance(type, Named) else type.kind

"""Whether a default, as JSON has it, fits a type: what Java's ``Schema.isValidDefault`` accepts."""

from __future__ import annotations

from typing import Any, Final

from kwire.schemas.avro.model import NO_DEFAULT, AvroType, Collection, Enumeration, Record, Union

_INT: Final = (-(2**31), 2**31 - 1)
_LONG: Final = (-(2**63), 2**63 - 1)


def fits(type: AvroType, value: Any) -> bool:
    """Whether a value is one of a type. A default of a union has to fit any of its branches."""
    if isinstance(type, Union):
        return any(fits(each, value) for each in type.branches)
    if isinstance(type, Record):
        return isinstance(value, dict) and all(
            fits(each.type, value[each.name]) if each.name in value else each.default is not NO_DEFAULT
            for each in type.fields
        )
    if isinstance(type, Collection):
        if type.kind == "array":
            return isinstance(value, list) and all(fits(type.items, each) for each in value)
        return isinstance(value, dict) and all(fits(type.items, each) for each in value.values())
    if isinstance(type, Enumeration):
        return isinstance(value, str) and value in type.symbols
    return _fits_simple(type.kind, value)


def _fits_simple(kind: str, value: Any) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("string", "bytes", "fixed"):
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind in ("int", "long"):
        low, high = _INT if kind == "int" else _LONG
        return isinstance(value, int) and low <= value <= high
    return True

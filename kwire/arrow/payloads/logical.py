"""Avro's logical types: which one a type has, and raw values (numbers, bytes, strings) as Arrow takes them."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

from kwire.arrow.payloads.shapes import UUID_BYTES, Convert, uuid_bytes
from kwire.schemas.avro.model import AvroType, Fixed
from kwire.schemas.errors import DecodeError

_KINDS: Final = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
    "uuid": "string",
}
_ARROW_DIGITS_MAX: Final = 38
_DAY_US: Final = 86_400_000_000
_EXACT: Final = Context(prec=100_000)


class Logical(NamedTuple):
    """A logical type. ``precision`` and ``scale``: digits of a decimal, and those after its point."""

    name: str
    precision: int = 0
    scale: int = 0


def logical(type: AvroType) -> Logical | None:
    """The logical type; None for none, and for one that Avro's rules ignore because it does not belong there."""
    name = type.properties.get("logicalType")
    if name == "decimal" and type.kind in ("bytes", "fixed"):
        precision: Any = type.properties.get("precision")
        scale: Any = type.properties.get("scale", 0)
        return Logical(name, precision, scale) if _is_decimal(precision, scale) else None
    if name == "uuid" and isinstance(type, Fixed):
        return Logical(name) if type.size == UUID_BYTES else None
    return Logical(name) if isinstance(name, str) and _KINDS.get(name) == type.kind else None


def converted(type: AvroType) -> Convert | None:
    """What makes raw values of a type those of its logical type; None if they stay."""
    found = logical(type)
    if found is None:
        return None
    if found.name == "decimal":
        return _decimals(found)
    if found.name == "uuid":
        return uuid_bytes if type.kind == "string" else None
    if found.name.startswith("time-"):
        return _times(1000 if found.name == "time-millis" else 1)
    if found.name.endswith("-millis"):
        return _thousandfold
    return _thousandth if found.name.endswith("-nanos") else None


def _is_decimal(precision: Any, scale: Any) -> bool:
    digits = isinstance(precision, int) and isinstance(scale, int)
    return digits and not isinstance(precision, bool) and precision > 0 and 0 <= scale <= precision


def _decimals(type: Logical) -> Convert:
    def convert(unscaled: bytes) -> Any:
        number = Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-type.scale, _EXACT)
        return number if type.precision <= _ARROW_DIGITS_MAX else f"{number:f}"

    return convert


def _times(factor: int) -> Convert:
    def convert(number: int) -> int:
        if not 0 <= number * factor < _DAY_US:
            raise DecodeError(f"{number} is no time of a day")
        return number * factor

    return convert


def _thousandfold(number: int) -> int:
    return number * 1000


def _thousandth(number: int) -> int:
    return number // 1000

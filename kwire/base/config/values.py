"""Texts into typed values and back, by Kafka's rules (`ConfigDef`): types, limits, lists.

A definition is one row of `kwire.base.config.tables`: (name, type, default, importance, update mode, validator).
Validators are tuples whose first element says what they are:

- ``("range", lo, hi)`` numbers, ``None`` for no bound; ``("range_or", lo, hi, other)`` also takes one more value
- ``("in", choices)``, ``("in_any_case", choices)`` texts
- ``("list", choices or None, empty allowed, null allowed)`` lists; an entry given twice counts once
- ``("non_empty",)``, ``("throttled_replicas",)``, ``("share_offset_reset",)``
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from kwire.base.config.errors import ConfigError

Row = tuple[str, str, Any, str, str, tuple[Any, ...] | None]
"""One definition: name, type, default, importance, update mode, validator."""

_INTEGER = re.compile(r"[+-]?\d+")  # digits of any script, as in Java
_DOUBLE = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?|NaN|Infinity)")
_LIST_SEPARATOR = re.compile(r"\s*,\s*")
_INTEGER_BITS = {"SHORT": 15, "INT": 31, "LONG": 63}
_THROTTLED_REPLICAS = re.compile(r"(?:[0-9]+:[0-9]+)?")
_DURATION = re.compile(
    r"by_duration:([+-]?)P(?=.)(?:([+-]?[0-9]+)D)?(?:T(?=.)(?:([+-]?[0-9]+)H)?(?:([+-]?[0-9]+)M)?(?:([+-]?[0-9]+(?:\.[0-9]{0,9})?)S)?)?",
    re.IGNORECASE,
)
_SECONDS_OF_UNITS = (86_400, 3600, 60, 1)

# The numbers of DescribeConfigsResponse's ConfigType.
CONFIG_TYPE_CODES = {
    "BOOLEAN": 1,
    "STRING": 2,
    "INT": 3,
    "SHORT": 4,
    "LONG": 5,
    "DOUBLE": 6,
    "LIST": 7,
    "CLASS": 8,
    "PASSWORD": 9,
}
HIDDEN = "[hidden]"


def parse_value(row: Row, text: str | None, name: str | None = None) -> Any:
    """The typed value of a property's text, checked against its limits. Raises `ConfigError`.

    ``name`` is used in the error instead of the row's name (synonyms, listener prefixes).
    """
    try:
        value = None if text is None else _parse(row, text.strip())
        if row[5] is not None:
            if row[5][0] == "list" and value is not None:
                value = tuple(dict.fromkeys(value))
            _VALIDATORS[row[5][0]](value, *row[5][1:])
    except ValueError as error:
        shown = HIDDEN if row[1] == "PASSWORD" and text is not None else text
        raise ConfigError(name or row[0], shown, str(error)) from None
    return value


def _parse(row: Row, text: str) -> Any:
    if row[1] not in _INTEGER_BITS:
        return _PARSERS[row[1]](text)
    try:
        return _parse_integer(text, _INTEGER_BITS[row[1]])
    except ValueError:
        raise ValueError(_whole_numbers(row)) from None


def _whole_numbers(row: Row) -> str:
    """What a property of a whole number takes: the limits of its validator within those of its type."""
    limit = 1 << _INTEGER_BITS[row[1]]
    _, low, high, *other = row[5] if row[5] is not None and row[5][0] in ("range", "range_or") else ("", None, None)
    low, high = -limit if low is None else low, limit - 1 if high is None else high
    return f"must be a whole number between {low} and {high}" + (f", or {other[0]}" if other else "")


def format_value(kind: str, value: Any) -> str | None:
    """A typed value as Kafka prints it in DescribeConfigs (`ConfigDef.convertToString`)."""
    if value is None:
        return None
    if kind == "LIST":
        return ",".join(value)
    if kind == "BOOLEAN":
        return "true" if value else "false"
    if kind == "DOUBLE":
        return java_double(value)
    return str(value)


def java_double(value: float) -> str:
    """A float as `Double.toString` writes it: 0.5, 1.7976931348623157E308, 2.147483647E9."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    digits, _, exponent = f"{value!r}e".partition("e")
    if exponent in ("", "e"):  # repr used no exponent, Java does
        mantissa, _, power = f"{value:.17e}".partition("e")
        shortest = min((f"{value:.{n}e}" for n in range(18) if float(f"{value:.{n}e}") == value), key=len)
        mantissa, _, power = shortest.partition("e")
        digits, exponent = mantissa, power
    digits = digits if "." in digits else digits + ".0"
    return f"{digits}E{int(exponent.rstrip('e'))}"


def split_list(text: str) -> tuple[str, ...]:
    """Kafka's lists: separated by commas, blanks around them ignored; the empty text is the empty list."""
    return tuple(_LIST_SEPARATOR.split(text)) if text else ()


def _parse_boolean(text: str) -> bool:
    lower = text.lower()
    if lower not in ("true", "false"):
        raise ValueError("must be true or false")
    return lower == "true"


def _parse_integer(text: str, bits: int) -> int:
    # The length is looked at first: a text of a megabyte of digits must not cost quadratic time.
    if len(text) > 64 or not _INTEGER.fullmatch(text) or not -(1 << bits) <= (number := int(text)) < 1 << bits:
        raise ValueError
    return number


def _parse_double(text: str) -> float:
    if len(text) > 512 or not _DOUBLE.fullmatch(text):
        raise ValueError("must be a number")
    return float(text.rstrip("fFdD"))


_PARSERS: dict[str, Callable[[str], Any]] = {
    "BOOLEAN": _parse_boolean,
    "DOUBLE": _parse_double,
    "LIST": split_list,
    "STRING": str,
    "CLASS": str,
    "PASSWORD": str,
}


def _check_range(value: float | None, low: float | None, high: float | None) -> None:
    if value is None:
        raise ValueError("must not be null")
    if (low is not None and value < low) or (high is not None and value > high):
        if high is None:
            raise ValueError(f"must be at least {low}")
        raise ValueError(f"must be between {low} and {high}")


def _check_range_or(value: int | None, low: int, high: int, other: int) -> None:
    if value is None or not (low <= value <= high or value == other):
        raise ValueError(f"must be between {low} and {high}, or {other}")


def _check_choice(value: str | None, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError("must be one of " + ", ".join(choices))


def _check_choice_in_any_case(value: str | None, choices: tuple[str, ...]) -> None:
    if value is None or value.upper() not in choices:
        raise ValueError("must be one of " + ", ".join(choices) + " (in upper or lower case)")


def _check_list(value: tuple[str, ...] | None, choices: tuple[str, ...] | None, empty: bool, null: bool) -> None:
    if value is None:
        if not null:
            raise ValueError("must not be null")
        return
    if not value and not empty:
        raise ValueError("must not be empty")
    if any(not item for item in value):
        raise ValueError("must not have empty entries")
    if choices is not None and any(item not in choices for item in value):
        raise ValueError("must be a list of " + ", ".join(choices))


def _check_non_empty(value: str | None) -> None:
    if value == "":
        raise ValueError("must not be empty")


def _check_throttled_replicas(value: tuple[str, ...] | None) -> None:
    if value is None or "".join(value) == "*":
        return
    if not all(_THROTTLED_REPLICAS.fullmatch(item) for item in value):
        raise ValueError("must be * or a list of partition:broker")


def _check_share_offset_reset(value: str | None) -> None:
    if value not in ("earliest", "latest") and duration_s(value or "") is None:
        raise ValueError("must be earliest, latest or by_duration:PnDTnHnMn.nS")


def duration_s(text: str) -> float | None:
    """The seconds of ``by_duration:`` and an ISO 8601 duration that is not negative; None for another text."""
    match = _DURATION.fullmatch(text) if len(text) < 128 else None
    if match is None:
        return None
    seconds = sum(float(part or 0) * unit for part, unit in zip(match.groups()[1:], _SECONDS_OF_UNITS, strict=True))
    seconds = -seconds if match[1] == "-" else seconds
    return seconds if seconds >= 0 else None


_VALIDATORS: dict[str, Callable[..., None]] = {
    "range": _check_range,
    "range_or": _check_range_or,
    "in": _check_choice,
    "in_any_case": _check_choice_in_any_case,
    "list": _check_list,
    "non_empty": _check_non_empty,
    "throttled_replicas": _check_throttled_replicas,
    "share_offset_reset": _check_share_offset_reset,
}

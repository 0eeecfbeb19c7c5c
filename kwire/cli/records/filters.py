"""Filters of ``kwire consume``: by key, header and value, as regular expressions or by a path into JSON.

A filter is a function of one batch's columns; it returns the indexes of the records that pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from operator import ge, gt, le, lt
from typing import Any, Final, NamedTuple

from kwire.cli.records.columns import Columns

Filter = Callable[[Columns], Sequence[int]]
Finds = Callable[[bytes], object]
"""Whether something is found in content; it is if this is true."""

_STEP: Final = re.compile(r"\.([^.\[\]=!<>~\s]+)|\[(\d+|\*)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")
_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_LITERAL: Final = re.compile(r"(?:[1-9]\d*|-[1-9]\d*|[A-Za-z_][A-Za-z0-9_ ]*)", re.ASCII)
"""An operand that stands in a document as it is: a whole number, or words. ``Infinity`` may also be ``1e999``."""
_EXACT_MAX: Final = 2.0**53
_ROUNDED: Final = re.compile(r"[\[{]|-?\d[\d.]*e\+|-?\d{19}")
"""How an operand begins that may be a number of more than 64 bits, or the text of a rounded one: ``1e+20``."""
_OPERATORS: Final = ("!=", "<=", ">=", "=", "<", ">", "~")


def key_filter(pattern: str) -> Filter:
    """Records whose key a regular expression finds something in. ValueError."""
    return by_key(_compiled(pattern).search)


def by_key(finds: Finds) -> Filter:
    """Records in whose key something is found."""
    return lambda columns: [i for i, key in enumerate(columns.keys) if key is not None and finds(key)]


def value_filter(pattern: str) -> Filter:
    """Records whose value a regular expression finds something in. ValueError."""
    return by_value(_compiled(pattern).search)


def by_value(finds: Finds) -> Filter:
    """Records in whose value something is found."""
    return lambda columns: [i for i, value in enumerate(columns.values) if value is not None and finds(value)]


def header_filter(text: str) -> Filter:
    """Records with a header: ``NAME``, or ``NAME=REGEX`` for what its value must have. ValueError."""
    name, equals, pattern = text.partition("=")
    search = _compiled(pattern).search
    return by_header(name, search if equals else None)


def by_header(name: str, finds: Finds | None) -> Filter:
    """Records with a header of this name, in whose value something is found (None: whatever it is)."""

    def passes(headers: Sequence[tuple[str, bytes | None]]) -> bool:
        return any(
            each == name and (finds is None or (value is not None and bool(finds(value)))) for each, value in headers
        )

    return lambda columns: [index for index, headers in sorted(columns.headers.items()) if passes(headers)]


def _compiled(pattern: str) -> re.Pattern[bytes]:
    try:
        return re.compile(pattern.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


class _Condition(NamedTuple):
    """A path into JSON, and what one of the values there must be; without an operator, anything but null."""

    steps: tuple[str | int, ...]
    operator: str
    operand: str


def json_filter(text: str) -> Filter:
    """Records whose value is JSON that has something at a path: ``$.user.id``, ``$.items[0]``, ``$.items[*].price>10``,
    ``$.name=Ada``, ``name~^A`` (``$.`` may be left out). Comparisons by size are of numbers. ValueError."""
    condition = _condition(text)
    holds, words = _test(condition), _words(condition)
    loads = _loads(condition)

    def passes(value: bytes | None) -> bool:
        value = value or b"null"
        for word in words:
            if word not in value and b"\\" not in value and b"\0" not in value:
                return False  # nothing in it is escaped, or in UTF-16
        try:
            content = loads(value)
        except (ValueError, RecursionError):
            return False
        return any(map(holds, _found(content, condition.steps)))

    return lambda columns: [index for index, value in enumerate(columns.values) if passes(value)]


def _words(condition: _Condition) -> list[bytes]:
    """Bytes that every document that passes has, unless some are escaped: values without them are not parsed."""
    words = [json.dumps(each, ensure_ascii=False) for each in condition.steps if isinstance(each, str) and each != "*"]
    if condition.operator == "=" and condition.operand != "Infinity" and _LITERAL.fullmatch(condition.operand):
        words.append(condition.operand)
    return [word.encode("utf-8", "surrogatepass") for word in words if "\\" not in word]


def _loads(condition: _Condition) -> Callable[[bytes], Any]:
    """A parser for the condition: orjson where it is installed (it comes with the extra ``console``) and the outcome is
    the same. Documents that it does not take are those of Python's parser, which is more lenient."""
    if not _is_exact(condition):
        return json.loads
    try:
        import orjson
    except ImportError:
        return json.loads

    def loads(value: bytes) -> Any:
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return json.loads(value)

    return loads


def _is_exact(condition: _Condition) -> bool:
    """Whether whole numbers that orjson rounds, those of more than 64 bits, make no difference."""
    if condition.operator in _COMPARISONS:
        return abs(float(condition.operand)) < _EXACT_MAX
    return condition.operator in ("", "=", "!=") and not _ROUNDED.match(condition.operand)


def _condition(text: str) -> _Condition:
    if not text.startswith("$"):  # user.id is $.user.id, [0] is $[0]
        text = f"${text}" if text.startswith("[") else f"$.{text}"
    steps: list[str | int] = []
    position = 1
    while match := _STEP.match(text, position):
        name, index, *quoted = match.groups()
        if index is not None:
            steps.append("*" if index == "*" else int(index))
        else:
            steps.append(next(each for each in (name, *quoted) if each is not None))
        position = match.end()
    rest = text[position:].strip()
    operator = next((each for each in _OPERATORS if rest.startswith(each)), "")
    if rest and not operator:
        raise ValueError(f"{text!r} is not a path into JSON: {rest!r} is neither a step nor a comparison")
    return _Condition(tuple(steps), operator, rest[len(operator) :].strip())


def _test(condition: _Condition) -> Callable[[Any], bool]:
    operator, operand = condition.operator, condition.operand
    if not operator:
        return lambda found: found is not None
    if operator == "~":
        try:
            search = re.compile(operand).search
        except re.error as error:
            raise ValueError(f"{operand!r} is not a regular expression: {error}") from None
        return lambda found: search(_text(found)) is not None
    if operator == "=":
        return lambda found: _text(found) == operand
    if operator == "!=":
        return lambda found: _text(found) != operand
    return _comparison(operator, operand)


def _comparison(operator: str, operand: str) -> Callable[[Any], bool]:
    try:
        limit = float(operand)
    except ValueError:
        raise ValueError(f"{operator}{operand}: {operand!r} is not a number") from None
    compare = _COMPARISONS[operator]
    return lambda found: isinstance(found, int | float) and not isinstance(found, bool) and compare(found, limit)


def _text(found: Any) -> str:
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _found(content: Any, steps: Sequence[str | int]) -> list[Any]:
    """The values at a path; ``*`` is each element or each field."""
    contents = [content]
    for step in steps:
        following: list[Any] = []
        for each in contents:
            if isinstance(each, dict):
                following += each.values() if step == "*" else [each[step]] if step in each else []
            elif isinstance(each, list):
                following += each if step == "*" else each[step : step + 1] if isinstance(step, int) else []
        contents = following
    return contents

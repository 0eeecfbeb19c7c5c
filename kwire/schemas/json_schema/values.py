"""What changes of schemas of numbers, texts, enumerations and constants mean."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from kwire.schemas.json_schema.context import Context
from kwire.schemas.json_schema.kinds import CONST, ENUM, NUMBER, STRING
from kwire.schemas.json_text import compact

Words = Mapping[str, Any]


def compare(context: Context, kind: str, before: Words, after: Words) -> None:
    """Note the changes of a schema of one of these kinds; others (null, boolean) have none."""
    if kind == NUMBER:
        _compare_numbers(context, before, after)
    elif kind == STRING:
        for word, name in (("maxLength", "MAX_LENGTH"), ("minLength", "MIN_LENGTH")):
            compare_bound(context, word, name, before, after)
        _compare_pattern(context, before.get("pattern"), after.get("pattern"))
    elif kind == ENUM:
        _compare_enumerations(context, before, after)
    elif kind == CONST and before.get("const") != after.get("const"):
        context.add("CONST_VALUE_CHANGED", "const")


def compare_bound(context: Context, word: str, kind: str, before: Words, after: Words) -> None:
    """Note how an upper or lower bound has changed."""
    was, will = number(before.get(word)), number(after.get(word))
    if was == will:
        return
    if was is None:
        context.add(f"{kind}_ADDED", word)
    elif will is None:
        context.add(f"{kind}_REMOVED", word)
    else:
        context.add(f"{kind}_{'INCREASED' if was < will else 'DECREASED'}", word)


def number(value: Any) -> Decimal | None:
    """A number of a schema, exactly; None for anything else."""
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _compare_numbers(context: Context, before: Words, after: Words) -> None:
    before, after = _with_limits(before), _with_limits(after)
    for word, kind in (
        ("maximum", "MAXIMUM"),
        ("minimum", "MINIMUM"),
        ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
        ("exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
    ):
        compare_bound(context, word, kind, before, after)
    _compare_multiples(context, number(before.get("multipleOf")), number(after.get("multipleOf")))
    was, will = before.get("type") == "integer", after.get("type") == "integer"
    if was != will:
        context.add("TYPE_EXTENDED" if was else "TYPE_NARROWED")


def _with_limits(words: Words) -> Words:
    """Draft 4 says by a boolean that a bound is exclusive; later drafts have the bound itself there."""
    found = dict(words)
    for plain, exclusive in (("maximum", "exclusiveMaximum"), ("minimum", "exclusiveMinimum")):
        if found.get(exclusive) is True:
            found[exclusive] = found.pop(plain, None)
    return found


def _compare_multiples(context: Context, was: Decimal | None, will: Decimal | None) -> None:
    if was == will:
        return
    if was is None:
        change = "ADDED"
    elif will is None:
        change = "REMOVED"
    elif was and will % was == 0:
        change = "EXPANDED"
    else:
        change = "REDUCED" if will and was % will == 0 else "CHANGED"
    context.add(f"MULTIPLE_OF_{change}", "multipleOf")


def _compare_pattern(context: Context, was: Any, will: Any) -> None:
    if was == will:
        return
    change = "ADDED" if was is None else "REMOVED" if will is None else "CHANGED"
    context.add(f"PATTERN_{change}", "pattern")


def _compare_enumerations(context: Context, before: Words, after: Words) -> None:
    was, will = _members(before), _members(after)
    if was == will:
        return
    change = "EXTENDED" if was <= will else "NARROWED" if will <= was else "CHANGED"
    context.add(f"ENUM_ARRAY_{change}", "enum")


def _members(words: Words) -> set[str]:
    found = words.get("enum")
    return {compact(each) for each in found} if isinstance(found, list) else set()

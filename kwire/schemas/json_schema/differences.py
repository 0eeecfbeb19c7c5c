"""The walk over two schemas: what has changed from the original to the update, by Confluent's names."""

from __future__ import annotations

from kwire.schemas.json_schema import arrays, objects, values
from kwire.schemas.json_schema.context import COMPATIBLE, Context
from kwire.schemas.json_schema.kinds import ARRAY, COMBINED, EMPTY, FALSE, NOT, OBJECT, Node, Shape, shape
from kwire.schemas.json_text import compact
from kwire.schemas.limits import COMPARISONS_MAX, Budget
from kwire.schemas.schema import Incompatibility


def incompatible_changes(original: Node, update: Node) -> list[Incompatibility]:
    """The changes after which the update refuses something that the original accepts. `SchemaError`."""
    context = Context(_compare, Budget(COMPARISONS_MAX, "pairs of schemas to compare"))
    context.compare(original, update)
    return [each for each in context.found if each.kind not in COMPATIBLE]


def _compare(context: Context, original: Node | None, update: Node | None) -> None:
    if original is None or update is None:
        if original is not None or update is not None:
            context.add("SCHEMA_ADDED" if original is None else "SCHEMA_REMOVED")
        return
    before, after = shape(original), shape(update)
    if _is_one_of_several(context, before, after):
        return
    if before.kind != after.kind:
        if before.kind != FALSE and after.kind != EMPTY:
            context.add("TYPE_CHANGED")
        return
    with context.entered(before.node, after.node) as is_new:
        if is_new:
            _compare_same(context, before, after)


def _is_one_of_several(context: Context, before: Shape, after: Shape) -> bool:
    """Whether one of the two is a combination that the other is a compatible part of; its changes count then."""
    if (before.kind == COMBINED) == (after.kind == COMBINED):
        return False
    combination = before if before.kind == COMBINED else after
    if len(combination.parts) > 1 and (combination is before) != (combination.criterion == "allOf"):
        return False
    for part in combination.parts:
        apart = context.apart()
        apart.compare(*((part, after.node) if combination is before else (before.node, part)))
        if apart.is_compatible:
            context.take(apart)
            if len(combination.parts) > 1:
                context.add("PRODUCT_TYPE_NARROWED" if combination is before else "SUM_TYPE_EXTENDED")
            return True
    return False


def _compare_same(context: Context, before: Shape, after: Shape) -> None:
    """Compare two schemas of one kind."""
    if before.kind == COMBINED:
        _compare_combined(context, before, after)
    elif before.kind == NOT:
        _compare_not(context, before.node, after.node)
    elif before.kind == OBJECT:
        objects.compare(context, before.node, after.node)
    elif before.kind == ARRAY:
        arrays.compare(context, before.node, after.node)
    else:
        values.compare(context, before.kind, before.node.value, after.node.value)


def _compare_not(context: Context, before: Node, after: Node) -> None:
    """What is excluded may only become less."""
    apart = context.apart()
    with context.within("not"):
        apart.compare(after.child("not"), before.child("not"))
        context.add("NOT_TYPE_NARROWED" if apart.is_compatible else "NOT_TYPE_EXTENDED")


def _compare_combined(context: Context, before: Shape, after: Shape) -> None:
    change = _criterion_change(before, after)
    if change:
        context.add(change)
    if change == "COMBINED_TYPE_CHANGED":
        return
    originals, updates = _distinct(before), _distinct(after)
    kind = "PRODUCT_TYPE" if after.criterion == "allOf" else "SUM_TYPE"
    if len(originals) != len(updates):
        context.add(f"{kind}_{'EXTENDED' if len(originals) < len(updates) else 'NARROWED'}")
    edges: list[dict[int, Context]] = []
    for index, original in enumerate(originals):
        with context.within(f"{before.criterion}/{index}"):
            edges.append(_compatible_with(context, original, updates))
    matched = _matching(edges)
    for update, index in matched.items():
        context.take(edges[index][update])
    if len(matched) < min(len(originals), len(updates)):
        context.add("COMBINED_TYPE_SUBSCHEMAS_CHANGED")


def _criterion_change(before: Shape, after: Shape) -> str:
    if before.criterion == after.criterion:
        return ""
    one_before, one_after = len(before.parts) == 1, len(after.parts) == 1
    extended = after.criterion == "anyOf" or (one_before and (after.criterion == "oneOf" or one_after))
    return "COMBINED_TYPE_EXTENDED" if extended else "COMBINED_TYPE_CHANGED"


def _distinct(combination: Shape) -> list[Node]:
    """The parts without repetitions."""
    return list({compact(each.value): each for each in combination.parts}.values())


def _compatible_with(context: Context, original: Node, updates: list[Node]) -> dict[int, Context]:
    found = {}
    for index, update in enumerate(updates):
        apart = context.apart()
        apart.compare(original, update)
        if apart.is_compatible:
            found[index] = apart
    return found


def _matching(edges: list[dict[int, Context]]) -> dict[int, int]:
    """The most pairs that can be made: update -> original (augmenting paths)."""
    matched: dict[int, int] = {}

    def place(index: int, tried: set[int]) -> bool:
        for update in edges[index]:
            if update not in tried:
                tried.add(update)
                if update not in matched or place(matched[update], tried):
                    matched[update] = index
                    return True
        return False

    for index in range(len(edges)):
        place(index, set())
    return matched

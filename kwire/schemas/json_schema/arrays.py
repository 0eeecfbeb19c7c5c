"""What changes of an array schema mean; its content model is that of the items after those that are named one by one
(``items`` as an array, since 2020-12 ``prefixItems``)."""

from __future__ import annotations

from kwire.schemas.json_schema.additional import Additional, additional, compare_additional
from kwire.schemas.json_schema.context import Context
from kwire.schemas.json_schema.kinds import EMPTY, FALSE, Node, shape
from kwire.schemas.json_schema.values import compare_bound


def compare(context: Context, before: Node, after: Node) -> None:
    """Note the changes of an array schema."""
    with context.within("items"):
        context.compare(_of_all(before), _of_all(after))
    _compare_listed(context, before, after)
    compare_additional(context, _additional(before), _additional(after), "additionalItems", "ADDITIONAL_ITEMS")
    for word, kind in (("maxItems", "MAX_ITEMS"), ("minItems", "MIN_ITEMS")):
        compare_bound(context, word, kind, before.value, after.value)
    was, will = before.value.get("uniqueItems") is True, after.value.get("uniqueItems") is True
    if was != will:
        context.add(f"UNIQUE_ITEMS_{'ADDED' if will else 'REMOVED'}", "uniqueItems")


def _listed(node: Node) -> list[Node]:
    """The schemas of the first items."""
    for word in ("prefixItems", "items"):
        found = node.value.get(word)
        if isinstance(found, list):
            return [node.at(each) for each in found]
    return []


def _of_all(node: Node) -> Node | None:
    """The schema of all items, if they are not listed."""
    return None if _listed(node) else node.child("items")


def _additional(node: Node) -> Additional:
    """Whether items after the listed ones are allowed, and their schema if there is one."""
    word = "items" if isinstance(node.value.get("prefixItems"), list) else "additionalItems"
    return additional(node, word)


def _compare_listed(context: Context, before: Node, after: Node) -> None:
    originals, updates = _listed(before), _listed(after)
    for index in range(max(len(originals), len(updates))):
        with context.within(f"items/{index}"):
            if index >= len(updates):
                _compare_removed(context, after, originals[index])
            elif index >= len(originals):
                _compare_added(context, before, updates[index])
            else:
                context.compare(originals[index], updates[index])


def _compare_removed(context: Context, after: Node, original: Node) -> None:
    allowed, schema = _additional(after)
    if allowed and schema is None:
        context.add("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL")
    elif schema is not None:
        _compare_covered(context, original, schema, "ITEM_REMOVED")
    elif shape(original).kind == FALSE:
        context.add("ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL")
    else:
        context.add("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL")


def _compare_added(context: Context, before: Node, update: Node) -> None:
    allowed, schema = _additional(before)
    if allowed and schema is None:
        empty = "ITEM_WITH_EMPTY_SCHEMA" if shape(update).kind == EMPTY else "ITEM"
        context.add(f"{empty}_ADDED_TO_OPEN_CONTENT_MODEL")
    elif schema is not None:
        _compare_covered(context, schema, update, "ITEM_ADDED")
    else:
        context.add("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL")


def _compare_covered(context: Context, before: Node, after: Node, kind: str) -> None:
    apart = context.apart()
    apart.compare(before, after)
    context.take(apart)
    context.add(f"{kind}_{'IS' if apart.is_compatible else 'NOT'}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")

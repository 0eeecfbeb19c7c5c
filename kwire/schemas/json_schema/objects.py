"""What changes of an object schema mean. A content model is open if any other property is allowed, partially open if
patterns or ``additionalProperties`` describe others, closed if there are none."""

from __future__ import annotations

from typing import Any

import re2  # type: ignore[import-untyped]

from kwire.schemas.json_schema.additional import Additional, additional, compare_additional
from kwire.schemas.json_schema.context import Context
from kwire.schemas.json_schema.kinds import EMPTY, FALSE, Node, shape
from kwire.schemas.json_schema.values import compare_bound


def compare(context: Context, before: Node, after: Node) -> None:
    """Note the changes of an object schema."""
    _compare_required(context, before, after)
    _compare_properties(context, before, after)
    _compare_dependencies(context, before, after)
    compare_additional(
        context, _additional(before), _additional(after), "additionalProperties", "ADDITIONAL_PROPERTIES"
    )
    for word, kind in (("maxProperties", "MAX_PROPERTIES"), ("minProperties", "MIN_PROPERTIES")):
        compare_bound(context, word, kind, before.value, after.value)


def _required(node: Node) -> set[str]:
    """The names that are required; draft 3 has a boolean in each property instead, which Confluent ignores, too."""
    found = node.value.get("required")
    return {each for each in found if isinstance(each, str)} if isinstance(found, list) else set()


def _compare_required(context: Context, before: Node, after: Node) -> None:
    properties = after.children("properties")
    with context.within("required"):
        for name in before.children("properties"):
            if name not in properties:
                continue
            was, will = name in _required(before), name in _required(after)
            if was and not will:
                context.add("REQUIRED_ATTRIBUTE_REMOVED", name)
            elif will and not was:
                with_default = "_WITH_DEFAULT" if _has_default(properties[name]) else ""
                context.add(f"REQUIRED_ATTRIBUTE{with_default}_ADDED", name)


def _has_default(node: Node) -> bool:
    return isinstance(node.value, dict) and "default" in node.value


def _compare_properties(context: Context, before: Node, after: Node) -> None:
    originals, updates = before.children("properties"), after.children("properties")
    with context.within("properties"):
        for name in [*originals, *(each for each in updates if each not in originals)]:
            with context.within(name):
                if name not in updates:
                    _compare_removed(context, after, name, originals[name])
                elif name not in originals:
                    _compare_added(context, before, after, name, updates[name])
                else:
                    context.compare(originals[name], updates[name])


def _compare_removed(context: Context, after: Node, name: str, original: Node) -> None:
    if _is_open(after):
        context.add("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL")
        return
    covering = _covering(after, name)
    if covering is not None:
        _compare_covered(context, original, covering, "PROPERTY_REMOVED")
    elif shape(original).kind == FALSE:
        context.add("PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL")
    else:
        context.add("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL")


def _compare_added(context: Context, before: Node, after: Node, name: str, update: Node) -> None:
    if _is_open(before):
        empty = "PROPERTY_WITH_EMPTY_SCHEMA" if shape(update).kind == EMPTY else "PROPERTY"
        context.add(f"{empty}_ADDED_TO_OPEN_CONTENT_MODEL")
        return
    covering = _covering(before, name)
    if covering is not None:
        _compare_covered(context, covering, update, "PROPERTY_ADDED")
    if name not in _required(after):
        context.add("OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL")
    else:
        with_default = "_WITH_DEFAULT" if _has_default(update) else ""
        context.add(f"REQUIRED_PROPERTY{with_default}_ADDED_TO_UNOPEN_CONTENT_MODEL")


def _compare_covered(context: Context, before: Node, after: Node, kind: str) -> None:
    """Compare a property with what describes it on the side where it is not named."""
    apart = context.apart()
    apart.compare(before, after)
    context.take(apart)
    context.add(f"{kind}_{'IS' if apart.is_compatible else 'NOT'}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL")


def _additional(node: Node) -> Additional:
    """Whether other properties are allowed, and their schema if there is one."""
    return additional(node, "additionalProperties")


def _is_open(node: Node) -> bool:
    allowed, schema = _additional(node)
    return allowed and schema is None and not node.children("patternProperties")


def _covering(node: Node, name: str) -> Node | None:
    """The schema that a property has which is not named."""
    for pattern, schema in node.children("patternProperties").items():
        if _matches(pattern, name):
            return schema
    return _additional(node)[1]


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern is found in a name, in linear time; False for one that RE2 does not know."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.search(pattern, name, options) is not None
    except re2.error:
        return False


def _compare_dependencies(context: Context, before: Node, after: Node) -> None:
    with context.within("dependencies"):
        originals, updates = _arrays_of(before), _arrays_of(after)
        for name in [*originals, *(each for each in updates if each not in originals)]:
            if name not in updates:
                context.add("DEPENDENCY_ARRAY_REMOVED", name)
            elif name not in originals:
                context.add("DEPENDENCY_ARRAY_ADDED", name)
            elif originals[name] != updates[name]:
                context.add(f"DEPENDENCY_ARRAY_{_set_change(originals[name], updates[name])}", name)
        schemas, new_schemas = _schemas_of(before), _schemas_of(after)
        for name in [*schemas, *(each for each in new_schemas if each not in schemas)]:
            if name not in new_schemas:
                context.add("DEPENDENCY_SCHEMA_REMOVED", name)
            elif name not in schemas:
                context.add("DEPENDENCY_SCHEMA_ADDED", name)
            else:
                with context.within(name):
                    context.compare(schemas[name], new_schemas[name])


def _set_change(before: set[str], after: set[str]) -> str:
    if before <= after:
        return "EXTENDED"
    return "NARROWED" if after <= before else "CHANGED"


def _arrays_of(node: Node) -> dict[str, set[str]]:
    found: dict[str, Any] = {}
    for word in ("dependencies", "dependentRequired"):
        value = node.value.get(word)
        if isinstance(value, dict):
            found.update({name: set(map(str, each)) for name, each in value.items() if isinstance(each, list)})
    return found


def _schemas_of(node: Node) -> dict[str, Node]:
    return {**node.children("dependencies"), **node.children("dependentSchemas")}

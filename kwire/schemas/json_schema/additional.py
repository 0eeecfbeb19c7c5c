"""What a schema says of the items or properties that it does not name."""

from __future__ import annotations

from kwire.schemas.json_schema.context import Context
from kwire.schemas.json_schema.kinds import Node

Additional = tuple[bool, Node | None]
"""Whether there may be others, and their schema if there is one."""


def additional(node: Node, word: str) -> Additional:
    """What stands under a word of a schema: true (also if it is missing), false or a schema."""
    found = node.value.get(word, True)
    return found is not False, node.at(found) if isinstance(found, dict) else None


def compare_additional(context: Context, before: Additional, after: Additional, word: str, kind: str) -> None:
    """Note the change. ``word``: where, such as ``additionalItems``; ``kind``: what its kinds of change begin with."""
    (was, schema_before), (will, schema_after) = before, after
    with context.within(word):
        if was != will:
            context.add(f"{kind}_{'ADDED' if will else 'REMOVED'}")
        elif schema_before is None and schema_after is not None:
            context.add(f"{kind}_NARROWED")
        elif schema_after is None and schema_before is not None:
            context.add(f"{kind}_EXTENDED")
        else:
            context.compare(schema_before, schema_after)

"""Whether a document is a schema at all: its depth and size, references that lead somewhere, and its draft's own
schema."""

from __future__ import annotations

from typing import Any, Final

from kwire.schemas.errors import SchemaError
from kwire.schemas.json_schema.kinds import Documents, Node
from kwire.schemas.limits import DEPTH_MAX, NODES_MAX, Budget

_LITERAL: Final = frozenset({"const", "default", "enum", "examples"})
"""Words behind which there is data, not a schema."""


def check_document(value: Any, documents: Documents, *, strict: bool) -> None:
    """`SchemaError` for a document that is no schema, or goes beyond the limits."""
    _check(Node(value, "", documents), 0, Budget(NODES_MAX, "values"), strict)
    if strict:
        _check_draft(value)


def _check(node: Node, depth: int, budget: Budget, strict: bool) -> None:
    budget.take()
    if depth > DEPTH_MAX * 2:  # a property is two levels of JSON
        raise SchemaError(f"the schema is nested more than {DEPTH_MAX * 2} levels deep")
    node, value = node.at(node.value), node.value
    if isinstance(value, list):
        for each in value:
            _check(Node(each, node.base, node.documents), depth + 1, budget, strict)
    if not isinstance(value, dict):
        return
    reference = value.get("$ref")
    if strict and isinstance(reference, str) and not _is_of_standard(reference):
        _check_chain(node)
    for word, each in value.items():
        if word not in _LITERAL:
            _check(Node(each, node.base, node.documents), depth + 1, budget, strict)


def _check_chain(node: Node) -> None:
    """`SchemaError` for references that lead nowhere, or only to each other."""
    seen: set[int] = set()
    while isinstance(node.value, dict) and isinstance(node.value.get("$ref"), str):
        if id(node.value) in seen:
            raise SchemaError(f"the $ref {node.value['$ref']} leads in a circle")
        seen.add(id(node.value))
        if _is_of_standard(node.value["$ref"]):
            return
        node = node.documents.find(node.value["$ref"], node.base)


def _is_of_standard(reference: str) -> bool:
    """Whether a reference is to the schema of JSON Schema itself."""
    return reference.startswith(("http://json-schema.org/", "https://json-schema.org/"))


def _check_draft(value: Any) -> None:
    """`SchemaError` if the document does not fit the schema of its draft (draft 7 if it names none)."""
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import SchemaError as Invalid
    from jsonschema.validators import validator_for

    validator = validator_for(value, default=Draft7Validator)
    try:
        validator.check_schema(value)
    except Invalid as error:
        message = " ".join(str(error.message).split())
        raise SchemaError(f"no JSON Schema, at {error.json_path}: {message[:200]}") from None

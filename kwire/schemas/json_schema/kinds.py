"""What kind of schema a piece of JSON Schema is: Confluent's rules compare schemas of the same kind.

A type array is a union (anyOf) of schemas of each type; combinations stand for all that a schema has beside them, as
in the library that Confluent's registry uses (everit).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from kwire.schemas.errors import SchemaError

EMPTY, FALSE, COMBINED, ENUM, CONST, NOT = "empty", "false", "combined", "enum", "const", "not"
OBJECT, ARRAY, STRING, NUMBER, BOOLEAN, NULL, CONDITIONAL = (
    "object",
    "array",
    "string",
    "number",
    "boolean",
    "null",
    "conditional",
)
_CRITERIA: Final = ("allOf", "anyOf", "oneOf")
_ALONE: Final = ("enum", "const", "not")
"""Words that make a schema of their own, whatever stands beside them."""
_OBJECT_WORDS: Final = frozenset(
    {
        "properties",
        "required",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
    }
)
_ARRAY_WORDS: Final = frozenset(
    {"items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "prefixItems", "unevaluatedItems"}
)
_STRING_WORDS: Final = frozenset({"minLength", "maxLength", "pattern", "format"})
_NUMBER_WORDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_WORDS: Final = ((OBJECT, _OBJECT_WORDS), (ARRAY, _ARRAY_WORDS), (STRING, _STRING_WORDS), (NUMBER, _NUMBER_WORDS))
_REFERENCES_IN_A_ROW_MAX: Final = 64


class Node(NamedTuple):
    """A piece of a schema, and where it is from. ``value``: an object or a boolean; ``base``: the URL that references
    within it are relative to."""

    value: Any
    base: str
    documents: Documents

    def at(self, value: Any) -> Node:
        """A piece within this one."""
        base = self.base
        if isinstance(value, dict):
            identity = value.get("$id", value.get("id"))
            if isinstance(identity, str) and not identity.startswith("#"):
                base = urljoin(base, identity)
        return Node(value, base, self.documents)

    def child(self, word: str) -> Node | None:
        """The schema behind a word of this one."""
        found = self.value.get(word) if isinstance(self.value, dict) else None
        return self.at(found) if isinstance(found, dict | bool) else None

    def children(self, word: str) -> dict[str, Node]:
        """The schemas in an object behind a word."""
        found = self.value.get(word)
        if not isinstance(found, dict):
            return {}
        return {name: self.at(each) for name, each in found.items() if isinstance(each, dict | bool)}


class Shape(NamedTuple):
    """A node and its kind. ``criterion`` and ``parts``: of a combination."""

    kind: str
    node: Node
    criterion: str = ""
    parts: tuple[Node, ...] = ()


class Documents:
    """The schema and those that it refers to, by their URLs and names."""

    def __init__(self, root: Any, others: Mapping[str, Any]) -> None:
        self.shapes: dict[tuple[int, str], Shape] = {}
        """By identities and bases of pieces, which the shapes keep: a walk knows by them where it has been."""
        self._by_url: dict[str, tuple[Any, str]] = {"": (root, "")}
        for name, value in others.items():
            self._add(name, value, name)
        self._add("", root, "")

    def others(self) -> Iterator[tuple[str, Any]]:
        """All documents and pieces that have a URL, with it."""
        return ((url, value) for url, (value, _) in self._by_url.items() if url)

    def _add(self, name: str, value: Any, base: str) -> None:
        self._by_url[name] = (value, base)
        self._collect(value, base)

    def _collect(self, value: Any, base: str) -> None:
        """Remember every piece with an ``$id`` or an anchor."""
        if isinstance(value, list):
            for each in value:
                self._collect(each, base)
        if not isinstance(value, dict):
            return
        identity = value.get("$id", value.get("id"))
        if isinstance(identity, str):
            base = urljoin(base, identity)
            self._by_url.setdefault(base.removesuffix("#"), (value, base))
        anchor = value.get("$anchor")
        if isinstance(anchor, str):
            self._by_url.setdefault(f"{urldefrag(base).url}#{anchor}", (value, base))
        for each in value.values():
            self._collect(each, base)

    def find(self, reference: str, base: str) -> Node:
        """The piece that a reference leads to. `SchemaError` if there is none."""
        for url in (urljoin(base, reference), reference):
            if url in self._by_url:
                value, own = self._by_url[url]
                return Node(value, own, self)
            whole, fragment = urldefrag(url)
            if whole in self._by_url and (not fragment or fragment.startswith("/")):
                value, own = self._by_url[whole]
                return Node(_pointed(value, fragment, reference), own, self)
        raise SchemaError(f"the $ref {reference} leads nowhere: there is no such definition, and no reference to it")


def _pointed(value: Any, pointer: str, reference: str) -> Any:
    """The piece of a document at a JSON pointer."""
    for word in unquote(pointer).split("/")[1:]:
        word = word.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and word in value:
            value = value[word]
        elif isinstance(value, list) and word.isdecimal() and int(word) < len(value):
            value = value[int(word)]
        else:
            raise SchemaError(f"the $ref {reference} leads nowhere")
    return value


def shape(node: Node) -> Shape:
    """The kind of a piece, references followed. `SchemaError` for references that lead nowhere or in a circle."""
    node = _followed(node)
    value = node.value
    if value is True or value == {}:
        return Shape(EMPTY, node)
    if value is False:
        return Shape(FALSE, node)
    if not isinstance(value, dict):
        raise SchemaError("a schema is an object, true or false")
    place = id(value), node.base
    known = node.documents.shapes.get(place)
    if known is None:
        known = node.documents.shapes[place] = _combined(node) or Shape(_kind(value), node)
    return known


def _followed(node: Node) -> Node:
    for _ in range(_REFERENCES_IN_A_ROW_MAX):
        value = node.value
        reference = value.get("$ref") if isinstance(value, dict) else None
        if not isinstance(reference, str):
            return node
        node = node.documents.find(reference, node.base)
    raise SchemaError("references lead in a circle ($ref)")


def _combined(node: Node) -> Shape | None:
    """A combination: allOf, anyOf, oneOf, a type array, or enum, const and not beside anything else."""
    value = node.value
    found = [word for word in _CRITERIA if isinstance(value.get(word), list)]
    words = [*found, *(word for word in _ALONE if word in value)]
    rest = {name: each for name, each in value.items() if name not in words and name not in _ANNOTATIONS}
    if len(words) + _constrains(rest) > 1:
        separate = [Node({word: value[word]}, node.base, node.documents) for word in words]
        if _constrains(rest):
            separate.insert(0, Node(rest, node.base, node.documents))
        return Shape(COMBINED, node, "allOf", tuple(separate))
    for word in found:
        return Shape(COMBINED, node, word, tuple(node.at(each) for each in value[word]))
    types = value.get("type")
    if isinstance(types, list):
        parts = (Node({**_relevant(rest, each), "type": each}, node.base, node.documents) for each in types)
        return Shape(COMBINED, node, "anyOf", tuple(parts))
    return None


_ANNOTATIONS: Final = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "$comment",
        "$id",
        "id",
        "$schema",
        "$defs",
        "definitions",
        "$anchor",
        "readOnly",
        "writeOnly",
        "deprecated",
    }
)


def _constrains(value: Mapping[str, Any]) -> bool:
    """Whether what stands beside a combination says something itself."""
    words = set(value)
    return "type" in words or any(words & each for _, each in _WORDS)


def _relevant(value: Mapping[str, Any], type: Any) -> dict[str, Any]:
    """The words that belong to one type."""
    kind = NUMBER if type == "integer" else type
    others = frozenset().union(*(words for name, words in _WORDS if name != kind))
    return {name: each for name, each in value.items() if name not in others and name != "type"}


def _kind(value: Mapping[str, Any]) -> str:
    if "enum" in value:
        return ENUM
    if "const" in value:
        return CONST
    if "not" in value:
        return NOT
    if "if" in value and "type" not in value:
        return CONDITIONAL
    type = value.get("type")
    if type == "integer":
        return NUMBER
    if isinstance(type, str):
        return type
    return next((kind for kind, words in _WORDS if words & set(value)), EMPTY)

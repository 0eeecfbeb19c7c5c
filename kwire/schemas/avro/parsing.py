"""JSON to types, with the rules of Apache Avro's Java parser, and within the limits of `kwire.schemas.limits`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from kwire.schemas.avro.defaults import fits
from kwire.schemas.avro.model import (
    NO_DEFAULT,
    PRIMITIVES,
    AvroType,
    Collection,
    Enumeration,
    Field,
    Fixed,
    Named,
    Record,
    Union,
)
from kwire.schemas.errors import SchemaError
from kwire.schemas.json_text import parse_json
from kwire.schemas.limits import DEPTH_MAX, NODES_MAX, Budget, bounded

N = TypeVar("N", bound=Named)

_ORDERS: Final = ("ascending", "descending", "ignore")
_TYPE_WORDS: Final = frozenset(
    {"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"}
)
_FIELD_WORDS: Final = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_FIXED_BYTES_MAX: Final = 2**31 - 1


@bounded
def parse_types(text: str, referenced: Iterable[str] = (), *, strict: bool = True) -> tuple[AvroType, list[AvroType]]:
    """The type of a text, and those of the texts that it may use, which are parsed before it in their order.
    ``strict``: names and defaults are checked, as in a schema that is new. `SchemaError`."""
    parser = _Parser(strict)
    others = [parser.parse(parse_json(each), "", 0) for each in referenced]
    return parser.parse(parse_json(text), "", 0), others


class _Parser:
    """Parses texts one after the other; names of earlier ones may be used in later ones."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._names: dict[str, Named] = {}
        self._open: list[str] = []
        """The records whose fields are being read."""
        self._budget = Budget(NODES_MAX, "types")

    def parse(self, value: Any, namespace: str, depth: int) -> AvroType:
        """The type of a piece of JSON in a namespace."""
        self._budget.take()
        if depth > DEPTH_MAX:
            raise SchemaError(f"types are nested more than {DEPTH_MAX} levels deep")
        if isinstance(value, str):
            return self._named(value, namespace)
        if isinstance(value, list):
            return self._union(value, namespace, depth)
        if isinstance(value, dict):
            return self._object(value, namespace, depth)
        raise SchemaError(f"{_shown(value)} is no Avro type: a name, an object or an array is needed")

    def _named(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name, {})
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._names.get(full)
        if found is None and not (
            self._strict and name in self._open
        ):  # as Java: from outside, but only what is complete
            found = self._names.get(name)
        if found is None:
            raise SchemaError(f"there is no type {_shown(full)}")
        return found

    def _union(self, branches: list[Any], namespace: str, depth: int) -> Union:
        found: list[AvroType] = []
        seen: set[str] = set()
        for each in branches:
            branch = self.parse(each, namespace, depth + 1)
            if branch.kind == "union":
                raise SchemaError("a union is directly within a union")
            name = branch.full_name if isinstance(branch, Named) else branch.kind
            if name in seen:
                raise SchemaError(f"{_shown(name)} is twice in a union")
            seen.add(name)
            found.append(branch)
        return Union(found)

    def _object(self, value: Mapping[str, Any], namespace: str, depth: int) -> AvroType:
        kind = value.get("type")
        if isinstance(kind, dict | list):  # {"type": {...}}, as some tools write it
            return self.parse(kind, namespace, depth + 1)
        if not isinstance(kind, str):
            raise SchemaError(f"a type is missing in {_shown(value)}")
        if kind in PRIMITIVES:
            return AvroType(kind, _properties(value, _TYPE_WORDS))
        if kind in ("record", "error"):
            return self._record(kind, value, namespace, depth)
        if kind == "enum":
            return self._enumeration(value, namespace)
        if kind == "fixed":
            return self._fixed(value, namespace)
        if kind in ("array", "map"):
            word = "items" if kind == "array" else "values"
            if word not in value:
                raise SchemaError(f"{word} is missing: {_shown(value)}")
            return Collection(kind, self.parse(value[word], namespace, depth + 1), _properties(value, _TYPE_WORDS))
        return self._named(kind, namespace)

    def _record(self, kind: str, value: Mapping[str, Any], namespace: str, depth: int) -> Record:
        name, space = self._name(value, namespace)
        record = Record(kind, name, space, _doc(value), self._aliases(value, space), _properties(value, _TYPE_WORDS))
        self._define(record)
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"the record {record.full_name} has no array of fields")
        self._open.append(record.full_name)
        for each in fields:
            field = self._field(each, space, depth)
            if field.name in record.by_name:
                raise SchemaError(f"the field {_shown(field.name)} is twice in the record {record.full_name}")
            record.add(field)
        self._open.pop()
        return record

    def _field(self, value: Any, namespace: str, depth: int) -> Field:
        if not isinstance(value, dict):
            raise SchemaError(f"{_shown(value)} is no field: an object is needed")
        name = value.get("name")
        if not isinstance(name, str):
            raise SchemaError(f"a field has no name: {_shown(value)}")
        self._check_name(name)
        if "type" not in value:
            raise SchemaError(f"the field {_shown(name)} has no type")
        type = self.parse(value["type"], namespace, depth + 1)
        default = value.get("default", NO_DEFAULT)
        if self._strict and default is not NO_DEFAULT and not fits(type, default):
            raise SchemaError(f"the default of the field {_shown(name)} does not fit its type: {_shown(default)}")
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise SchemaError(f"the order of the field {_shown(name)} is none of {', '.join(_ORDERS)}: {_shown(order)}")
        aliases = _texts(value.get("aliases", []), "aliases")
        return Field(name, type, _doc(value), default, order.lower(), aliases, _properties(value, _FIELD_WORDS))

    def _enumeration(self, value: Mapping[str, Any], namespace: str) -> Enumeration:
        name, space = self._name(value, namespace)
        symbols = _texts(value.get("symbols"), "symbols")
        for each in symbols:
            self._check_name(each)
        if len(set(symbols)) < len(symbols):
            raise SchemaError(f"a symbol is twice in the enum {name}")
        default = value.get("default")
        if default is not None and default not in symbols:
            raise SchemaError(f"the default of the enum {name} is none of its symbols: {_shown(default)}")
        properties = _properties(value, _TYPE_WORDS | {"default"})
        return self._define(
            Enumeration(name, space, _doc(value), self._aliases(value, space), properties, symbols, default)
        )

    def _fixed(self, value: Mapping[str, Any], namespace: str) -> Fixed:
        name, space = self._name(value, namespace)
        size = value.get("size")
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _FIXED_BYTES_MAX:
            raise SchemaError(f"the fixed {name} has no size, or a wrong one")
        properties = _properties(value, _TYPE_WORDS)
        return self._define(Fixed(name, space, _doc(value), self._aliases(value, space), properties, size))

    def _name(self, value: Mapping[str, Any], namespace: str) -> tuple[str, str]:
        """The name of a named type, and its namespace."""
        name = value.get("name")
        if not isinstance(name, str):
            raise SchemaError(f"a name is missing: {_shown(value)}")
        space, dot, last = name.rpartition(".")
        if not dot:
            given = value.get("namespace", namespace)
            space = given if isinstance(given, str) else namespace
        self._check_name(last)
        for each in space.split(".") if space and self._strict else ():
            self._check_name(each)
        return last, space

    def _aliases(self, value: Mapping[str, Any], namespace: str) -> list[str]:
        aliases = _texts(value.get("aliases", []), "aliases")
        return [each if "." in each or not namespace else f"{namespace}.{each}" for each in aliases]

    def _define(self, named: N) -> N:
        if not named.namespace and named.name in PRIMITIVES:
            raise SchemaError(f"a type may not be called {named.name}")
        if named.full_name in self._names:
            raise SchemaError(f"the type {_shown(named.full_name)} is defined twice")
        self._names[named.full_name] = named
        return named

    def _check_name(self, name: str) -> None:
        if self._strict and not is_name(name):
            raise SchemaError(f"{_shown(name)} is no name: a letter or _ is needed, then letters, digits and _")


def is_name(text: str) -> bool:
    """Whether a text is a name, as Java has letters."""
    return bool(text) and not text[0].isdecimal() and all(each.isalnum() or each == "_" for each in text)


def _doc(value: Mapping[str, Any]) -> str | None:
    found = value.get("doc")
    return found if isinstance(found, str) else None


def _texts(value: Any, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SchemaError(f"{what}: an array of strings is needed, not {_shown(value)}")
    return value


def _properties(value: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name not in known}


def _shown(value: Any) -> str:
    """A piece of a schema in a message, cut off if it is long."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."

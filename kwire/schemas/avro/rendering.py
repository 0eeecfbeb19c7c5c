"""Types to JSON. `canonical` is what Java's ``Schema.toString`` writes, the text that a registry stores."""

from __future__ import annotations

from typing import Any

from kwire.schemas.avro.model import NO_DEFAULT, AvroType, Collection, Enumeration, Field, Fixed, Named, Record, Union


def canonical(
    type: AvroType, *, normalized: bool = False, known: set[str] | None = None, properties: bool = True
) -> Any:
    """The JSON of a type: a type with a name is written once, then named. ``normalized``: full names, and properties in
    alphabetical order. ``known``: types that are defined elsewhere and only named. Without ``properties``: Avro's own
    words alone, and no logical types."""
    return _Renderer(normalized, set() if known is None else known, properties).render(type, "")


class _Renderer:
    def __init__(self, normalized: bool, written: set[str], properties: bool) -> None:
        self._normalized = normalized
        self._written = written
        self._with_properties = properties

    def render(self, type: AvroType, namespace: str) -> Any:
        """The JSON of a type within a namespace."""
        if isinstance(type, Union):
            return [self.render(each, namespace) for each in type.branches]
        if isinstance(type, Named):
            return self._named(type, namespace)
        if isinstance(type, Collection):
            word = "items" if type.kind == "array" else "values"
            return {"type": type.kind, word: self.render(type.items, namespace), **self._properties(type)}
        if not type.properties or not self._with_properties:
            return type.kind
        return {"type": type.kind, **self._properties(type)}

    def _named(self, type: Named, namespace: str) -> Any:
        if type.full_name in self._written:
            return type.full_name if self._normalized or type.namespace != namespace else type.name
        self._written.add(type.full_name)
        found: dict[str, Any] = {"type": type.kind}
        if self._normalized:
            found["name"] = type.full_name
        else:
            found["name"] = type.name
            if (type.namespace or namespace) and type.namespace != namespace:
                found["namespace"] = type.namespace
        if type.doc is not None:
            found["doc"] = type.doc
        if isinstance(type, Record):
            found["fields"] = [self._field(each, type.namespace) for each in type.fields]
        elif isinstance(type, Enumeration):
            found["symbols"] = list(type.symbols)
            if type.default is not None:
                found["default"] = type.default
        elif isinstance(type, Fixed):
            found["size"] = type.size
        found.update(self._properties(type))
        if type.aliases:
            found["aliases"] = self._aliases(type)
        return found

    def _field(self, field: Field, namespace: str) -> dict[str, Any]:
        found = {"name": field.name, "type": self.render(field.type, namespace)}
        if field.doc is not None:
            found["doc"] = field.doc
        if field.default is not NO_DEFAULT:
            found["default"] = field.default
        if field.order != "ascending":
            found["order"] = field.order
        if field.aliases:
            found["aliases"] = sorted(field.aliases) if self._normalized else list(field.aliases)
        return {**found, **self._properties(field)}

    def _aliases(self, type: Named) -> list[str]:
        if self._normalized:
            return sorted(type.aliases)
        prefix = f"{type.namespace}." if type.namespace else ""
        return [each[len(prefix) :] if prefix and _is_in(each, prefix) else each for each in type.aliases]

    def _properties(self, type: AvroType | Field) -> dict[str, Any]:
        if not self._with_properties:
            return {}
        return dict(sorted(type.properties.items())) if self._normalized else dict(type.properties)


def _is_in(name: str, prefix: str) -> bool:
    """Whether a full name is directly in the namespace of a prefix."""
    return name.startswith(prefix) and "." not in name[len(prefix) :]

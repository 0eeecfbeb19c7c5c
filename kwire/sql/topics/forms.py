"""`Forms`: what becomes of a topic's keys and values, as the user has chosen, by a registry or by samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kwire.sql.topics.columns import Kind
from kwire.sql.topics.contents import Contents, JsonCheck, PlainContents, kind_of
from kwire.sql.topics.sampling import Samples, sampled
from kwire.sql.topics.source import Source
from kwire.sql.topics.spans import Spans

if TYPE_CHECKING:
    import pyarrow as pa

    from kwire.cli.schemas.lookup import SchemaLookup

_ANY = ""
"""Stands for all topics."""


class Form(Protocol):
    """The type of one column, and what gives it to contents."""

    @property
    def type(self) -> Kind | pa.Field:
        """A plain type, or a field of any name."""

    def contents(self) -> Contents:
        """For one scan."""


class PlainForm:
    """JSON, text or bytes."""

    def __init__(self, kind: Kind) -> None:
        self.type = kind

    def contents(self) -> Contents:
        """For one scan."""
        return PlainContents(self.type, JsonCheck())


class Forms:
    """``keys``, ``values``: plain types that the user has chosen, by topic, under the empty name for all others.
    ``lookup``: the registry, if there is one."""

    def __init__(
        self, keys: Mapping[str, Kind], values: Mapping[str, Kind], lookup: SchemaLookup | None = None
    ) -> None:
        self._chosen = (keys, values)
        self._lookup = lookup

    def of(self, source: Source, topic: str, spans: Spans) -> tuple[Form, Form]:
        """The forms of a topic's keys and values. `ReadError`, `CommandError`."""
        key, value = (each.get(topic, each.get(_ANY)) for each in self._chosen)
        if key is not None and value is not None and self._lookup is None:
            return PlainForm(key), PlainForm(value)
        samples = sampled(source, topic, spans)
        return self._form(topic, "key", key, samples), self._form(topic, "value", value, samples)

    def _form(self, topic: str, column: str, chosen: Kind | None, samples: Samples) -> Form:
        contents = samples.keys if column == "key" else samples.values
        if self._lookup is not None and chosen in (None, "json"):
            from kwire.sql.topics.registered import form_by_schemas

            found = form_by_schemas(self._lookup, f"{topic}-{column}", contents, as_json=chosen == "json")
            if found is not None:
                return found
        return PlainForm(chosen or kind_of(contents, JsonCheck()))

"""`JsonSchema`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kwire.schemas.errors import DecodeError, SchemaError
from kwire.schemas.json_schema.checks import check_document
from kwire.schemas.json_schema.differences import incompatible_changes
from kwire.schemas.json_schema.kinds import Documents, Node
from kwire.schemas.json_text import compact, parse_json
from kwire.schemas.limits import bounded
from kwire.schemas.schema import JSON, Incompatibility, Resolved, Schema


class JsonSchema(Schema):
    """A schema of JSON Schema. ``strict``: as for a schema that is new: it is checked against its draft's own schema,
    and every reference has to lead somewhere. `SchemaError`."""

    type = JSON

    @bounded
    def __init__(self, text: str, resolved: Sequence[Resolved] = (), *, strict: bool = True) -> None:
        self._value = parse_json(text)
        if not isinstance(self._value, dict | bool):
            raise SchemaError("a JSON Schema is an object, true or false")
        others = {each.name: parse_json(each.text) for each in resolved}
        self._documents = Documents(self._value, others)
        check_document(self._value, self._documents, strict=strict)
        super().__init__(compact(self._value))

    @property
    def root(self) -> Node:
        """The whole schema."""
        return Node(self._value, "", self._documents).at(self._value)

    def normalized(self) -> str:
        """Properties in alphabetical order."""
        return json.dumps(self._value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    @bounded
    def incompatibilities(self, writer: Schema) -> list[Incompatibility]:
        """By the rules of Confluent's registry: the changes after which this schema refuses what ``writer`` accepts."""
        assert isinstance(writer, JsonSchema)
        return incompatible_changes(writer.root, self.root)

    def decode(self, body: bytes) -> Any:
        """The JSON of a payload. `DecodeError`."""
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            raise DecodeError(f"the value is not JSON: {error}") from None

    def encode(self, value: Any) -> bytes:
        """A value as JSON, if it fits the schema. `DecodeError`."""
        from kwire.schemas.json_schema.validation import check_value

        check_value(self._value, self._documents, value)
        try:
            return compact(value).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise DecodeError(f"the value is not JSON: {error}") from None

"""`PayloadDecoder`: keys and values in Confluent's wire format as JSON, by the schemas of a registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from kwire.cli.connection.errors import CommandError
from kwire.cli.records.columns import Columns
from kwire.cli.schemas.client import RegistryClient
from kwire.schemas import DecodeError, Resolved, Schema, SchemaError, decode, jsonable, parse
from kwire.schemas.limits import REFERENCES_MAX
from kwire.schemas.wire import is_framed

_UNKNOWN_SCHEMA: Final = 40403


class PayloadDecoder:
    """Decodes columns. What does not begin with the id of a schema stays as it is; what does, but cannot be decoded,
    stays as well and is counted. `CommandError` if the registry does not answer."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._schemas: dict[int, Schema | str] = {}
        self._failed = 0
        self._first = ""

    @property
    def failures(self) -> str | None:
        """What to tell the user about payloads that could not be decoded; None if there are none."""
        if not self._failed:
            return None
        records = "payload" if self._failed == 1 else "payloads"
        return f"{self._failed} {records} could not be decoded, the first: {self._first}"

    def decoded(self, columns: Columns) -> Columns:
        """The same records with JSON for keys and values."""
        return replace(
            columns,
            keys=self._texts(columns.keys, columns, "key"),
            values=self._texts(columns.values, columns, "value"),
        )

    def _texts(self, payloads: Sequence[bytes | None], columns: Columns, what: str) -> Sequence[bytes | None]:
        return [
            self._text(payload, columns, index, what) if is_framed(payload) else payload
            for index, payload in enumerate(payloads)
        ]

    def _text(self, payload: bytes | None, columns: Columns, index: int, what: str) -> bytes:
        assert payload is not None
        try:
            value = jsonable(decode(payload, self._schema))
        except (DecodeError, SchemaError) as error:
            if not self._failed:
                self._first = f"{what} at {columns.topic}-{columns.partition} offset {columns.offsets[index]}: {error}"
            self._failed += 1
            return payload
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    def _schema(self, id: int) -> Schema:
        found = self._schemas.get(id)
        if found is None:
            found = self._schemas[id] = self._fetched(id)
        if isinstance(found, str):
            raise SchemaError(found)
        return found

    def _fetched(self, id: int) -> Schema | str:
        """The schema of an id, or why there is none."""
        try:
            content = self._client.get("schemas", "ids", str(id))
            resolved: dict[str, str] = {}
            self._resolve(content, resolved)
            references = [Resolved(name, text) for name, text in resolved.items()]
            return parse(content["schema"], content.get("schemaType", "AVRO"), references, strict=False)
        except SchemaError as error:
            return f"schema {id}: {error}"
        except CommandError as error:
            if error.code != _UNKNOWN_SCHEMA:
                raise
            return f"the registry has no schema {id}"

    def _resolve(self, content: dict[str, Any], resolved: dict[str, str]) -> None:
        """Put the texts of all that a schema refers to into ``resolved``, each after those that it needs itself."""
        for each in content.get("references") or ():
            if each["name"] in resolved:
                continue
            if len(resolved) >= REFERENCES_MAX:
                raise SchemaError(f"it refers to more than {REFERENCES_MAX} others")
            found = self._client.get("subjects", each["subject"], "versions", str(each["version"]))
            self._resolve(found, resolved)
            resolved[each["name"]] = found["schema"]

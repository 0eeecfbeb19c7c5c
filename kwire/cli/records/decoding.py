"""`PayloadDecoder`: keys and values in Confluent's wire format as JSON, by the schemas of a registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kwire.cli.records.columns import Columns
from kwire.cli.schemas.lookup import SchemaLookup
from kwire.schemas import DecodeError, SchemaError, decoded_text
from kwire.schemas.wire import is_framed


class PayloadDecoder:
    """Decodes columns. What does not begin with the id of a schema stays as it is; what does, but cannot be decoded,
    stays as well and is counted. `CommandError` if the registry does not answer."""

    def __init__(self, lookup: SchemaLookup) -> None:
        self._lookup = lookup
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
            return decoded_text(payload, self._lookup.schema).encode("utf-8", "surrogatepass")
        except (DecodeError, SchemaError) as error:
            if not self._failed:
                self._first = f"{what} at {columns.topic}-{columns.partition} offset {columns.offsets[index]}: {error}"
            self._failed += 1
            return payload

"""Keys and values in their types: which one samples have, and the contents of an Arrow batch in it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from kwire.sql.topics.columns import Kind

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection


def kind_of(samples: Iterable[pa.Array], check: JsonCheck) -> Kind:
    """``json`` if all samples are (also if there are none), else ``varchar`` if all are UTF-8, else ``blob``. Null is
    no sample."""
    kind: Kind = "json"
    for each in samples:
        texts = strings(each)
        if texts.null_count > each.null_count:
            return "blob"
        if kind == "json" and check.invalid(texts):
            kind = "varchar"
    return kind


class Contents(Protocol):
    """One column's contents in a type."""

    @property
    def misfits(self) -> int:
        """How many did not fit it, which became null."""

    def typed(self, contents: pa.Array) -> pa.Array:
        """Binary contents in the type."""

    def note(self, topic: str, column: str) -> str:
        """What did not fit, for the user."""


class PlainContents:
    """Contents as JSON, text or bytes."""

    def __init__(self, kind: Kind, check: JsonCheck) -> None:
        self.misfits = 0
        self._kind = kind
        self._check = check

    def typed(self, contents: pa.Array) -> pa.Array:
        """Binary contents in the type."""
        if self._kind == "blob":
            return contents
        texts = strings(contents)
        if self._kind == "json":
            texts = self._check.valid_only(texts)
        self.misfits += texts.null_count - contents.null_count
        return texts

    def note(self, topic: str, column: str) -> str:
        """What did not fit."""
        return (
            f"{counted(self.misfits, column)} not {self._kind.upper()}, read as NULL "
            f"({column}_bytes has what is there; --{column}-type {topic}=varchar or =blob)"
        )


def counted(number: int, column: str) -> str:
    """So many keys or values."""
    return f"{number} {column}{'s' * (number != 1)}"


def strings(contents: pa.Array) -> pa.Array:
    """Binary contents as strings; null for those that are not UTF-8."""
    import pyarrow as pa

    try:
        return contents.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(each) for each in contents.to_pylist()], pa.string())


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


class JsonCheck:
    """Tells JSON from other text as DuckDB does, in a database of its own with nothing in it. For one thread."""

    @cached_property
    def _connection(self) -> DuckDBPyConnection:
        import duckdb

        return duckdb.connect(
            config={"threads": "1", "enable_external_access": "false", "autoload_known_extensions": "false"}
        )

    def invalid(self, texts: pa.Array) -> int:
        """How many strings are not JSON."""
        return int(self._asked(texts, "count(*) filter (not json_valid(text))").column(0)[0].as_py())

    def valid_only(self, texts: pa.Array) -> pa.Array:
        """The same strings, null for those that are not JSON."""
        if not self.invalid(texts):
            return texts
        return self._asked(texts, "if(json_valid(text), text, null)").column(0).combine_chunks()

    def _asked(self, texts: pa.Array, expression: str) -> Any:
        import pyarrow as pa

        self._connection.register("texts", pa.table({"text": texts}))
        return self._connection.sql(f"select {expression} as answer from texts").to_arrow_table()

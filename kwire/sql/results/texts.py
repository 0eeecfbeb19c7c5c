"""`Texts`: rows as text, by DuckDB's own conversions, so that each type looks as it does in DuckDB."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

_NUMBERS: Final = ("INT", "BIGINT", "SMALLINT", "TINYINT", "HUGEINT", "DOUBLE", "FLOAT", "DECIMAL")
_FLOATS: Final = ("DOUBLE", "FLOAT")
_STRING_OR_NO_NUMBER: Final = re.compile(r'("(?:[^"\\]|\\.)*")|NaN|-?Infinity')


class Column:
    """A column of a result: a name, and DuckDB's name of its type."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind

    @property
    def is_number(self) -> bool:
        """Whether it stands to the right in a table."""
        kind = self.kind.upper().removeprefix("U")
        return kind.startswith(_NUMBERS) and not kind.endswith("]")


def unique(columns: Sequence[Column]) -> list[Column]:
    """The same columns; of those with one name, the later ones get a number."""
    taken = {each.name for each in columns}
    seen: set[str] = set()
    found = []
    for each in columns:
        name, number = each.name, 0
        while name in seen or (number and name in taken):
            number += 1
            name = f"{each.name}_{number}"
        seen.add(name)
        found.append(Column(name, each.kind))
    return found


class Texts:
    """Converts Arrow batches of a result, in a connection beside the one of the query, with the same time zone."""

    def __init__(self, connection: DuckDBPyConnection, columns: Sequence[Column], zone: str) -> None:
        self._columns = columns
        self._connection = connection.cursor()
        self._connection.execute(f"set TimeZone = {_literal(zone)}")

    def cells(self, batch: pa.RecordBatch) -> list[tuple[str | None, ...]]:
        """The rows, each value as text; None for NULL."""
        return self._asked(batch, ", ".join(f"c{i}::varchar" for i in range(len(self._columns))))

    def objects(self, batch: pa.RecordBatch) -> list[str]:
        """The rows as JSON objects. JSON stays JSON; numbers that JSON does not have (NaN) are null."""
        pairs = ", ".join(f"{_literal(each.name)}, {_json(f'c{i}', each.kind)}" for i, each in enumerate(self._columns))
        return [_without_nan(text) for (text,) in self._asked(batch, f"json_object({pairs})::varchar")]

    def _asked(self, batch: pa.RecordBatch, expressions: str) -> list[Any]:
        import pyarrow as pa

        named = pa.Table.from_arrays(batch.columns, names=[f"c{i}" for i in range(batch.num_columns)])
        self._connection.register("rows_of_result", named)
        return self._connection.execute(f"select {expressions} from temp.rows_of_result").fetchall()


def _without_nan(text: str) -> str:
    """DuckDB writes numbers within structs as they are."""
    if "NaN" not in text and "Infinity" not in text:
        return text
    return _STRING_OR_NO_NUMBER.sub(lambda found: found[1] or "null", text)


def _json(column: str, kind: str) -> str:
    """A value for json_object. Arrow knows no JSON, so that what is JSON inside gets its type again."""
    if kind.upper() in _FLOATS:
        return f"if(isfinite({column}), {column}, null)"
    return f"cast({column} as {kind})" if "JSON" in kind.upper() else column


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

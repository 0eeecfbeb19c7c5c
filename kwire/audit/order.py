"""Whether partners are in the same order at both ends, and which records without a key were changed."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import duckdb

_CHUNK: Final = 1 << 21
"""Offsets, or records, whose order is looked at together."""
_NEIGHBOURS: Final = 1 << 10
"""Offsets that a record is looked for before one without a partner."""
_LONE_MAX: Final = 100_000


class Order(Enum):
    """What has to stay in order."""

    PARTITION = "partition"
    KEY = "key"
    NONE = "none"


def breaks_within(partners: str) -> str:
    """SQL that notes records whose predecessor of the same key comes after them in the copy. A key that is spread over
    partitions has an order in each of them only."""
    return (
        f"INSERT INTO faults WITH chosen AS (FROM {partners}), several AS (SELECT okey FROM chosen"
        " WHERE okey IS NOT NULL GROUP BY okey HAVING count(*) > 1), placed AS (SELECT *, lag(pos_b) OVER"
        " (PARTITION BY okey, part_a, part_b ORDER BY pos_a) AS before FROM chosen WHERE okey IN (FROM several))"
        " SELECT 'reordered', okey, part_a, pos_a, part_b, pos_b, ts FROM placed WHERE pos_b < before"
    )


def check_keys(con: duckdb.DuckDBPyConnection, say: Callable[[int, int], None]) -> None:
    """Note what is out of order within keys, of the pairs of all buckets."""
    (rows,) = _one(con, "SELECT count(*) FROM pairs")
    chunks = 1 << (rows // _CHUNK).bit_length()
    for chunk in range(chunks):
        con.execute(breaks_within(f"pairs WHERE (hash(okey) & {chunks - 1}) = {chunk}"))
        say(chunk + 1, chunks)


def check_partitions(con: duckdb.DuckDBPyConnection, say: Callable[[int, int], None]) -> None:
    """Note what is out of order within partitions."""
    bounds = con.execute(
        "SELECT part_a, min(pos_a), max(pos_a) + 1 FROM pairs GROUP BY part_a ORDER BY part_a"
    ).fetchall()
    chunks = [(part, low, min(low + _CHUNK, end)) for part, first, end in bounds for low in range(first, end, _CHUNK)]
    last: dict[int, int] = {}  # partition -> where the copy has the last record before the chunk
    for done, (part, low, high) in enumerate(chunks, 1):
        con.execute(
            "CREATE OR REPLACE TEMP TABLE chunk AS SELECT *, lag(pos_b, 1, $1::BIGINT) OVER (ORDER BY pos_a) AS before"
            " FROM pairs WHERE part_a = $2 AND part_b = $2 AND pos_a >= $3 AND pos_a < $4",
            [last.get(part, -1), part, low, high],
        )
        con.execute(
            "INSERT INTO faults SELECT 'reordered', okey, part_a, pos_a, part_b, pos_b, ts FROM chunk"
            " WHERE pos_b < before"
        )
        (end,) = _one(con, "SELECT arg_max(pos_b, pos_a) FROM chunk")
        if end is not None:
            last[part] = end
        say(done, len(chunks))


def couple_neighbours(con: duckdb.DuckDBPyConnection) -> None:
    """Records without a key, or whose key was changed, have nothing in common any more but their place: one that is
    missing and one that is unexpected behind the same pair are one that was changed. Only where partitions count."""
    (lone,) = _one(con, "SELECT count(*) FROM faults WHERE kind IN ('missing', 'unexpected')")
    if not lone or lone > _LONE_MAX:
        return
    for side, kind, end in ((0, "missing", "a"), (1, "unexpected", "b")):
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE lone{side} AS WITH f AS (SELECT part_{end} AS part, pos_{end} AS pos,"
            f" scope, ts, unnest([pos_{end} // {_NEIGHBOURS}, pos_{end} // {_NEIGHBOURS} - 1]) AS block FROM faults"
            f" WHERE kind = '{kind}') SELECT f.part, f.pos, any_value(f.scope) AS scope, any_value(f.ts) AS ts,"
            f" coalesce(arg_max(p.pos_b, p.pos_{end}), -1) AS before FROM f LEFT JOIN pairs p ON"
            f" p.part_{end} = f.part AND p.pos_{end} // {_NEIGHBOURS} = f.block AND p.pos_{end} < f.pos"
            " AND p.part_a = p.part_b GROUP BY f.part, f.pos"
        )
    con.execute(
        "CREATE OR REPLACE TEMP TABLE neighbours AS WITH a AS (SELECT *, row_number() OVER (PARTITION BY part, before"
        " ORDER BY pos) AS n FROM lone0), b AS (SELECT *, row_number() OVER (PARTITION BY part, before ORDER BY pos)"
        " AS n FROM lone1) SELECT a.part, a.pos AS pos_a, b.pos AS pos_b, a.scope, a.ts FROM a JOIN b"
        " USING (part, before, n)"
    )
    con.execute(
        "DELETE FROM faults WHERE (kind = 'missing' AND (part_a, pos_a) IN (SELECT (part, pos_a) FROM neighbours))"
        " OR (kind = 'unexpected' AND (part_b, pos_b) IN (SELECT (part, pos_b) FROM neighbours))"
    )
    con.execute("INSERT INTO faults SELECT 'changed', scope, part, pos_a, part, pos_b, ts FROM neighbours")


def _one(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    return con.execute(query).fetchone()

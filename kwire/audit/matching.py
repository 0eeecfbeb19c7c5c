"""Matching the records of both ends, a bucket at a time, in DuckDB.

Within a *scope* (a key, or an identity) records with equal content are partners, in their order. What is left over at
the source is missing, at the copy a duplicate (the source has such a record) or unexpected; a missing and an unexpected
record of one scope together are one that was changed. If the order of partitions counts, partners are looked for in
the same partition first, and those in another one are misplaced.
"""

from __future__ import annotations

import glob
from typing import TYPE_CHECKING, Any, Final

from kwire.audit.order import Order, breaks_within

if TYPE_CHECKING:
    import duckdb

_SAME_PARTITION: Final = 0.9
"""A copy keeps partitions if so large a part of its records is in the partition that they had."""
FAULTS: Final = """CREATE TABLE IF NOT EXISTS faults (kind VARCHAR, scope UHUGEINT, part_a INTEGER, pos_a BIGINT,
    part_b INTEGER, pos_b BIGINT, ts BIGINT)"""
PAIRS: Final = """CREATE TABLE IF NOT EXISTS pairs (okey UHUGEINT, part_a INTEGER, pos_a BIGINT, part_b INTEGER,
    pos_b BIGINT, ts BIGINT)"""
_COLUMNS: Final = {"scope": "UHUGEINT", "content": "UHUGEINT", "part": "INTEGER", "pos": "BIGINT", "ts": "BIGINT"}


class Matcher:
    """Matches buckets of ``folder`` and writes what is wrong into the table ``faults`` of a database, and, where order
    counts beyond a bucket, who is whose partner into ``pairs``. ``late_ms``: the delay from which on a record is late;
    None for none. ``with_identity``: scopes are not keys."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, folder: str, order: Order, *, with_identity: bool, late_ms: int | None
    ) -> None:
        self._con = con
        self._folder = folder
        self._order = order
        self._with_identity = with_identity
        self._late_ms = late_ms
        con.execute(FAULTS)
        con.execute(PAIRS)

    def match(self, bucket: int) -> None:
        """Match one bucket."""
        place = ", part" if self._order is Order.PARTITION else ""
        self._load(bucket)
        self._group(place)
        self._pair(place)
        if place:
            self._misplaced()
        self._changed()
        self._rest()
        self._late()
        self._keep_order()

    def keeps_partitions(self, bucket: int) -> bool | None:
        """Whether records have stayed in their partitions, by those of a bucket; None if none has a partner."""
        self._load(bucket)
        pairs, same = self._one(
            "SELECT count(*), count(*) FILTER (a = b) FROM (SELECT max(part) FILTER (side = 0) AS a,"
            " max(part) FILTER (side = 1) AS b FROM rows GROUP BY scope, content HAVING count(*) = 2 AND"
            " count(*) FILTER (side = 0) = 1)"
        )
        return same >= pairs * _SAME_PARTITION if pairs else None

    def _load(self, bucket: int) -> None:
        okey = "okey" if self._with_identity else "CASE WHEN okey THEN scope END"
        sides = []
        for side in (0, 1):
            files = glob.glob(f"{glob.escape(self._folder)}/{side}/*/rows/bucket={bucket}/*.parquet")
            columns = ", ".join(_COLUMNS)
            if files:
                listed = ", ".join("'" + each.replace("'", "''") + "'" for each in files)
                sides.append(
                    f"SELECT {side} AS side, {columns}, {okey} AS okey FROM read_parquet([{listed}],"
                    " hive_partitioning = false)"
                )
            else:
                empty = ", ".join(f"NULL::{kind} AS {name}" for name, kind in _COLUMNS.items())
                sides.append(f"SELECT {side} AS side, {empty}, NULL::UHUGEINT AS okey WHERE false")
        self._run(f"CREATE OR REPLACE TEMP TABLE rows AS {' UNION ALL '.join(sides)}")

    def _group(self, place: str) -> None:
        """How often each content is at both ends. Nearly all groups have one record of each."""
        ends = [
            f"min({name}) FILTER (side = {side}) AS {name}_{end}"
            for side, end in ((0, "a"), (1, "b"))
            for name in ("part", "pos", "ts")
        ]
        self._run(
            f"CREATE OR REPLACE TEMP TABLE groups AS SELECT scope, content{place and ', part AS place'},"
            " any_value(okey) AS okey, count(*) FILTER (side = 0) AS n_a, count(*) FILTER (side = 1) AS n_b,"
            f" {', '.join(ends)} FROM rows GROUP BY scope, content{place}"
        )

    def _pair(self, place: str) -> None:
        """``partners``, and who has none: ``alone``. Records of a content that is there several times, and not equally
        often, do not count for the order: it is not known which of them is missing."""
        same = "r.scope = g.scope AND r.content = g.content" + (place and " AND r.part = g.place")
        self._run(
            "CREATE OR REPLACE TEMP TABLE many AS SELECT r.*, n_a, n_b, row_number() OVER (PARTITION BY side, r.scope,"
            f" r.content{place and ', r.part'} ORDER BY r.part, r.pos) AS n FROM rows r JOIN groups g ON {same}"
            " WHERE n_a > 1 OR n_b > 1"
        )
        joined = "a.scope = b.scope AND a.content = b.content AND a.n = b.n" + (place and " AND a.part = b.part")
        self._run(
            "CREATE OR REPLACE TEMP TABLE partners AS SELECT scope, okey, part_a, pos_a, part_b, pos_b, ts_a, ts_b,"
            " true AS ordered FROM groups WHERE n_a = 1 AND n_b = 1 UNION ALL SELECT a.scope, a.okey, a.part, a.pos,"
            " b.part, b.pos, a.ts, b.ts, a.n_a = 1 OR a.n_a = a.n_b FROM many a JOIN many b ON"
            f" {joined} WHERE a.side = 0 AND b.side = 1"
        )
        self._run(
            "CREATE OR REPLACE TEMP TABLE alone AS SELECT 0 AS side, scope, content, okey, part_a AS part,"
            " pos_a AS pos, ts_a AS ts FROM groups WHERE n_a = 1 AND n_b = 0 UNION ALL SELECT 1, scope, content, okey,"
            " part_b, pos_b, ts_b FROM groups WHERE n_a = 0 AND n_b = 1 UNION ALL SELECT side, scope, content, okey,"
            " part, pos, ts FROM many WHERE n > CASE side WHEN 0 THEN n_b ELSE n_a END"
        )

    def _misplaced(self) -> None:
        """Partners in different partitions."""
        self._couple("misplaced", "scope, content", "true")

    def _changed(self) -> None:
        """The same scope with other content. What the source has elsewhere is a duplicate instead."""
        self._run(
            "CREATE OR REPLACE TEMP TABLE doubled AS SELECT scope, part, pos FROM alone WHERE side = 1 AND"
            " (scope, content) IN (SELECT (scope, content) FROM rows WHERE side = 0)"
        )
        self._couple("changed", "scope", "side = 0 OR (part, pos) NOT IN (SELECT (part, pos) FROM doubled)")

    def _couple(self, kind: str, same: str, condition: str) -> None:
        """Take records of both ends that are ``same`` out of those that are alone, in their order."""
        on = " AND ".join(f"a.{name.strip()} = b.{name.strip()}" for name in same.split(","))
        self._run(
            f"CREATE OR REPLACE TEMP TABLE couples AS WITH ranked AS (SELECT *, row_number() OVER (PARTITION BY side,"
            f" {same} ORDER BY part, pos) AS n FROM alone WHERE {condition}) SELECT a.scope, a.part AS part_a,"
            " a.pos AS pos_a, b.part AS part_b, b.pos AS pos_b, a.ts AS ts FROM ranked a JOIN ranked b ON"
            f" {on} AND a.n = b.n WHERE a.side = 0 AND b.side = 1"
        )
        self._run(f"INSERT INTO faults SELECT '{kind}', scope, part_a, pos_a, part_b, pos_b, ts FROM couples")
        self._run(
            "DELETE FROM alone WHERE (side = 0 AND (part, pos) IN (SELECT (part_a, pos_a) FROM couples))"
            " OR (side = 1 AND (part, pos) IN (SELECT (part_b, pos_b) FROM couples))"
        )

    def _rest(self) -> None:
        self._run(
            "INSERT INTO faults SELECT 'missing', scope, part, pos, NULL, NULL, ts FROM alone WHERE side = 0"
            " UNION ALL SELECT CASE WHEN (part, pos) IN (SELECT (part, pos) FROM doubled) THEN 'duplicate'"
            " ELSE 'unexpected' END, scope, NULL, NULL, part, pos, ts FROM alone WHERE side = 1"
        )

    def _late(self) -> None:
        if self._late_ms is not None:
            self._run(
                "INSERT INTO faults SELECT 'late', scope, part_a, pos_a, part_b, pos_b, ts_a FROM partners WHERE"
                f" ts_b - ts_a > {self._late_ms}"
            )

    def _keep_order(self) -> None:
        if self._order is Order.NONE:
            return
        if self._order is Order.KEY and not self._with_identity:  # a bucket has all records of its keys
            self._run(
                breaks_within("(SELECT okey, part_a, pos_a, part_b, pos_b, ts_a AS ts FROM partners WHERE ordered)")
            )
        else:
            self._run(
                "INSERT INTO pairs SELECT okey, part_a, pos_a, part_b, pos_b, ts_a FROM partners WHERE ordered"
                + (" AND okey IS NOT NULL" if self._order is Order.KEY else "")
            )

    def _run(self, query: str) -> None:
        self._con.execute(query)

    def _one(self, query: str) -> Any:
        return self._con.execute(query).fetchone()

"""`audit`: compare two ends."""

from __future__ import annotations

import math
import os
import tempfile
import time
from typing import Final, NamedTuple

from kwire.audit.ends import End, TableEnd
from kwire.audit.errors import AuditError
from kwire.audit.examples import Contents, examples, keys
from kwire.audit.fields import SAMPLE_OF, Comparison, Side, digest_query
from kwire.audit.matching import Matcher
from kwire.audit.order import Order, check_keys, check_partitions, couple_neighbours
from kwire.audit.planning import Plan, plan
from kwire.audit.rows import EQUAL, FAULTS, SAMPLED, AuditRow
from kwire.audit.spilling import Spec, spill, table_facts
from kwire.audit.summing import Sums
from kwire.audit.work import Progress, Work, database

_CONFIDENCE: Final = 0.95
_SALT_BYTES: Final = 64


class Wanted(NamedTuple):
    """What is to be compared, and how. ``order`` None: what the ends have. ``sample``: a part of the keys, 1 for all.
    ``grace_ms``: younger records may be missing. ``may_lack``: a copy that does not exist is empty."""

    source: End
    copy: End
    comparison: Comparison
    order: Order | None = None
    sample: float = 1.0
    from_ms: int | None = None
    until_ms: int | None = None
    late_ms: int | None = None
    grace_ms: int | None = None
    window_ms: int | None = None
    committed: bool = True
    examples: int = 5
    may_lack: bool = False


def audit(wanted: Wanted, work: Work) -> AuditRow:
    """Compare two ends. `AuditError`, `ReadError`, `CommandError`, OSError if that cannot be done."""
    with tempfile.TemporaryDirectory(prefix="kwire-audit-", dir=work.folder, ignore_cleanup_errors=True) as folder:
        return _Audit(wanted, work._replace(folder=folder)).run()


class _Audit:
    """One audit, in a folder of its own."""

    def __init__(self, wanted: Wanted, work: Work) -> None:
        self._started_ms = time.time_ns() // 1_000_000
        self._wanted = wanted
        self._work = work
        # The copy's end is taken first: then the source has all that the copy can have.
        copy = self._plan(wanted.copy, may_lack=wanted.may_lack)
        self._plans = [self._plan(wanted.source, may_lack=False), copy]
        self._columns: list[dict[str, str] | None] = [None, None]
        for index, each in enumerate(self._plans):
            if each.tables:
                self._columns[index], rows = table_facts(each.tables, work)
                self._plans[index] = each._replace(rows=rows)
        self._comparison = _fitting(wanted.comparison, self._plans, self._columns)
        self._con = database(f"{work.folder}/audit.duckdb", work.folder, work.memory_mb, work.jobs)
        self._progress = Progress(quiet=work.quiet)

    def run(self) -> AuditRow:
        """Read, match, sum up."""
        spec = self._spec()
        try:
            spill(self._plans, self._columns, spec, self._work)
            order = self._order(spec)
            self._match(spec, order)
            return self._row(order)
        finally:
            self._progress.close()
            self._con.close()

    def _plan(self, end: End, *, may_lack: bool) -> Plan:
        from_ms = None if self._wanted.comparison.times is not None else self._wanted.from_ms
        return plan(end, committed=self._wanted.committed, from_ms=from_ms, may_lack=may_lack)

    def _spec(self) -> Spec:
        wanted = self._wanted
        rows = sum(each.rows for each in self._plans)
        sample = max(1, round(wanted.sample * SAMPLE_OF))
        return Spec(
            self._comparison,
            os.urandom(_SALT_BYTES),
            self._work.folder,
            self._work.buckets(math.ceil(rows * sample / SAMPLE_OF)),
            sample,
            (wanted.from_ms, wanted.until_ms),
            wanted.committed,
        )

    def _order(self, spec: Spec) -> Order:
        """What has to stay in order. `AuditError` if that cannot be."""
        tables = any(isinstance(each.end, TableEnd) for each in self._plans)
        source, copy = (each.partitions for each in self._plans)
        wanted = self._wanted.order
        if wanted is not None and wanted is not Order.NONE and tables:
            raise AuditError("rows of a table have no order: leave out --order")
        if wanted is Order.PARTITION and source != copy:
            raise AuditError(f"the source has {source} partitions and the copy {copy}: use --order key")
        if wanted is not None:
            return wanted
        if tables:
            return Order.NONE
        if source != copy:
            return Order.KEY
        matcher = self._matcher(Order.NONE)
        looks = (matcher.keeps_partitions(bucket) for bucket in range(spec.buckets))
        return Order.PARTITION if next((each for each in looks if each is not None), True) else Order.KEY

    def _matcher(self, order: Order) -> Matcher:
        has_identity = bool(self._comparison.identity)
        return Matcher(self._con, self._work.folder, order, with_identity=has_identity, late_ms=self._wanted.late_ms)

    def _match(self, spec: Spec, order: Order) -> None:
        matcher = self._matcher(order)
        for bucket in range(spec.buckets):
            matcher.match(bucket)
            self._progress("matched", bucket + 1, spec.buckets)
        if order is Order.PARTITION:
            check_partitions(self._con, lambda done, total: self._progress("order", done, total))
            couple_neighbours(self._con)
        elif order is Order.KEY and self._comparison.identity:
            check_keys(self._con, lambda done, total: self._progress("order", done, total))

    def _row(self, order: Order) -> AuditRow:
        wanted, sums = self._wanted, Sums(self._con, self._work.folder)
        pending = sums.defer(None if wanted.grace_ms is None else self._started_ms - wanted.grace_ms)
        faults, records, width = sums.faults(), sums.records(), sums.width(wanted.window_ms)
        sides = [Contents(each, self._work, committed=wanted.committed) for each in self._plans]
        is_sample = wanted.sample < 1
        return AuditRow(
            source=wanted.source.text,
            copy=wanted.copy.text,
            verdict=FAULTS if faults else SAMPLED if is_sample else EQUAL,
            source_records=sum(records[0].values()),
            copy_records=sum(records[1].values()),
            faults=faults,
            pending=pending,
            compared=self._comparison.names(),
            order=order.value,
            sample=wanted.sample,
            confidence=_confidence(wanted.sample) if is_sample else None,
            started_ms=self._started_ms,
            seconds=round((time.time_ns() // 1_000_000 - self._started_ms) / 1000, 3),
            window_ms=width,
            windows=sums.windows(width),
            partitions=sums.partitions(records),
            keys=keys(self._con, sides),
            examples=examples(self._con, sides, wanted.examples),
            producers=[],
        )


def _confidence(sample: float) -> str:
    """What a sample without a fault says: with fewer faults than this it is seen less often than in 5 of 100 cases."""
    most = math.ceil(math.log(1 - _CONFIDENCE) / math.log(1 - sample))
    return (
        f"{sample:.4%} of the keys were looked at, chosen at random: if {most:,} or more keys had faults, this sample"
        f" would have shown one with a probability of {_CONFIDENCE:.0%} or more"
    )


def _fitting(what: Comparison, plans: list[Plan], columns: list[dict[str, str] | None]) -> Comparison:
    """The comparison that both ends can have. `AuditError` for fields that one does not have."""
    tables = [each for each in columns if each is not None]
    has_table = any(isinstance(each.end, TableEnd) for each in plans)
    keys_there = all("key" in each for each in tables)
    found = what._replace(
        keys=what.keys and keys_there,
        values=all("value" in each for each in tables),
        headers=what.headers and not has_table and not what.compared,
    )
    if has_table and what.timestamps:
        raise AuditError("--timestamps: a table has no timestamps of records: compare a column with --compare")
    if not found.values and not found.compared and not found.identity:
        raise AuditError(
            f"the table has no column value: say with --identity and --compare which fields are the same, such as"
            f" '$.order_id=order_id'. It has {', '.join(tables[0])}"
        )
    for index, each in enumerate(columns):
        if each is None and isinstance(plans[index].end, TableEnd):
            continue  # a table without files
        digest_query(Side(index, each), found, b"", "", ("", ""))  # says what is missing, before anything is read
    return found

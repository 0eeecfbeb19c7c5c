"""`TopicDataset`: a topic as DuckDB scans it. DuckDB names the columns that a query uses and the filters on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from kwire.arrow.reading import Reading
from kwire.sql.topics.columns import schema
from kwire.sql.topics.contents import Contents
from kwire.sql.topics.forms import Form
from kwire.sql.topics.pipeline import read_ahead
from kwire.sql.topics.predicate import Predicate
from kwire.sql.topics.source import Counts, Source
from kwire.sql.topics.spans import Spans

if TYPE_CHECKING:
    import pyarrow.compute as pc

_TYPED: Final = {"key": "key_bytes", "value": "value_bytes"}
"""Columns with types, and the bytes that they are made of."""


class Scan:
    """One reading of a topic by DuckDB: what it has read, and how many contents did not have their column's type.
    ``failure``: why it ended early."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.counts = Counts()
        self.misfits: dict[str, Contents] = {}
        self.failure: BaseException | None = None


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """The spans of a topic. It is a subclass of Arrow's class because DuckDB gives filters to these only; ``noted``
    is called with each scan before it begins."""

    def __init__(
        self, topic: str, spans: Spans, source: Source, forms: tuple[Form, Form], noted: Callable[[Scan], None]
    ) -> None:
        self._topic = topic
        self._spans = spans
        self._source = source
        self._forms = dict(zip(_TYPED, forms, strict=True))
        self._noted = noted

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return schema(*(form.type for form in self._forms.values()))

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None) -> _Scanner:
        """What reads some of the columns, of the records that match a filter."""
        return _Scanner(self, self.schema.names if columns is None else list(columns), filter)

    def batches(self, columns: list[str], filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """The columns of matching records."""
        scan = Scan(self._topic)
        self._noted(scan)
        try:
            yield from self._read(scan, columns, filter)
        except Exception as error:
            scan.failure = error
            raise

    def _read(self, scan: Scan, columns: list[str], filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        predicate = Predicate(filter, self.schema)
        typed = {name: form.contents() for name, form in self._forms.items()}
        scan.misfits = typed
        rows = _Rows(self.schema, columns, filter, typed)
        how = Reading(
            committed=True,
            headers="headers" in rows.used,
            keys=not rows.used.isdisjoint({"key", "key_bytes"}),
            values=not rows.used.isdisjoint({"value", "value_bytes"}),
            times="timestamp" in rows.used,
            endless=True,
        )
        for part in self._source.parts(self._topic, self._spans, predicate, scan.counts):
            for raw in part.read(how):
                scan.counts.records += raw.num_rows
                yield rows.made(raw)


class _Scanner:
    """What DuckDB wants of Arrow's class of that name."""

    def __init__(self, dataset: TopicDataset, columns: list[str], filter: pc.Expression | None) -> None:
        self._dataset = dataset
        self._columns = columns
        self._filter = filter

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns that are read."""
        whole = self._dataset.schema
        return pa.schema([whole.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        """Reads them."""
        batches = read_ahead(self._dataset.batches(self._columns, self._filter))
        return pa.RecordBatchReader.from_batches(self.projected_schema, batches)


class _Rows:
    """Makes the columns of a query from what `kwire.arrow` reads. Contents get their types after the filter, unless
    it is about them."""

    def __init__(
        self, whole: pa.Schema, columns: list[str], filter: pc.Expression | None, typed: dict[str, Contents]
    ) -> None:
        self._filter = filter
        self._typed = typed
        self._schema = pa.schema([whole.field(name) for name in columns])
        self._filtered = _names_in(filter, whole)
        self.used = {*columns, *self._filtered}

    def made(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the records that match."""
        found = {name: raw.column(name) for name in ("offset", "partition", "timestamp")}
        found |= {"key_bytes": raw.column("key"), "value_bytes": raw.column("value")}
        if "headers" in self.used:
            found["headers"] = raw.column("headers")
        early = [name for name in self._typed if name in self._filtered]
        found |= {name: self._typed[name].typed(found[_TYPED[name]]) for name in early}
        if self._filter is not None:
            kept = pa.RecordBatch.from_pydict(found).filter(self._filter)
            found = dict(zip(found, kept.columns, strict=True))
        late = [name for name in self._typed if name in self._schema.names and name not in early]
        found |= {name: self._typed[name].typed(found[_TYPED[name]]) for name in late}
        return pa.RecordBatch.from_arrays([found[each.name] for each in self._schema], schema=self._schema)


def _names_in(filter: pc.Expression | None, whole: pa.Schema) -> set[str]:
    """The columns that a filter is about."""
    if filter is None:
        return set()
    plain = [pa.field(each.name, each.type) for each in whole]
    return {each.name for each in plain if not _is_complete(filter, [other for other in plain if other != each])}


def _is_complete(filter: pc.Expression, fields: Sequence[Any]) -> bool:
    """Whether a filter can be evaluated on these columns."""
    try:
        pa.schema(fields).empty_table().filter(filter)
    except pa.ArrowInvalid:
        return False
    return True

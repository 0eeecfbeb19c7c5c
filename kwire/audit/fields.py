"""What is compared: SQL of DuckDB that makes digests of records and of rows of tables.

Digests have 128 bits and begin with a secret that is new in each run, so that no records can be made that collide on
purpose; two records of 10 billion collide by accident with a probability of 1e-19.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kwire.audit.errors import AuditError

BUCKET_SHIFT: Final = 32
"""Buckets take the upper half of a hash, samples the lower."""
SAMPLE_OF: Final = 1 << 24
_RECORD_FIELDS: Final = ("key", "value", "timestamp")
_FRACTIONS: Final = ("FLOAT", "DOUBLE", "DECIMAL")
MACROS: Final = (
    "CREATE OR REPLACE TEMP MACRO plain(d) AS CASE WHEN d = trunc(d) AND abs(d) < 9e15 THEN d::BIGINT::VARCHAR"
    " ELSE d::VARCHAR END",
    "CREATE OR REPLACE TEMP MACRO text_of(b) AS coalesce(TRY(decode(b)), '\\x' || hex(b))",
    "CREATE OR REPLACE TEMP MACRO part(b) AS coalesce(encode(octet_length(b)::VARCHAR), 'n'::BLOB) || ':'::BLOB ||"
    " coalesce(b, ''::BLOB)",
    "CREATE OR REPLACE TEMP MACRO field(j) AS CASE json_type(j) WHEN 'DOUBLE' THEN plain(j::DOUBLE)"
    " WHEN 'NULL' THEN NULL ELSE json_extract_string(j, '$') END",
)
"""Numbers are compared as numbers: 12, 12.0 and a column of DECIMAL are equal. A NULL differs from an empty text."""


class Pair(NamedTuple):
    """A field by its names at both ends: ``$.path`` in a value that is JSON, a column of a table, or key, value or
    timestamp of a record."""

    source: str
    copy: str

    @classmethod
    def parse(cls, text: str) -> Pair:
        """``FIELD`` or ``SOURCE=COPY``."""
        source, equals, copy = text.partition("=")
        if not source or (equals and not copy):
            raise AuditError(f"{text!r} is no field: FIELD or SOURCE=COPY, such as '$.order_id=order_id'")
        return cls(source, copy if equals else source)

    def of(self, side: int) -> str:
        """The name at one end: 0 for the source, 1 for the copy."""
        return self[side]


class Comparison(NamedTuple):
    """``identity``: fields that say which record is which; none: the key, if ``keys``, and the content. ``compared``:
    the fields that are to be equal; none: value, and ``headers``. ``times``: where a record's time is."""

    identity: tuple[Pair, ...] = ()
    compared: tuple[Pair, ...] = ()
    times: Pair | None = None
    keys: bool = True
    values: bool = True
    headers: bool = True
    timestamps: bool = False

    def names(self) -> list[str]:
        """What is compared, for people."""
        found = ["key"] if self.keys and not self.identity else []
        found += [" = ".join(dict.fromkeys(pair)) for pair in (*self.identity, *self.compared)]
        flags = (
            ("value", self.values and not self.compared),
            ("headers", self.headers),
            ("timestamp", self.timestamps),
        )
        return found + [name for name, wanted in flags if wanted]


class Side(NamedTuple):
    """How rows of one end are named in SQL. ``number``: 0 for the source, 1 for the copy.
    ``columns``: of a table, with their types; None: records of a topic."""

    number: int
    columns: Mapping[str, str] | None

    def key(self) -> str:
        """The key's bytes."""
        return self._bytes("key")

    def value(self) -> str:
        """The value's bytes."""
        return self._bytes("value")

    def text(self, pair: Pair) -> str:
        """A field as text. `AuditError` if this end does not have it."""
        name = pair.of(self.number)
        if name.startswith("$"):
            return f"TRY(field(json_extract(text_of({self.value()}), {_quoted(name)})))"
        if self.columns is None:
            if name not in _RECORD_FIELDS:
                raise AuditError(
                    f"records have no field {name!r}: key, value, timestamp, or a path in JSON as $.{name}"
                )
            return "epoch_ms(timestamp)::VARCHAR" if name == "timestamp" else f"text_of({name})"
        return self._column_text(name)

    def time(self, pair: Pair | None) -> str:
        """A record's time in milliseconds since 1970, or NULL."""
        name = "timestamp" if pair is None else pair.of(self.number)
        if name.startswith("$") and pair is not None:
            text = self.text(pair)
            return f"coalesce(TRY_CAST({text} AS BIGINT), epoch_ms(TRY_CAST({text} AS TIMESTAMPTZ)))"
        if self.columns is None:
            if name != "timestamp":
                raise AuditError(f"records have no time {name!r}: timestamp, or a path in JSON as $.{name}")
            return "epoch_ms(timestamp)"
        if name not in self.columns:
            if pair is None:
                return "NULL::BIGINT"
            raise AuditError(self._lacks(name))
        kind, column = self.columns[name], _named(name)
        if kind.startswith(("TIMESTAMP", "DATE")):
            return f"epoch_ms({column})"
        return f"TRY_CAST({column} AS BIGINT)"

    def _column_text(self, name: str) -> str:
        columns = self.columns or {}
        if name not in columns:
            raise AuditError(self._lacks(name))
        kind, column = columns[name], _named(name)
        if kind == "BLOB":
            return f"text_of({column})"
        return f"plain({column}::DOUBLE)" if kind.startswith(_FRACTIONS) else f"{column}::VARCHAR"

    def _bytes(self, name: str) -> str:
        if self.columns is None:
            return name
        if name not in self.columns:
            raise AuditError(self._lacks(name))
        return _named(name) if self.columns[name] == "BLOB" else f"encode({_named(name)}::VARCHAR)"

    def _lacks(self, name: str) -> str:
        return f"the table has no column {name!r}: it has {', '.join(self.columns or ())}"


def digest_query(side: Side, what: Comparison, salt: bytes, rows: str, place: Sequence[str]) -> str:
    """SELECT of the digests of ``rows``: scope, content, okey, part, pos, ts. ``place``: SQL of part and pos.

    Records with one scope are taken for versions of one another; records with equal scope and content are equal.
    ``okey`` is the key whose order counts: with an identity its digest, else whether the scope is that of a key."""
    secret = "'" + "".join(f"\\x{byte:02x}" for byte in salt) + "'::BLOB"
    content = _content(side, what)
    content_digest = f"md5_number({secret} || 'c'::BLOB || {content})"
    if what.identity:
        texts = " || ".join(f"part(encode({side.text(pair)}))" for pair in what.identity)
        missing = " AND ".join(f"({side.text(pair)}) IS NULL" for pair in what.identity)
        scope = f"CASE WHEN {missing} THEN {content_digest} ELSE md5_number({secret} || 'i'::BLOB || {texts}) END"
        okey = f"md5_number({secret} || 'k'::BLOB || {side.key()})" if what.keys else "NULL::UHUGEINT"
    elif what.keys:
        scope = f"coalesce(md5_number({secret} || 'k'::BLOB || {side.key()}), {content_digest})"
        okey = f"({side.key()}) IS NOT NULL"
    else:
        scope, okey = content_digest, "false"
    part, pos = place
    return (
        f"SELECT {scope} AS scope, {content_digest} AS content, {okey} AS okey, {part} AS part, {pos} AS pos,"
        f" {side.time(what.times)} AS ts FROM {rows}"
    )


def _content(side: Side, what: Comparison) -> str:
    """The bytes that are to be equal, each with its length before it."""
    parts = [f"part(encode({side.text(pair)}))" for pair in what.compared]
    if what.values and not what.compared:
        parts.append(f"part({side.value()})")
    if what.headers:
        parts.append("part(encode(to_json(coalesce(headers, []))::VARCHAR))")
    if what.timestamps:
        parts.append(f"part(encode(({side.time(None)})::VARCHAR))")
    return " || ".join(parts) or "''::BLOB"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _named(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

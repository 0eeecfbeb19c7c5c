"""The columns of a topic, and the types that a key or a value may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["json", "varchar", "blob"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)
SHOWN: Final = ("key", "value", "headers", "partition", "offset", "timestamp", "value_bytes", "key_bytes")
"""The columns in the order that a view has them."""
_JSON: Final = {"ARROW:extension:name": "arrow.json", "ARROW:extension:metadata": ""}


def schema(key: Kind | pa.Field, value: Kind | pa.Field, *, marked: bool = True) -> pa.Schema:
    """The columns in the order that DuckDB scans them; the first is what ``count(*)`` reads. ``key`` and ``value`` are
    of a plain type, or as a field has them. ``marked``: strings of a plain type that are JSON say so."""
    import pyarrow as pa

    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.schema(
        [
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
            _content("key", key, marked),
            _content("value", value, marked),
            pa.field("headers", headers),
            pa.field("key_bytes", pa.binary()),
            pa.field("value_bytes", pa.binary()),
        ]
    )


def _content(name: str, kind: Kind | pa.Field, marked: bool) -> pa.Field:
    import pyarrow as pa

    if not isinstance(kind, str):
        return kind.with_name(name)
    if kind == "blob":
        return pa.field(name, pa.binary())
    return pa.field(name, pa.string(), metadata=_JSON if kind == "json" and marked else None)

"""Which schema a column has by its samples, and its contents by that schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kwire.arrow.payloads.columns import PayloadColumn, shape_of
from kwire.arrow.payloads.shapes import JsonShape, NoShape, Shape
from kwire.cli.schemas.lookup import SchemaLookup, Version
from kwire.schemas import PROTOBUF, DecodeError, Schema, SchemaError, wire
from kwire.sql.topics.contents import Contents, counted

if TYPE_CHECKING:
    import pyarrow as pa


class SchemaForm:
    """A column in the shape of a schema."""

    def __init__(self, shape: Shape, lookup: SchemaLookup) -> None:
        self.type = shape.field
        self._shape = shape
        self._lookup = lookup

    def contents(self) -> Contents:
        """For one scan."""
        return SchemaContents(PayloadColumn(self._shape, self._lookup.schema))


class SchemaContents:
    """Contents by a schema; those that do not fit it become null."""

    def __init__(self, column: PayloadColumn) -> None:
        self._column = column

    @property
    def misfits(self) -> int:
        """How many did not fit."""
        return self._column.misfits

    def typed(self, contents: pa.Array) -> pa.Array:
        """Binary contents in the type. `CommandError` if the registry does not answer."""
        return self._column.typed(contents)

    def note(self, topic: str, column: str) -> str:
        """What did not fit."""
        return (
            f"{counted(self.misfits, column)} not as the schema says, read as NULL ({column}_bytes has what is there), "
            f"the first: {self._column.first_misfit}"
        )


def form_by_schemas(
    lookup: SchemaLookup, subject: str, samples: Sequence[pa.Array], *, as_json: bool
) -> SchemaForm | None:
    """The form of a column whose samples have ids of schemas: all of them, or some if there is the subject; None if
    they do not, or the registry knows none of them. Without samples it is that of the subject, if there is one.
    ``as_json``: JSON, whatever the schemas say. `CommandError`."""
    payloads = [each for array in samples for each in array.to_pylist() if each is not None]
    framed = [each for each in payloads if wire.is_framed(each)]
    if len(framed) < len(payloads) and (not framed or lookup.latest(subject) is None):
        return None
    bodies: dict[int, list[bytes]] = {}
    for each in framed:
        id, body = wire.split(each)
        bodies.setdefault(id, []).append(body)
    writers = _known(lookup, bodies)
    if payloads and not writers:
        return None
    reader = _reader(lookup, subject, writers)
    if reader is None and not payloads:
        return None
    shape = JsonShape() if as_json or reader is None else _shape(reader, writers, bodies)
    return SchemaForm(shape, lookup)


def _known(lookup: SchemaLookup, ids: dict[int, list[bytes]]) -> dict[int, Schema]:
    """The schemas of ids, without unknown ones."""
    found = {}
    for id in ids:
        try:
            found[id] = lookup.schema(id)
        except SchemaError:
            continue
    return found


def _reader(lookup: SchemaLookup, subject: str, writers: dict[int, Schema]) -> Schema | None:
    """The latest schema of the subject that all writers' schemas are of, best the one with the topic's name; None if
    there is none."""
    subjects = [{each.subject for each in versions} for id in writers if (versions := lookup.versions(id))]
    if writers and not subjects:  # all their versions are deleted
        return writers[max(writers)]
    common = set.intersection(*subjects) if subjects else {subject}
    for each in sorted(common, key=lambda name: (name != subject, name)):
        latest = lookup.latest(each)
        if latest is not None:
            return _usable(lookup, latest)
    return None


def _usable(lookup: SchemaLookup, version: Version) -> Schema | None:
    try:
        return lookup.schema(version.id)
    except SchemaError:
        return None


def _shape(reader: Schema, writers: dict[int, Schema], bodies: dict[int, list[bytes]]) -> Shape:
    """The shape of the reader's schema; JSON if it has none."""
    try:
        if reader.type != PROTOBUF:
            return shape_of(reader)
        names = _messages(writers, bodies)
        if len(names) > 1:
            return JsonShape()
        return shape_of(reader, next(iter(names), None))
    except NoShape:
        return JsonShape()


def _messages(writers: dict[int, Schema], bodies: dict[int, list[bytes]]) -> set[str]:
    """The names of the messages that samples are."""
    from kwire.schemas.protobuf.schema import ProtobufSchema

    found = set()
    for id, writer in writers.items():
        if not isinstance(writer, ProtobufSchema):
            continue
        for each in bodies[id]:
            try:
                found.add(writer.name_at(wire.split_indexes(each)[0]))
            except DecodeError:
                continue
    return found

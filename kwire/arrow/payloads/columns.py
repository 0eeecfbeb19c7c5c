"""`PayloadColumn`: binary arrays of payloads become typed ones, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kwire.arrow.payloads.shapes import NoShape, Read, Shape
from kwire.schemas import DecodeError, Schema, SchemaError
from kwire.schemas.wire import HEADER_BYTES, MAGIC

if TYPE_CHECKING:
    import pyarrow as pa

_NONE: Final = b""
_MAGIC: Final = bytes((MAGIC,))


def shape_of(schema: Schema, message: str | None = None) -> Shape:
    """The shape of a schema. ``message``: of Protobuf, the full name of one; by default the file's first. `NoShape`."""
    try:
        return _shape_of(schema, message)
    except (SchemaError, DecodeError) as error:
        raise NoShape(str(error)) from None
    except RecursionError:
        raise NoShape("types are chained too deeply") from None


def _shape_of(schema: Schema, message: str | None) -> Shape:
    if schema.type == "AVRO":
        from kwire.arrow.payloads.avro import AvroShape
        from kwire.schemas.avro.schema import AvroSchema

        assert isinstance(schema, AvroSchema)
        return AvroShape(schema)
    if schema.type == "JSON":
        from kwire.arrow.payloads.json_schema import JsonSchemaShape
        from kwire.schemas.json_schema.schema import JsonSchema

        assert isinstance(schema, JsonSchema)
        return JsonSchemaShape(schema)
    from kwire.arrow.payloads.protobuf import ProtobufShape
    from kwire.schemas.protobuf.schema import ProtobufSchema

    assert isinstance(schema, ProtobufSchema)
    return ProtobufShape(schema, schema.name_at((0,)) if message is None else message)


class PayloadColumn:
    """One column. ``lookup`` finds the schema of an id; `SchemaError` of it means that the payload does not fit, what
    else it raises ends the reading. ``misfits`` counts payloads that did not fit, ``first_misfit`` says why the first
    did not. For one thread."""

    def __init__(self, shape: Shape, lookup: Callable[[int], Schema]) -> None:
        self.misfits = 0
        self.first_misfit = ""
        self._shape = shape
        self._lookup = lookup
        self._reads: dict[bytes, Read] = {}

    def typed(self, payloads: pa.Array) -> pa.Array:
        """The values of payloads; null for null and for what does not fit."""
        import pyarrow as pa

        values = self._values(payloads)
        try:
            return pa.array(values, self._shape.field.type)
        except (pa.ArrowException, OverflowError):
            fitting = [value if self._fits(value) else None for value in values]
            return pa.array(fitting, self._shape.field.type)

    def _values(self, payloads: pa.Array) -> list[Any]:
        """Values that Arrow takes. Payloads are slices of all of them: Arrow's own objects would take longer than many
        a value."""
        content, ends, nulls = _parts(payloads)
        reads, first = self._reads, next(ends)
        values: list[Any] = []
        for end, null in zip(ends, nulls, strict=True):
            start, first = first, end
            if null:
                values.append(None)
                continue
            body = start + HEADER_BYTES
            head = content[start:body] if body <= end else _NONE
            read = reads.get(head) or self._reader(head)
            try:
                values.append(read(content[body:end]))
            except DecodeError as error:
                self._misfit(str(error))
                values.append(None)
        return values

    def _reader(self, head: bytes) -> Read:
        """What reads the bodies behind a header."""
        try:
            if head[:1] != _MAGIC:
                raise DecodeError("it has no schema id")
            read = self._shape.read(self._lookup(int.from_bytes(head[1:], "big")))
        except (SchemaError, DecodeError) as error:
            read = _refusal(str(error))
        if head[:1] == _MAGIC:  # others may have anything there
            self._reads[head] = read
        return read

    def _fits(self, value: Any) -> bool:
        import pyarrow as pa

        try:
            pa.array([value], self._shape.field.type)
        except (pa.ArrowException, OverflowError) as error:
            self._misfit(" ".join(str(error).split())[:200])
            return False
        return True

    def _misfit(self, reason: str) -> None:
        self.misfits += 1
        self.first_misfit = self.first_misfit or reason


def _parts(payloads: pa.Array) -> tuple[bytes, Iterator[int], Iterable[bool]]:
    """All payloads one behind the other; where the first begins and each ends; which are null."""
    import numpy as np

    _, offsets, data = payloads.buffers()
    count = len(payloads) + 1
    ends = np.frombuffer(offsets, np.int32, count, payloads.offset * 4) if offsets else np.zeros(count, np.int32)
    first, last = int(ends[0]), int(ends[-1])  # of a slice the buffer has more
    content = data.slice(first, last - first).to_pybytes() if last > first else b""
    nulls = payloads.is_null().to_numpy(zero_copy_only=False)
    return content, iter((ends - first).tolist()), nulls.tolist()


def _refusal(reason: str) -> Read:
    def refuse(body: bytes) -> Any:
        raise DecodeError(reason)

    return refuse

"""`ProtobufShape`: a message of a Protobuf schema as an Arrow type.

| Protobuf | Arrow, and SQL |
| --- | --- |
| message, repeated, map | struct, list, map; a message without fields is JSON |
| integers, float, double, bool, string, bytes | the same, with and without a sign |
| enum | string: the name, or the number of a value without one |
| a field with presence (optional, oneof, a message) that is not set | null |
| ``google.protobuf.Timestamp``, ``google.type.Date``, ``TimeOfDay`` | timestamp, date, time |
| wrappers (``google.protobuf.StringValue`` …) | the value, or null |
| ``confluent.type.Decimal`` | string: each value has a scale of its own |
| ``Struct``, ``Value``, ``ListValue``, ``Any``, ``Duration``, ``FieldMask`` | JSON, as Protobuf writes it |
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.arrow.payloads.shapes import Convert, NoShape, Read, Shape, field, json_field, struct
from kwire.schemas import Schema, wire
from kwire.schemas.errors import DecodeError
from kwire.schemas.json_text import compact
from kwire.schemas.limits import Budget
from kwire.schemas.protobuf.schema import ProtobufSchema

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS_MAX: Final = 10_000
"""Fields of a column, those within others included."""
_EXACT: Final = Context(prec=100_000)
_SCALE_MAX: Final = 10_000
_GOOGLE: Final = "google.protobuf."
_AS_JSON: Final = ("Struct", "Value", "ListValue", "Any", "Duration", "FieldMask")
_WRAPPERS: Final = "Value"


class _Made(NamedTuple):
    field: pa.Field
    convert: Convert


class ProtobufShape(Shape):
    """One message of a schema. ``message``: its full name. `NoShape`."""

    def __init__(self, schema: ProtobufSchema, message: str) -> None:
        descriptor = schema.message(message)
        made = _Fields().message("", descriptor)
        super().__init__(made.field)
        self._name = message
        self._new: Callable[[], Any] = schema.message_class(message)
        self._convert = made.convert

    def read(self, writer: Schema) -> Read:
        """What reads bodies of a schema that has a message with this name: by the reader's fields."""
        if not isinstance(writer, ProtobufSchema):
            raise DecodeError(f"the value has a schema of {writer.type}, the column one of Protobuf")
        names: dict[tuple[int, ...], str] = {}

        def read(body: bytes) -> Any:
            indexes, data = wire.split_indexes(body)
            name = names.get(indexes)
            if name is None:
                name = names[indexes] = writer.name_at(indexes)
            if name != self._name:
                raise DecodeError(f"the value is a message {name}, not {self._name}")
            message = self._new()
            try:
                message.ParseFromString(data)
            except Exception as error:  # DecodeError of the library, RuntimeError for text that is not UTF-8
                raise DecodeError(f"the bytes do not fit the Protobuf schema: {error}") from None
            return self._convert(message)

        return read


class _Fields:
    """Makes fields of descriptors, up to `FIELDS_MAX`."""

    def __init__(self) -> None:
        self._budget = Budget(FIELDS_MAX, "fields")
        self._open: set[str] = set()

    def message(self, name: str, descriptor: Any) -> _Made:
        """A field of a message. `NoShape`."""
        self._budget.take()
        known = _known(name, descriptor)
        if known is not None:
            return known
        if descriptor.full_name in self._open:
            raise NoShape(f"the message {descriptor.full_name} contains itself")
        if not descriptor.fields:
            return _as_json(name)
        self._open.add(descriptor.full_name)
        getters = {each.name: self._getter(each) for each in descriptor.fields}
        self._open.discard(descriptor.full_name)

        def convert(message: Any) -> dict[str, Any]:
            return {name: get(message) for name, (_, get) in getters.items()}

        return _Made(field(name, struct([made for made, _ in getters.values()])), convert)

    def _getter(self, descriptor: Any) -> tuple[pa.Field, Convert]:
        """A field, and what takes its value from a message."""
        import pyarrow as pa

        name = descriptor.name
        entry = descriptor.message_type
        if entry is not None and entry.GetOptions().map_entry:
            keys, values = self._single("key", entry.fields[0]), self._single("value", entry.fields[1])
            return (
                field(name, pa.map_(keys.field.type, values.field)),
                lambda message: {key: values.convert(each) for key, each in getattr(message, name).items()},
            )
        made = self._single("element" if _is_repeated(descriptor) else name, descriptor)
        if _is_repeated(descriptor):
            return (
                field(name, pa.list_(made.field)),
                lambda message: [made.convert(each) for each in getattr(message, name)],
            )
        if descriptor.has_presence:
            return made.field, lambda message: made.convert(getattr(message, name)) if message.HasField(name) else None
        return made.field, lambda message: made.convert(getattr(message, name))

    def _single(self, name: str, descriptor: Any) -> _Made:
        if descriptor.message_type is not None:
            return self.message(name, descriptor.message_type)
        self._budget.take()
        if descriptor.enum_type is not None:
            return _enumeration(name, descriptor.enum_type)
        return _Made(field(name, _plain(descriptor)), _same)


def _is_repeated(descriptor: Any) -> bool:
    found = getattr(descriptor, "is_repeated", None)  # older releases have the label only
    return bool(descriptor.label == descriptor.LABEL_REPEATED if found is None else found)


def _plain(descriptor: Any) -> pa.DataType:
    import pyarrow as pa

    kinds = {
        descriptor.CPPTYPE_INT32: pa.int32,
        descriptor.CPPTYPE_INT64: pa.int64,
        descriptor.CPPTYPE_UINT32: pa.uint32,
        descriptor.CPPTYPE_UINT64: pa.uint64,
        descriptor.CPPTYPE_DOUBLE: pa.float64,
        descriptor.CPPTYPE_FLOAT: pa.float32,
        descriptor.CPPTYPE_BOOL: pa.bool_,
        descriptor.CPPTYPE_STRING: pa.string,
    }
    return pa.binary() if descriptor.type == descriptor.TYPE_BYTES else kinds[descriptor.cpp_type]()


def _enumeration(name: str, descriptor: Any) -> _Made:
    import pyarrow as pa

    names = {each.number: each.name for each in reversed(descriptor.values)}
    return _Made(field(name, pa.string()), lambda number: names.get(number) or str(number))


def _known(name: str, descriptor: Any) -> _Made | None:
    """A message that has a type of its own."""
    import pyarrow as pa

    full = descriptor.full_name
    if full == f"{_GOOGLE}Timestamp":
        return _Made(field(name, pa.timestamp("us", "UTC")), _instant)
    if full == "google.type.Date":
        return _Made(field(name, pa.date32()), _date)
    if full == "google.type.TimeOfDay":
        return _Made(field(name, pa.time64("us")), _time)
    if full == "confluent.type.Decimal":
        return _Made(field(name, pa.string()), _decimal)
    if not full.startswith(_GOOGLE):
        return None
    word = full.removeprefix(_GOOGLE)
    if word in _AS_JSON:
        return _as_json(name)
    if word.endswith(_WRAPPERS) and [each.name for each in descriptor.fields] == ["value"]:
        return _Made(field(name, _plain(descriptor.fields[0])), lambda message: message.value)
    return None


def _as_json(name: str) -> _Made:
    return _Made(json_field(name), _json)


def _json(message: Any) -> str:
    from google.protobuf import json_format

    try:
        return compact(json_format.MessageToDict(message, preserving_proto_field_name=True))
    except (json_format.Error, TypeError, ValueError, RecursionError) as error:
        raise DecodeError(f"the message cannot be shown as JSON: {error}") from None


def _same(value: Any) -> Any:
    return value


def _instant(message: Any) -> int:
    return int(message.seconds) * 1_000_000 + int(message.nanos) // 1000


def _date(message: Any) -> date | None:
    try:
        return date(message.year, message.month, message.day)
    except (ValueError, OverflowError):
        raise DecodeError(f"{message.year}-{message.month}-{message.day} is no date") from None


def _time(message: Any) -> time:
    try:
        return time(message.hours, message.minutes, message.seconds, message.nanos // 1000)
    except (ValueError, OverflowError):
        raise DecodeError(f"{message.hours}:{message.minutes}:{message.seconds} is no time of a day") from None


def _decimal(message: Any) -> str:
    if not 0 <= message.scale <= _SCALE_MAX:
        raise DecodeError(f"a decimal has a scale of {message.scale}")
    return f"{Decimal(int.from_bytes(message.value, 'big', signed=True)).scaleb(-message.scale, _EXACT):f}"

"""Values of a writer's Avro schema as a reader's, by Avro's rules for schema resolution, and as Arrow takes them.

What has to be done is found once for a pair of schemas: a function for a value, or None where values stay. Logical
types are the reader's, as in Java, except that decimals of another scale do not fit.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.arrow.payloads.logical import converted, logical
from kwire.arrow.payloads.shapes import Convert, NoShape
from kwire.arrow.payloads.unions import key, key_of, labels
from kwire.schemas.avro.defaults import fits
from kwire.schemas.avro.model import NO_DEFAULT, AvroType, Collection, Enumeration, Field, Fixed, Named, Record, Union
from kwire.schemas.errors import DecodeError
from kwire.schemas.limits import bounded

_FLOATS: Final = ("float", "double")
_EMPTY: Final = "{}"


@bounded
def projected(writer: AvroType, reader: AvroType) -> Convert | None:
    """What makes raw values of the writer's type those of the reader's; None if they stay. `DecodeError` if no value
    fits."""
    return _Projection().of(writer, reader)


class _Projection:
    def __init__(self) -> None:
        self._found: dict[tuple[int, int], Convert | None] = {}

    def of(self, writer: AvroType, reader: AvroType) -> Convert | None:
        pair = (id(writer), id(reader))
        if pair not in self._found:
            self._found[pair] = self._made(writer, reader)
        return self._found[pair]

    def _made(self, writer: AvroType, reader: AvroType) -> Convert | None:
        if isinstance(writer, Union):
            return self._from_union(writer, reader)
        if isinstance(reader, Union):
            return self._to_union(writer, reader)
        if isinstance(writer, Collection) and isinstance(reader, Collection) and writer.kind == reader.kind:
            return _for_all(reader.kind, self.of(writer.items, reader.items))
        if isinstance(writer, Named) and isinstance(reader, Named) and writer.kind == reader.kind:
            _check_names(writer, reader)
            if isinstance(writer, Record) and isinstance(reader, Record):
                return self._record(writer, reader)
            if isinstance(writer, Enumeration) and isinstance(reader, Enumeration):
                return _symbols(writer, reader)
            if isinstance(writer, Fixed) and isinstance(reader, Fixed) and writer.size != reader.size:
                raise DecodeError(f"{writer.full_name} has {writer.size} bytes, not {reader.size}")
        _check_decimals(writer, reader)
        return _both(_promotion(writer, reader), converted(reader))

    def _record(self, writer: Record, reader: Record) -> Convert | None:
        if not reader.fields:
            return lambda _: _EMPTY
        changed: list[tuple[str, str, Convert | None]] = []
        constants: dict[str, Any] = {}
        for each in reader.fields:
            written = _written(each, writer)
            if written is None:
                constants[each.name] = _default(each)
                continue
            convert = self.of(written.type, each.type)
            if convert is not None or written.name != each.name:
                changed.append((written.name, each.name, convert))
        if any(source != name for source, name, _ in changed):
            return _renamed(changed, constants)
        return _in_place([(name, convert) for _, name, convert in changed if convert is not None], constants)

    def _from_union(self, writer: Union, reader: AvroType) -> Convert | None:
        branches: dict[str, Convert | None] = {}
        for each in writer.branches:
            try:
                convert = self.of(each, reader)
            except DecodeError as error:
                convert = _refusal(str(error))
            branches[key(each)] = _unnamed(convert) if isinstance(each, Named) else convert
        if all(each is None for each in branches.values()):
            return None

        def convert_any(value: Any) -> Any:
            convert = branches["null" if value is None else key_of(value)]
            return value if convert is None else convert(value)

        return convert_any

    def _to_union(self, writer: AvroType, reader: Union) -> Convert | None:
        if writer.kind == "null":
            if any(each.kind == "null" for each in reader.branches):
                return None
            raise DecodeError("null is no value of the reader's type")
        chosen, convert = self._branch(writer, reader)
        try:
            found = {each.key: each.label for each in labels(reader)}
        except NoShape as error:
            raise DecodeError(str(error)) from None
        if len(found) == 1:
            return convert
        label = found[key(chosen)]
        return (lambda value: {label: value}) if convert is None else lambda value: {label: convert(value)}

    def _branch(self, writer: AvroType, reader: Union) -> tuple[AvroType, Convert | None]:
        """The reader's type for a writer's: the same one if it has that, else the first that values can become."""
        same = [each for each in reader.branches if _is_same(writer, each)]
        for each in (*same, *reader.branches):
            try:
                return each, self.of(writer, each)
            except DecodeError:
                continue
        raise DecodeError(f"{_shown(writer)} is none of the reader's types")


def _is_same(writer: AvroType, reader: AvroType) -> bool:
    if isinstance(writer, Named) and isinstance(reader, Named):
        return writer.kind == reader.kind and writer.full_name == reader.full_name
    return writer.kind == reader.kind


def _check_names(writer: Named, reader: Named) -> None:
    """As in Java: names are compared without namespaces, or an alias of the reader has the writer's full name."""
    if writer.name != reader.name and writer.full_name not in reader.aliases:
        raise DecodeError(f"the value is {_shown(writer)}, not {_shown(reader)}")


def _check_decimals(writer: AvroType, reader: AvroType) -> None:
    own, wanted = logical(writer), logical(reader)
    if own and wanted and own.name == wanted.name == "decimal" and own.scale != wanted.scale:
        raise DecodeError(f"decimals with {own.scale} digits after the point do not have {wanted.scale}")


def _promotion(writer: AvroType, reader: AvroType) -> Convert | None:
    if writer.kind == reader.kind:
        return None
    pair = (writer.kind, reader.kind)
    if writer.kind in ("int", "long") and reader.kind in _FLOATS:
        return float
    if pair in (("int", "long"), ("float", "double")):
        return None
    if pair == ("string", "bytes"):
        return str.encode
    if pair == ("bytes", "string"):
        return _text
    raise DecodeError(f"{_shown(writer)} cannot become {_shown(reader)}")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise DecodeError("bytes are no text") from None


def _both(first: Convert | None, second: Convert | None) -> Convert | None:
    if first is None or second is None:
        return first or second
    return lambda value: second(first(value))


def _for_all(kind: str, convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    if kind == "array":
        return lambda values: [convert(each) for each in values]
    return lambda values: {name: convert(each) for name, each in values.items()}


def _unnamed(convert: Convert | None) -> Convert:
    """For a value of a union, which stands behind the name of its type."""
    return (lambda pair: pair[1]) if convert is None else lambda pair: convert(pair[1])


def _refusal(reason: str) -> Convert:
    def refuse(value: Any) -> Any:
        raise DecodeError(reason)

    return refuse


def _in_place(changed: list[tuple[str, Convert]], constants: dict[str, Any]) -> Convert | None:
    if not changed and not constants:
        return None

    def convert_record(value: dict[str, Any]) -> dict[str, Any]:
        for name, convert in changed:
            value[name] = convert(value[name])
        value.update(constants)
        return value

    return convert_record


def _renamed(changed: list[tuple[str, str, Convert | None]], constants: dict[str, Any]) -> Convert:
    def convert_record(value: dict[str, Any]) -> dict[str, Any]:
        new = {name: value[source] if convert is None else convert(value[source]) for source, name, convert in changed}
        return {**value, **new, **constants}

    return convert_record


def _symbols(writer: Enumeration, reader: Enumeration) -> Convert | None:
    known = frozenset(reader.symbols)
    if known.issuperset(writer.symbols):
        return None

    def convert_symbol(symbol: str) -> str:
        if symbol in known:
            return symbol
        if reader.default is None:
            raise DecodeError(f"{symbol} is no symbol of the reader's {reader.full_name}")
        return reader.default

    return convert_symbol


def _written(field: Field, writer: Record) -> Field | None:
    return next((writer.by_name[each] for each in (field.name, *field.aliases) if each in writer.by_name), None)


def _default(field: Field) -> Any:
    if field.default is NO_DEFAULT:
        raise DecodeError(f"the field {field.name} was not written, and has no default")
    return default_value(field.type, field.default)


def default_value(type: AvroType, value: Any) -> Any:
    """A default, as JSON has it, as Arrow takes it."""
    if isinstance(type, Union):
        chosen = next((each for each in type.branches if fits(each, value)), type.branches[0])
        if chosen.kind == "null":
            return None
        found = {each.key: each.label for each in labels(type)}
        made = default_value(chosen, value)
        return made if len(found) == 1 else {found[key(chosen)]: made}
    if isinstance(type, Record):
        if not type.fields:
            return _EMPTY
        return {
            each.name: default_value(each.type, value[each.name]) if each.name in value else _default(each)
            for each in type.fields
        }
    if isinstance(type, Collection):
        if type.kind == "array":
            return [default_value(type.items, each) for each in value]
        return {name: default_value(type.items, each) for name, each in value.items()}
    if type.kind in ("bytes", "fixed"):
        value = value.encode("latin-1", "replace")
    elif type.kind in _FLOATS:
        value = float(value)
    convert = converted(type)
    return value if convert is None else convert(value)


def _shown(type: AvroType) -> str:
    return type.full_name if isinstance(type, Named) else type.kind

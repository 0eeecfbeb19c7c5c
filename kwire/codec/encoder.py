"""Writes the encode function of one message class in one version.

The function collects pieces in a list: runs of fixed-size values, the lengths among them included, are one ``pack``;
strings and bytes follow as they are. A field that the version does not have must hold its default unless Kafka's
tables call it ignorable.

The same text, with a ``yield`` after every so many elements of arrays, is the function that encodes in slices.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kwire.codec import primitives
from kwire.codec.errors import CodecError
from kwire.codec.message import Message, Struct
from kwire.codec.schema import FIXED, Field, fields_of, layout
from kwire.codec.source import Source

_HEAD = "def generated(o, out, parts):\n  try:"
_SLICED_HEAD = "def generated(o, out, parts, slice_size):\n  try:"
_TAIL = (
    "  except (struct_error, AttributeError, TypeError, ValueError, OverflowError) as error:",
    "    raise CodecError(f'{cannot}: {error}') from error",
)


def make_encoder(cls: type[Message], version: int) -> Callable[..., Any]:
    """-> function (message, list of pieces, list of finished parts or None)."""
    return _EncoderWriter(cls, version, in_slices=False).write()


def make_sliced_encoder(cls: type[Message], version: int) -> Callable[..., Any]:
    """-> generator function (message, list of pieces, list of finished parts or None, elements in a slice)."""
    return _EncoderWriter(cls, version, in_slices=True).write()


class _EncoderWriter:
    def __init__(self, cls: type[Message], version: int, *, in_slices: bool) -> None:
        self._cls = cls
        self._version = version
        self._flexible = cls.FLEXIBLE_VERSIONS[0] <= version <= cls.FLEXIBLE_VERSIONS[1]
        self._in_slices = in_slices
        self._append = "a"
        self._pending: list[tuple[str, str]] = []
        self._source = Source(
            {
                "CodecError": CodecError,
                "struct_error": struct.error,
                "cannot": f"{cls.__name__} cannot be written as version {version}",
                "short": primitives.SHORT_VARINTS,
                "varint": primitives.varint,
                "string_varint": primitives.string_varint,
                "tag_section": primitives.tag_section,
                "write_array": primitives.write_array,
                "write_uuids": primitives.write_uuids,
                "write_records": primitives.write_records,
                "records_size": primitives.records_size,
                "not_in_version": primitives.not_in_version,
                "null_refused": primitives.null_refused,
            }
        )

    def write(self) -> Callable[..., Any]:
        self._source.line("a = out.append")
        if self._in_slices:
            self._source.begin_slices()
        self._struct("o", self._cls)
        self._flush()
        head = _SLICED_HEAD if self._in_slices else _HEAD
        return self._source.compile(head, f"<encode {self._cls.__name__} v{self._version}>", list(_TAIL))

    # -- runs of fixed-size values ------------------------------------------------------------------------------

    def _fixed(self, expression: str, code: str) -> None:
        self._pending.append((expression, code))

    def _flush(self, varint: str = "") -> None:
        """Write the pending run at once, with the varint in ``n`` after it if a function for its long form is named."""
        pending, self._pending = self._pending, []
        if not pending and not varint:
            return
        long_form = f"{varint}(n)"
        if not pending:
            self._source.line(f"{self._append}(short[n] if n < 128 else {long_form})")
            return
        plain = self._packed(pending)
        if varint:
            plain = f"{self._packed([*pending, ('n', 'B')])} if n < 128 else {plain} + {long_form}"
        self._source.line(f"{self._append}({plain})")

    def _packed(self, run: list[tuple[str, str]]) -> str:
        codes = "".join(code for _, code in run)
        if not codes.strip("x"):
            return repr(bytes(len(codes)))
        values = ", ".join(expression for expression, code in run if code != "x")
        return f"{self._source.packer(codes, 'pack')}({values})"

    # -- structs ------------------------------------------------------------------------------------------------

    def _struct(self, var: str, cls: type[Struct]) -> None:
        plain, tagged, absent = layout(cls, self._version, self._flexible)
        for field in absent:
            if not field.ignorable:
                condition = self._differs(f"{var}.{field.name}", field)
                self._source.line(f"if {condition}: raise not_in_version({field.name!r}, {self._version})")
        for field in plain:
            self._field(f"{var}.{field.name}", field)
        if self._flexible:
            self._tags(var, tagged)
        else:
            self._source.line(f"if {var}.unknown_tags: raise not_in_version('unknown_tags', {self._version})")

    def _differs(self, value: str, field: Field) -> str:
        """An expression: the field does not hold its default."""
        default = field.default
        if default is None:
            return f"{value} is not None"
        if isinstance(default, type):
            inner = [self._differs(f"{value}.{each.name}", each) for each in fields_of(default)]
            differs = " or ".join([*inner, f"{value}.unknown_tags"])
            return f"({value} is None or {differs})"
        if default in ([], b"", "", False, 0):
            return f"({value} is None or {value})" if field.nullable.last >= 0 else value
        return f"not {value}" if default is True else f"{value} != {default!r}"

    def _tags(self, var: str, tagged: list[Field]) -> None:
        line, block = self._source.line, self._source.block
        if tagged:
            self._flush()
            self._known_tags(var, tagged)
            return
        pending = list(self._pending)
        with block(f"if {var}.unknown_tags:"):
            self._flush()
            line(f"{self._append}(tag_section([], {var}.unknown_tags))")
        self._pending = pending
        with block("else:"):
            self._fixed("", "x")
            self._flush()

    def _known_tags(self, var: str, tagged: list[Field]) -> None:
        line, block = self._source.line, self._source.block
        known, body = self._source.fresh("known"), self._source.fresh("body")
        line(f"{known} = []")
        for field in tagged:
            value = f"{var}.{field.name}"
            with block(f"if {self._differs(value, field)}:"):
                line(f"{body} = []")
                outer, self._append = self._append, f"{body}.append"
                self._field(value, field)
                self._flush()
                self._append = outer
                line(f"{known}.append(({field.tag}, b''.join({body})))")
        with block(f"if {known} or {var}.unknown_tags:"):
            line(f"{self._append}(tag_section({known}, {var}.unknown_tags))")
        with block("else:"):
            line(f"{self._append}(b'\\x00')")

    # -- fields -------------------------------------------------------------------------------------------------

    def _field(self, value: str, field: Field) -> None:
        if field.array:
            self._array(value, field)
        elif field.struct is not None:
            self._struct_field(value, field)
        elif field.element in FIXED:
            self._fixed(value, FIXED[field.element][0])
        else:
            self._bytes(value, field)

    def _struct_field(self, value: str, field: Field) -> None:
        assert field.struct is not None
        var = self._source.fresh("o")
        self._source.line(f"{var} = {value}")
        if self._version not in field.nullable:
            self._struct(var, field.struct)
            return
        self._flush()
        with self._source.block(f"if {var} is None:"):
            # In a tagged field Kafka writes the marker as a varint.
            null = "\\x00" if field.is_tagged(self._version, self._flexible) else "\\xff"
            self._source.line(f"{self._append}(b'{null}')")
        with self._source.block("else:"):
            self._fixed("1", "b")
            self._struct(var, field.struct)
            self._flush()

    def _bytes(self, value: str, field: Field) -> None:
        """A string, bytes or records: the length and the bytes themselves."""
        line, block = self._source.line, self._source.block
        kind = field.element
        compact = field.is_compact(self._version, self._flexible)
        line(f"s = {value}")
        more = " + 1" if compact else ""
        with block("if s is None:"):
            if self._version in field.nullable and not field.array:
                line("s = b''; n = 0" if compact else "s = b''; n = -1")
            else:
                line(f"raise null_refused({field.name!r})")
        with block("else:"):
            if kind == "string":
                line("s = s.encode()")
            line(f"n = {'records_size' if kind == 'records' else 'len'}(s){more}")
        self._write_length(compact, "string_varint" if kind == "string" else "varint", "h" if kind == "string" else "i")
        line("write_records(s, out, parts)" if kind == "records" else f"{self._append}(s)")

    def _write_length(self, compact: bool, long_form: str, code: str) -> None:
        if compact:
            self._flush(long_form)
        else:
            self._fixed("n", code)
            self._flush()

    def _array(self, value: str, field: Field) -> None:
        line, block = self._source.line, self._source.block
        compact = field.is_compact(self._version, self._flexible)
        items = self._source.fresh("items")
        line(f"{items} = {value}")
        with block(f"if {items} is None:"):
            if self._version in field.nullable:
                line(f"{items} = (); n = {0 if compact else -1}")
            else:
                line(f"raise null_refused({field.name!r})")
        with block("else:"):
            line(f"n = len({items})" + (" + 1" if compact else ""))
        self._write_length(compact, "varint", "i")
        if field.element in FIXED:
            code = FIXED[field.element][0]
            line(
                f"{self._append}("
                + (f"write_uuids({items})" if code == "16s" else f"write_array({code!r}, {items})")
                + ")"
            )
            return
        item = self._source.fresh("o")
        with block(f"for {item} in {items}:"):
            if field.struct is not None:
                self._struct(item, field.struct)
                self._flush()
            else:
                self._bytes(item, field)
            if self._in_slices:
                self._source.end_slice()

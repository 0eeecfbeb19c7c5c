"""Writes the decode function of one message class in one version.

The function reads straight on: runs of fixed-size fields, the first byte of a length included, are one
``unpack_from``; structs are made without their constructor and filled slot by slot. What bounds it: every length is
compared with the bytes left, every element of an array is charged to a budget, and a varint ends after five bytes.
Anything that is wrong surfaces as `CodecError`.

The same text, with a ``yield`` after every so many elements of arrays, is the function that decodes in slices.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kwire.codec import primitives
from kwire.codec.errors import CodecError
from kwire.codec.message import Message, Struct
from kwire.codec.schema import FIXED, Field, holds_records, layout, min_element_size, weight
from kwire.codec.source import Source

_HEAD = "def generated(b, p, left):\n  try:"
_SLICED_HEAD = "def generated(b, p, left, slice_size):\n  try:"
_TAIL = (
    "    return o, p",
    "  except (struct_error, IndexError):",
    "    raise CodecError(truncated) from None",
    "  except UnicodeDecodeError:",
    "    raise CodecError(not_utf8) from None",
)


def make_decoder(cls: type[Message], version: int) -> Callable[..., Any]:
    """-> function (buffer, position, budget) -> (message, end)."""
    return _DecoderWriter(cls, version, in_slices=False).write()


def make_sliced_decoder(cls: type[Message], version: int) -> Callable[..., Any]:
    """-> generator function (buffer, position, budget, elements in a slice), which returns (message, end)."""
    return _DecoderWriter(cls, version, in_slices=True).write()


class _DecoderWriter:
    def __init__(self, cls: type[Message], version: int, *, in_slices: bool) -> None:
        name = f"{cls.__name__} v{version}"
        self._cls = cls
        self._version = version
        self._flexible = cls.FLEXIBLE_VERSIONS[0] <= version <= cls.FLEXIBLE_VERSIONS[1]
        self._in_slices = in_slices
        self._view = holds_records(cls)
        self._pending: list[tuple[str, str, int]] = []
        self._source = Source(
            {
                "CodecError": CodecError,
                "struct_error": struct.error,
                "truncated": f"{name} ends early",
                "not_utf8": f"{name} has a string that is not UTF-8",
                "new": object.__new__,
                "rest_of_varint": primitives.rest_of_varint,
                "read_unknown_tags": primitives.read_unknown_tags,
                "charge_tags": primitives.charge_tags,
                "read_tag": primitives.read_tag,
                "read_array": primitives.read_array,
                "read_uuids": primitives.read_uuids,
                "bad_length": primitives.bad_length,
                "null_refused": primitives.null_refused,
                "bad_tag_size": primitives.bad_tag_size,
                "not_in_version": primitives.not_in_version,
                "too_many": f"{name} has more elements than one message may have",
            }
        )

    def write(self) -> Callable[..., Any]:
        self._source.line("b = memoryview(b)" if self._view else "b = b if b.__class__ is bytes else bytes(b)")
        self._source.line("end = len(b)")
        if self._in_slices:
            self._source.begin_slices()
        self._struct("o", self._cls)
        self._flush()
        head = _SLICED_HEAD if self._in_slices else _HEAD
        return self._source.compile(head, f"<decode {self._cls.__name__} v{self._version}>", list(_TAIL))

    # -- runs of fixed-size values ------------------------------------------------------------------------------

    def _fixed(self, target: str, code: str, size: int) -> None:
        self._pending.append((target, code, size))

    def _flush(self) -> None:
        """Read the pending run of fixed-size values at once."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        size = sum(entry[2] for entry in pending)
        codes = "".join(entry[1] for entry in pending)
        if codes == "B":
            self._source.line(f"{pending[0][0]} = b[p]")
        else:
            targets = "".join(f"{entry[0]}, " for entry in pending)
            self._source.line(f"{targets.rstrip(' ')} = {self._source.packer(codes, 'unpack_from')}(b, p)")
        self._source.line(f"p += {size}")

    # -- structs ------------------------------------------------------------------------------------------------

    def _struct(self, var: str, cls: type[Struct]) -> None:
        plain, tagged, absent = layout(cls, self._version, self._flexible)
        self._source.line(f"{var} = new({self._source.class_name(cls)})")
        for field in absent + tagged:
            self._source.line(f"{var}.{field.name} = {self._default(field)}")
        for field in plain:
            self._field(var, field)
        if self._flexible:
            self._tags(var, tagged, [field for field in absent if field.tag >= 0])
        else:
            self._source.line(f"{var}.unknown_tags = ()")

    def _default(self, field: Field) -> str:
        if isinstance(field.default, type):
            return f"{self._source.class_name(field.default)}()"
        return repr(field.default)

    def _tags(self, var: str, tagged: list[Field], wrong: list[Field]) -> None:
        """Tagged fields. Numbers that belong to other versions are wrong here, as they are to Kafka."""
        line, block = self._source.line, self._source.block
        count = self._source.fresh("t")
        self._fixed(count, "B", 1)
        self._flush()
        with block(f"if {count}:"):
            if not tagged and not wrong:
                line(f"{var}.unknown_tags, p, left = read_unknown_tags(b, p, end, {count}, left)")
            else:
                self._known_tags(var, tagged, wrong, count)
        with block("else:"):
            line(f"{var}.unknown_tags = ()")

    def _known_tags(self, var: str, tagged: list[Field], wrong: list[Field], count: str) -> None:
        line, block = self._source.line, self._source.block
        last, start, stop, unknown = (self._source.fresh(stem) for stem in ("last", "start", "stop", "unknown"))
        line(f"if {count} > 127: {count}, p = rest_of_varint(b, p, {count})")
        line(f"left = charge_tags({count}, left)")
        line(f"{last} = -1; {unknown} = []")
        with block(f"for _ in range({count}):"):
            line(f"{last}, {start}, {stop} = read_tag(b, p, end, {last})")
            line(f"p = {start}")
            word = "if"
            for field in tagged + wrong:
                with block(f"{word} {last} == {field.tag}:"):
                    if field in wrong:
                        line(f"raise not_in_version({field.name!r}, {self._version})")
                        continue
                    self._field(var, field)
                    self._flush()
                    line(f"if p != {stop}: raise bad_tag_size({field.name!r})")
                word = "elif"
            with block("else:"):
                line(f"{unknown}.append(({last}, bytes(b[p:{stop}])))")
                line(f"p = {stop}")
        line(f"{var}.unknown_tags = tuple({unknown})")

    # -- fields -------------------------------------------------------------------------------------------------

    def _field(self, var: str, field: Field) -> None:
        target = f"{var}.{field.name}"
        if field.array:
            self._array(target, field)
        elif field.struct is not None:
            self._struct_field(target, field)
        elif field.element in FIXED:
            self._fixed(target, *FIXED[field.element])
        else:
            self._bytes(target, field, field.element)

    def _struct_field(self, target: str, field: Field) -> None:
        assert field.struct is not None
        var = self._source.fresh("o")
        if self._version not in field.nullable:
            self._struct(var, field.struct)
            self._source.line(f"{target} = {var}")
            return
        marker = self._source.fresh("m")
        # Null is -1, but 0 in a tagged field, where Kafka writes the marker as a varint.
        is_tagged = field.is_tagged(self._version, self._flexible)
        self._fixed(marker, "B" if is_tagged else "b", 1)
        self._flush()
        with self._source.block(f"if {marker} {'== 0' if is_tagged else '< 0'}:"):
            self._source.line(f"{target} = None")
        with self._source.block("else:"):
            self._struct(var, field.struct)
            self._source.line(f"{target} = {var}")
            self._flush()

    def _length(self, field: Field, wide: bool) -> tuple[str, str]:
        """Read a length -> (its variable, the expression of the value that stands for null)."""
        if field.is_compact(self._version, self._flexible):
            self._fixed("n", "B", 1)
            self._flush()
            self._source.line("if n > 127: n, p = rest_of_varint(b, p, n)")
            self._source.line("n -= 1")
        else:
            self._fixed("n", "i" if wide else "h", 4 if wide else 2)
            self._flush()
        return "n", "n < 0"

    def _bytes(self, target: str, field: Field, kind: str) -> None:
        """A string, bytes or records; all of them a length and that many bytes."""
        line, block = self._source.line, self._source.block
        self._length(field, wide=kind != "string")
        with block("if n < 0:"):
            if self._version in field.nullable and not field.array:
                line(f"{target} = None")
            else:
                line(f"raise null_refused({field.name!r})")
        with block("else:"):
            line("q = p + n")
            limit = " or n > 32767" if kind == "string" and field.is_compact(self._version, self._flexible) else ""
            line(f"if q > end{limit}: raise bad_length({field.name!r}, n)")
            line(f"{target} = {self._slice(kind)}")
            line("p = q")

    def _slice(self, kind: str) -> str:
        if kind == "records":
            return "b[p:q]"
        if kind == "bytes":
            return "bytes(b[p:q])" if self._view else "b[p:q]"
        return "b[p:q].tobytes().decode()" if self._view else "b[p:q].decode()"

    def _array(self, target: str, field: Field) -> None:
        line, block = self._source.line, self._source.block
        self._length(field, wide=True)
        with block("if n < 0:"):
            if self._version in field.nullable:
                line(f"{target} = None")
            else:
                line(f"raise null_refused({field.name!r})")
        with block("else:"):
            cost, least = weight(field), min_element_size(field, self._version, self._flexible)
            line(f"left -= n * {cost}" if cost > 1 else "left -= n")
            line(f"if p + n * {least} > end: raise bad_length({field.name!r}, n)")
            line("if left < 0: raise CodecError(too_many)")
            self._elements(target, field, least)

    def _elements(self, target: str, field: Field, size: int) -> None:
        line, block = self._source.line, self._source.block
        if field.element in FIXED:
            code = FIXED[field.element][0]
            line(f"{target} = read_uuids(b, p, n)" if code == "16s" else f"{target} = read_array({code!r}, b, p, n)")
            line(f"p += n * {size}")
            return
        items = self._source.fresh("items")
        line(f"{target} = {items} = []")
        with block("for _ in range(n):"):
            item = self._source.fresh("o")
            if field.struct is not None:
                self._struct(item, field.struct)
                self._flush()
            else:
                self._bytes(item, field, field.element)
            line(f"{items}.append({item})")
            if self._in_slices:
                self._source.end_slice()

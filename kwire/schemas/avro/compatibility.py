"""Whether data written with one type can be read with another one: the rules of Apache Avro's ``SchemaCompatibility``.

The result for a pair of types is remembered by their identity. While a pair is being looked at, it counts as
compatible, which ends the recursion of cyclic types exactly where Java ends it.
"""

from __future__ import annotations

from typing import Final

from kwire.schemas.avro.model import NO_DEFAULT, AvroType, Collection, Enumeration, Field, Fixed, Named, Record, Union
from kwire.schemas.errors import SchemaError
from kwire.schemas.limits import COMPARISONS_MAX, Budget, bounded
from kwire.schemas.schema import Incompatibility

_PROMOTED: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
_NOTHING: Final[list[Incompatibility]] = []


@bounded
def incompatibilities(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    """Why data of ``writer`` cannot be read as ``reader``; empty if it can. `SchemaError` beyond the limits."""
    return _Checker().check(reader, writer, "")


class _Checker:
    def __init__(self) -> None:
        self._results: dict[tuple[int, int], list[Incompatibility]] = {}
        self._budget = Budget(COMPARISONS_MAX, "pairs of types to compare")

    def check(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        """The result for a pair at a path of the reader."""
        pair = (id(reader), id(writer))
        found = self._results.get(pair)
        if found is None:
            self._budget.take()
            self._results[pair] = _NOTHING
            found = self._results[pair] = self._compared(reader, writer, path)
        return found

    def _compared(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        if reader.kind == writer.kind:
            return self._same_kind(reader, writer, path)
        if isinstance(writer, Union):
            return [each for branch in writer.branches for each in self.check(reader, branch, path)]
        if isinstance(reader, Union):
            if any(not self.check(branch, writer, f"{path}/{i}") for i, branch in enumerate(reader.branches)):
                return []
            return [_lacking(writer, path)]
        if writer.kind in _PROMOTED.get(reader.kind, ()):
            return []
        detail = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
        return [Incompatibility("TYPE_MISMATCH", path or "/", detail)]

    def _same_kind(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        if isinstance(reader, Collection) and isinstance(writer, Collection):
            return self.check(reader.items, writer.items, f"{path}/{'items' if reader.kind == 'array' else 'values'}")
        if isinstance(reader, Union) and isinstance(writer, Union):
            return [
                _lacking(branch, f"{path}/{i}")
                for i, branch in enumerate(writer.branches)
                if self.check(reader, branch, path)
            ]
        if isinstance(reader, Named) and isinstance(writer, Named):
            return [*_names(reader, writer, path), *self._contents(reader, writer, path)]
        return []

    def _contents(self, reader: Named, writer: Named, path: str) -> list[Incompatibility]:
        if isinstance(reader, Record) and isinstance(writer, Record):
            return [
                found
                for i, field in enumerate(reader.fields)
                for found in self._field(field, writer, f"{path}/fields/{i}")
            ]
        if isinstance(reader, Enumeration) and isinstance(writer, Enumeration):
            return _symbols(reader, writer, path)
        if isinstance(reader, Fixed) and isinstance(writer, Fixed) and reader.size != writer.size:
            detail = f"expected: {writer.size}, found: {reader.size}"
            return [Incompatibility("FIXED_SIZE_MISMATCH", f"{path}/size", detail)]
        return []

    def _field(self, field: Field, writer: Record, path: str) -> list[Incompatibility]:
        written = _written_field(field, writer)
        if written is not None:
            return self.check(field.type, written.type, f"{path}/type")
        if field.default is not NO_DEFAULT:
            return []
        if isinstance(field.type, Enumeration) and field.type.default is not None:
            return self.check(field.type, writer, f"{path}/type")
        return [Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", path, field.name)]


def _written_field(field: Field, writer: Record) -> Field | None:
    """The writer's field by the name or the aliases of the reader's."""
    found = [writer.by_name[name] for name in (field.name, *field.aliases) if name in writer.by_name]
    if len(found) > 1:
        raise SchemaError(f"the field {field.name} matches several fields of the record {writer.full_name}")
    return found[0] if found else None


def _names(reader: Named, writer: Named, path: str) -> list[Incompatibility]:
    """Names are compared without their namespaces, or an alias of the reader has the writer's full name."""
    if reader.name == writer.name or writer.full_name in reader.aliases:
        return []
    return [Incompatibility("NAME_MISMATCH", f"{path}/name", f"expected: {writer.full_name}")]


def _symbols(reader: Enumeration, writer: Enumeration, path: str) -> list[Incompatibility]:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return []
    return [Incompatibility("MISSING_ENUM_SYMBOLS", f"{path}/symbols", f"[{', '.join(missing)}]")]


def _lacking(branch: AvroType, path: str) -> Incompatibility:
    kind = "RECORD" if branch.kind == "error" else branch.kind.upper()
    return Incompatibility("MISSING_UNION_BRANCH", path or "/", f"reader union lacking writer type: {kind}")

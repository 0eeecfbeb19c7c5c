"""What has changed between two files, by Confluent's names, and which of it is not compatible.

Messages are compared by their names, fields by their numbers. Types that share their bytes are the same
(https://protobuf.dev/programming-guides/proto3/#updating): int32, int64, uint32, uint64, bool and enumerations, and so
on; anything may be added or removed but whole messages and required fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from kwire.schemas.limits import COMPARISONS_MAX, Budget
from kwire.schemas.schema import Incompatibility

_KINDS: Final = {
    number: kind
    for kind, numbers in {
        "general number": (
            FieldDescriptor.TYPE_INT32,
            FieldDescriptor.TYPE_INT64,
            FieldDescriptor.TYPE_UINT32,
            FieldDescriptor.TYPE_UINT64,
            FieldDescriptor.TYPE_BOOL,
            FieldDescriptor.TYPE_ENUM,
        ),
        "signed number": (FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64),
        "string or bytes": (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES),
        "fixed32": (FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32),
        "fixed64": (FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64),
        "float": (FieldDescriptor.TYPE_FLOAT,),
        "double": (FieldDescriptor.TYPE_DOUBLE,),
    }.items()
    for number in numbers
}


def incompatible_changes(original: FileDescriptor, update: FileDescriptor) -> list[Incompatibility]:
    """The changes after which the update misreads, or loses, what was written with the original. `SchemaError`."""
    return list(_Walk().files(original, update))


class _Walk:
    def __init__(self) -> None:
        self._budget = Budget(COMPARISONS_MAX, "messages and fields to compare")
        self._entered: set[tuple[str, str]] = set()

    def files(self, original: FileDescriptor, update: FileDescriptor) -> Iterator[Incompatibility]:
        """The changes of two files. Their packages are not in what is written."""
        yield from self._types(dict(original.message_types_by_name), dict(update.message_types_by_name), "#")

    def _types(self, originals: dict[str, Any], updates: dict[str, Any], path: str) -> Iterator[Incompatibility]:
        for name, original in originals.items():
            if name in updates:
                yield from self._messages(original, updates[name], f"{path}/{name}")
            elif not original.GetOptions().map_entry:
                yield Incompatibility("MESSAGE_REMOVED", f"{path}/{name}", f"message {name}")

    def _messages(self, original: Descriptor, update: Descriptor, path: str) -> Iterator[Incompatibility]:
        self._budget.take()
        pair = (original.full_name, update.full_name)
        if pair in self._entered:
            return
        self._entered.add(pair)
        yield from self._oneofs(original, update, path)
        befores, afters = dict(original.fields_by_number), dict(update.fields_by_number)
        for number in sorted({*befores, *afters}):
            yield from self._fields(befores.get(number), afters.get(number), f"{path}/{number}")
        yield from self._types(dict(original.nested_types_by_name), dict(update.nested_types_by_name), path)

    def _oneofs(self, original: Descriptor, update: Descriptor, path: str) -> Iterator[Incompatibility]:
        """A oneof may take up one field of the message; fields that leave one that stays are lost to it."""
        befores = {number: _oneof(field) for number, field in dict(original.fields_by_number).items()}
        afters = {number: _oneof(field) for number, field in dict(update.fields_by_number).items()}
        for oneof in update.oneofs:
            numbers = [number for number, name in afters.items() if name == oneof.name]
            moved = sum(number in befores and befores[number] is None for number in numbers)
            existing = any(befores.get(number) is not None for number in numbers)
            if moved > 1:
                yield Incompatibility("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{oneof.name}", oneof.name)
            elif moved == 1 and existing:
                yield Incompatibility("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{oneof.name}", oneof.name)
        kept = {oneof.name for oneof in update.oneofs}
        for number, name in befores.items():
            if name in kept and afters.get(number) != name:
                yield Incompatibility("ONEOF_FIELD_REMOVED", f"{path}/{name}/{number}", f"field {number} of {name}")

    def _fields(
        self, original: FieldDescriptor | None, update: FieldDescriptor | None, path: str
    ) -> Iterator[Incompatibility]:
        self._budget.take()
        if original is None or update is None:
            field = original or update
            if field is not None and field.is_required:
                kind = "REQUIRED_FIELD_REMOVED" if update is None else "REQUIRED_FIELD_ADDED"
                yield Incompatibility(kind, path, f"field {field.name}")
            return
        if _is_map(original) != _is_map(update) or (original.message_type is None) != (update.message_type is None):
            yield Incompatibility("FIELD_KIND_CHANGED", path, f"field {update.name}")
        elif original.message_type is None:
            if _KINDS[original.type] != _KINDS[update.type]:
                detail = f"field {update.name}: {_KINDS[original.type]} became {_KINDS[update.type]}"
                yield Incompatibility("FIELD_SCALAR_KIND_CHANGED", path, detail)
            elif original.is_repeated != update.is_repeated and _KINDS[original.type] != "string or bytes":
                yield Incompatibility("FIELD_NUMERIC_LABEL_CHANGED", path, f"field {update.name}")
        elif _is_map(original):
            for word in ("key", "value"):
                before, after = (each.message_type.fields_by_name[word] for each in (original, update))
                yield from self._fields(before, after, path)
        else:
            yield from self._named(original, update, path)

    def _named(self, original: FieldDescriptor, update: FieldDescriptor, path: str) -> Iterator[Incompatibility]:
        before, after = original.message_type, update.message_type
        if _local(before) != _local(after):
            detail = f"field {update.name}: {before.full_name} became {after.full_name}"
            yield Incompatibility("FIELD_NAMED_TYPE_CHANGED", path, detail)
        else:
            yield from self._messages(before, after, path)


def _oneof(field: FieldDescriptor) -> str | None:
    """The name of a field's oneof; None if there is none, or it stands for ``optional``."""
    oneof = field.containing_oneof
    if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{field.name}"):
        return None
    return str(oneof.name)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _local(message: Descriptor) -> str:
    """The name without its package."""
    return str(message.full_name).removeprefix(f"{message.file.package}.")

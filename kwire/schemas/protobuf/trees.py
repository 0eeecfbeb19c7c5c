"""A ``FileDescriptorProto`` to a tree: clients in Python and C++ send descriptors in place of texts."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message import DecodeError
from proto_schema_parser import ast

_FIELD_MAX: Final = 2**29
_LABELS: Final = {
    FieldDescriptorProto.LABEL_REPEATED: ast.FieldCardinality.REPEATED,
    FieldDescriptorProto.LABEL_REQUIRED: ast.FieldCardinality.REQUIRED,
}


def decoded(text: str) -> FileDescriptorProto | None:
    """The descriptor that a text is in Base64; None if it is none."""
    try:
        found = FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None
    return found if found.message_type or found.enum_type or found.dependency else None


def tree(file: FileDescriptorProto) -> ast.File:
    """The tree of a descriptor. Source information, and options that are no part of the format, are left out."""
    elements: list[Any] = []
    if file.package:
        elements.append(ast.Package(file.package))
    public = set(file.public_dependency)
    elements += [ast.Import(name, public=index in public) for index, name in enumerate(file.dependency)]
    elements += [ast.Option(each.name, value) for each, value in file.options.ListFields() if not each.is_extension]
    elements += [_message(each, file) for each in file.message_type]
    elements += [_enumeration(each) for each in file.enum_type]
    elements += _extensions(file.extension, file)
    elements += [_service(each) for each in file.service]
    return ast.File(syntax=file.syntax or "proto2", file_elements=elements)


def _message(message: DescriptorProto, file: FileDescriptorProto) -> ast.Message:
    maps = {each.name: each for each in message.nested_type if each.options.map_entry}
    groups = {each.type_name.rpartition(".")[2] for each in message.field if each.type == each.TYPE_GROUP}
    elements: list[Any] = []
    ranges = [_range(each.start, each.end - 1, _FIELD_MAX - 1) for each in message.reserved_range]
    if ranges:
        elements.append(ast.Reserved(ranges=ranges))
    if message.reserved_name:
        elements.append(ast.Reserved(names=list(message.reserved_name)))
    oneofs: dict[int, ast.OneOf] = {}
    for field in message.field:
        made = _map(field, maps) or _field(field, file, message)
        if field.HasField("oneof_index") and not field.proto3_optional:
            if field.oneof_index not in oneofs:
                oneofs[field.oneof_index] = ast.OneOf(message.oneof_decl[field.oneof_index].name)
                elements.append(oneofs[field.oneof_index])
            oneofs[field.oneof_index].elements.append(made)  # type: ignore[arg-type] # a map is in none
        else:
            elements.append(made)
    if message.extension_range:
        ranges = [_range(each.start, each.end - 1, _FIELD_MAX - 1) for each in message.extension_range]
        elements.append(ast.ExtensionRange(ranges=ranges))
    elements += [
        _message(each, file) for each in message.nested_type if each.name not in maps and each.name not in groups
    ]
    elements += [_enumeration(each) for each in message.enum_type]
    elements += _extensions(message.extension, file)
    return ast.Message(message.name, elements)


def _map(field: FieldDescriptorProto, maps: Mapping[str, DescriptorProto]) -> ast.MapField | None:
    entry = maps.get(field.type_name.rpartition(".")[2])
    if entry is None or field.label != FieldDescriptorProto.LABEL_REPEATED:
        return None
    return ast.MapField(field.name, field.number, _type(entry.field[0]), _type(entry.field[1]))


def _field(field: FieldDescriptorProto, file: FileDescriptorProto, message: DescriptorProto) -> ast.Field | ast.Group:
    cardinality = _LABELS.get(field.label)
    if cardinality is None and (
        field.proto3_optional or (file.syntax != "proto3" and not field.HasField("oneof_index"))
    ):
        cardinality = ast.FieldCardinality.OPTIONAL
    if field.type == FieldDescriptorProto.TYPE_GROUP:
        name = field.type_name.rpartition(".")[2]
        inside = next((each for each in message.nested_type if each.name == name), DescriptorProto(name=name))
        return ast.Group(name, field.number, cardinality, _message(inside, file).elements)
    options: list[ast.Option] = []
    if field.HasField("default_value"):
        quoted = field.type in (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
        value: Any = field.default_value if quoted else ast.Identifier(field.default_value)
        options.append(ast.Option("default", value))
    if field.options.HasField("packed"):
        options.append(ast.Option("packed", field.options.packed))
    if field.options.deprecated:
        options.append(ast.Option("deprecated", True))
    if field.json_name and field.json_name != _camel(field.name):
        options.append(ast.Option("json_name", field.json_name))
    return ast.Field(field.name, field.number, _type(field), cardinality, options)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _type(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return str(field.type_name)
    return str(FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower())


def _range(first: int, last: int, maximum: int) -> str:
    return str(first) if first == last else f"{first} to {'max' if last >= maximum else last}"


def _enumeration(found: EnumDescriptorProto) -> ast.Enum:
    elements: list[Any] = []
    if found.options.allow_alias:
        elements.append(ast.Option("allow_alias", True))
    ranges = [_range(each.start, each.end, 2**31 - 1) for each in found.reserved_range]
    if ranges:
        elements.append(ast.EnumReserved(ranges=ranges))
    if found.reserved_name:
        elements.append(ast.EnumReserved(names=list(found.reserved_name)))
    elements += [ast.EnumValue(each.name, each.number) for each in found.value]
    return ast.Enum(found.name, elements)


def _extensions(fields: Iterable[FieldDescriptorProto], file: FileDescriptorProto) -> list[ast.Extension]:
    found: dict[str, ast.Extension] = {}
    for each in fields:
        extension = found.setdefault(each.extendee, ast.Extension(each.extendee))
        extension.elements.append(_field(each, file, DescriptorProto()))
    return list(found.values())


def _service(service: Any) -> ast.Service:
    methods: list[Any] = [
        ast.Method(
            each.name,
            ast.MessageType(each.input_type, each.client_streaming),
            ast.MessageType(each.output_type, each.server_streaming),
        )
        for each in service.method
    ]
    return ast.Service(service.name, methods)

"""A tree to a ``FileDescriptorProto``: the form in which Google's library checks a file, and decodes its messages.

Custom options are left out: they say nothing about bytes, and their types need not be known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from proto_schema_parser import ast

from kwire.schemas.errors import SchemaError

_SCALARS: Final = {
    name: FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}")
    for name in (
        "double",
        "float",
        "int64",
        "uint64",
        "int32",
        "fixed64",
        "fixed32",
        "bool",
        "string",
        "bytes",
        "uint32",
        "sfixed32",
        "sfixed64",
        "sint32",
        "sint64",
    )
}
_NUMBER_MAX: Final = 2**29 - 1
_ENUM_MAX: Final = 2**31 - 1


def descriptor(tree: ast.File, name: str) -> FileDescriptorProto:
    """The descriptor of a file called ``name``. `SchemaError`."""
    if tree.edition is not None:
        raise SchemaError("editions of Protobuf are not supported: use syntax proto2 or proto3")
    syntax = unquoted(tree.syntax or "proto2")
    if syntax not in ("proto2", "proto3"):
        raise SchemaError(f"there is no syntax {syntax}: proto2 or proto3")
    found = FileDescriptorProto(name=name, syntax=syntax)
    for element in tree.file_elements:
        _add_to_file(found, element, syntax)
    return found


def unquoted(text: str) -> str:
    """A text without its quotes."""
    return text[1:-1] if len(text) >= 2 and text[0] in "\"'" and text[-1] == text[0] else text


def _add_to_file(file: FileDescriptorProto, element: Any, syntax: str) -> None:
    if isinstance(element, ast.Package):
        file.package = element.name
    elif isinstance(element, ast.Import):
        if element.public:
            file.public_dependency.append(len(file.dependency))
        file.dependency.append(unquoted(element.name))
    elif isinstance(element, ast.Message):
        file.message_type.append(_message(element.name, element.elements, syntax))
    elif isinstance(element, ast.Enum):
        file.enum_type.append(_enumeration(element))
    elif isinstance(element, ast.Extension):
        file.extension.extend(_extensions(element, file, syntax))
    elif isinstance(element, ast.Service):
        _add_service(file, element)


def _message(name: str, elements: Iterable[Any], syntax: str) -> DescriptorProto:
    message = DescriptorProto(name=name)
    optional: list[FieldDescriptorProto] = []
    for element in elements:
        if isinstance(element, ast.OneOf):
            index = len(message.oneof_decl)
            message.oneof_decl.add(name=element.name)
            for each in element.elements:
                if isinstance(each, ast.Field | ast.Group):
                    _add_field(message, each, syntax).oneof_index = index
        elif isinstance(element, ast.Field | ast.MapField | ast.Group):
            field = _add_field(message, element, syntax)
            if syntax == "proto3" and getattr(element, "cardinality", None) == ast.FieldCardinality.OPTIONAL:
                optional.append(field)
        else:
            _add_other(message, element, syntax)
    for field in optional:  # their oneofs come after all others
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")
    return message


def _add_other(message: DescriptorProto, element: Any, syntax: str) -> None:
    if isinstance(element, ast.Message):
        message.nested_type.append(_message(element.name, element.elements, syntax))
    elif isinstance(element, ast.Enum):
        message.enum_type.append(_enumeration(element))
    elif isinstance(element, ast.Reserved):
        message.reserved_name.extend(map(unquoted, element.names))
        for first, last in map(_range, element.ranges):
            message.reserved_range.add(start=first, end=last + 1)
    elif isinstance(element, ast.ExtensionRange):
        for first, last in map(_range, element.ranges):
            message.extension_range.add(start=first, end=last + 1)
    elif isinstance(element, ast.Extension):
        message.extension.extend(_extensions(element, message, syntax))


def _add_field(message: DescriptorProto, element: Any, syntax: str) -> FieldDescriptorProto:
    if isinstance(element, ast.MapField):
        return _add_map(message, element)
    field = message.field.add(name=element.name, number=_number(element.number, element.name))
    cardinality = getattr(element, "cardinality", None)
    field.label = getattr(FieldDescriptorProto, f"LABEL_{cardinality.value if cardinality else 'OPTIONAL'}")
    if isinstance(element, ast.Group):
        message.nested_type.append(_message(element.name, element.elements, syntax))
        field.name = element.name.lower()
        field.type = FieldDescriptorProto.TYPE_GROUP
        field.type_name = element.name
        return field
    _set_type(field, element.type)
    _set_options(field, element.options)
    return field


def _set_type(field: FieldDescriptorProto, type: str) -> None:
    if type in _SCALARS:
        field.type = _SCALARS[type]
    else:
        field.type_name = type  # message or enum: the library finds out


def _set_options(field: FieldDescriptorProto, options: Iterable[ast.Option] | None) -> None:
    for option in options or ():
        if option.name == "packed":
            field.options.packed = option.value in (True, "true")
        elif option.name == "deprecated":
            field.options.deprecated = option.value in (True, "true")
        elif option.name == "json_name":
            field.json_name = unquoted(str(option.value))
        elif option.name == "default":
            field.default_value = _default(option.value)


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return unquoted(str(getattr(value, "name", value)))


def _add_map(message: DescriptorProto, element: ast.MapField) -> FieldDescriptorProto:
    """A map is a repeated message of key and value, which is nested under a name that follows from the field's."""
    name = "".join(part[:1].upper() + part[1:] for part in element.name.split("_")) + "Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    for number, (word, type) in enumerate((("key", element.key_type), ("value", element.value_type)), 1):
        _set_type(entry.field.add(name=word, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL), type)
    return message.field.add(
        name=element.name,
        number=_number(element.number, element.name),
        label=FieldDescriptorProto.LABEL_REPEATED,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=name,
    )


def _number(number: int, name: str) -> int:
    if not 0 < number <= _NUMBER_MAX:
        raise SchemaError(f"the number of the field {name} is not between 1 and {_NUMBER_MAX}: {number}")
    return number


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition(" to ")
    try:
        low = int(first, 0)
        high = low if not last else _NUMBER_MAX if last.strip() == "max" else int(last, 0)
    except ValueError:
        raise SchemaError(f"{text} is no range of numbers") from None
    if not -_ENUM_MAX - 1 <= low <= high <= _ENUM_MAX - 1:
        raise SchemaError(f"{text} is no range of numbers")
    return low, high


def _enumeration(element: ast.Enum) -> EnumDescriptorProto:
    found = EnumDescriptorProto(name=element.name)
    for each in element.elements:
        if isinstance(each, ast.EnumValue):
            if not -_ENUM_MAX - 1 <= each.number <= _ENUM_MAX:
                raise SchemaError(f"the number of {each.name} is too large: {each.number}")
            found.value.add(name=each.name, number=each.number)
        elif isinstance(each, ast.EnumReserved):
            found.reserved_name.extend(map(unquoted, each.names))
            for first, last in map(_range, each.ranges):
                found.reserved_range.add(start=first, end=last)
        elif isinstance(each, ast.Option) and each.name == "allow_alias":
            found.options.allow_alias = each.value in (True, "true")
    return found


def _extensions(element: ast.Extension, holder: Any, syntax: str) -> list[FieldDescriptorProto]:
    scratch = DescriptorProto()
    for each in element.elements:
        if isinstance(each, ast.Field | ast.Group):
            _add_field(scratch, each, syntax).extendee = element.typeName
    nested = holder.message_type if isinstance(holder, FileDescriptorProto) else holder.nested_type
    nested.extend(scratch.nested_type)
    return list(scratch.field)


def _add_service(file: FileDescriptorProto, element: ast.Service) -> None:
    service = file.service.add(name=element.name)
    for each in element.elements:
        if isinstance(each, ast.Method):
            service.method.add(
                name=each.name,
                input_type=each.input_type.type,
                output_type=each.output_type.type,
                client_streaming=each.input_type.stream,
                server_streaming=each.output_type.stream,
            )

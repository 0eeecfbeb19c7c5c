"""A tree to text, in the form in which Confluent's registry stores a file: no comments, two spaces, and within a
message reserved numbers, options, fields, oneofs, and then the types inside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from proto_schema_parser import ast

from kwire.schemas.protobuf.descriptors import unquoted


def render(tree: ast.File, *, normalized: bool = False) -> str:
    """The text of a tree. ``normalized``: imports, options and fields in a fixed order, names of types as they are."""
    return _Renderer(normalized).file(tree)


class _Renderer:
    def __init__(self, normalized: bool) -> None:
        self._normalized = normalized

    def file(self, tree: ast.File) -> str:
        """The whole text."""
        elements = tree.file_elements
        parts = [f'syntax = "{unquoted(tree.syntax)}";\n' if tree.syntax else ""]
        parts[0] += "".join(f"package {each.name};\n" for each in elements if isinstance(each, ast.Package))
        imports = [each for each in elements if isinstance(each, ast.Import)]
        parts.append(self._joined(imports, _import, key=lambda each: (each.public, each.name)))
        parts.append(self._joined(self._options(elements), lambda each: f"option {_option(each)};\n"))
        parts.append(self._joined(_of(elements, ast.Message, ast.Enum), self._type))
        parts.append(self._joined(_of(elements, ast.Extension), self._extension))
        parts.append(self._joined(_of(elements, ast.Service), self._service))
        return "\n".join(filter(None, parts))

    def _joined(self, elements: Iterable[Any], text: Callable[[Any], str], key: Any = None) -> str:
        found = list(elements)
        if self._normalized and key is not None:
            found.sort(key=key)
        return "".join(map(text, found))

    def _options(self, elements: Iterable[Any]) -> list[Any]:
        found = _of(elements, ast.Option)
        return sorted(found, key=lambda each: each.name) if self._normalized else found

    def _type(self, element: Any) -> str:
        return self._message(element) if isinstance(element, ast.Message) else self._enumeration(element)

    def _message(self, element: ast.Message) -> str:
        return f"message {element.name} {{{self._inside(element.elements)}}}\n"

    def _inside(self, elements: Sequence[Any]) -> str:
        """What is between the braces of a message: each kind after a line break, indented."""
        sections = (
            self._joined(_of(elements, ast.Reserved), _reserved),
            self._joined(self._options(elements), lambda each: f"option {_option(each)};\n"),
            self._joined(_of(elements, ast.Field, ast.MapField), self._field, key=lambda each: each.number),
            self._joined(_of(elements, ast.OneOf), self._oneof),
            self._joined(_of(elements, ast.Group), self._group),
            self._joined(_of(elements, ast.ExtensionRange), _extension_range),
            self._joined(_of(elements, ast.Message, ast.Enum), self._type),
            self._joined(_of(elements, ast.Extension), self._extension),
        )
        return "".join(f"\n{_indented(each)}" for each in sections if each)

    def _field(self, element: Any) -> str:
        if isinstance(element, ast.MapField):
            start = f"map<{element.key_type}, {element.value_type}> "
        else:
            start = f"{_cardinality(element)}{element.type} "
        return f"{start}{element.name} = {element.number}{self._compact(element.options)};\n"

    def _compact(self, options: Sequence[ast.Option] | None) -> str:
        if not options:
            return ""
        found = sorted(options, key=lambda each: each.name) if self._normalized else options
        if len(found) == 1:
            return f" [{_option(found[0])}]"
        return " [\n" + _indented(",\n".join(map(_option, found)) + "\n") + "]"

    def _oneof(self, element: ast.OneOf) -> str:
        fields = self._joined(_of(element.elements, ast.Field), self._field, key=lambda each: each.number)
        options = self._joined(self._options(element.elements), lambda each: f"option {_option(each)};\n")
        groups = self._joined(_of(element.elements, ast.Group), self._group)
        return f"oneof {element.name} {{\n{_indented(options + fields + groups)}}}\n"

    def _group(self, element: ast.Group) -> str:
        start = f"{_cardinality(element)}group {element.name} = {element.number} {{"
        return f"{start}{self._inside(element.elements)}}}\n"

    def _enumeration(self, element: ast.Enum) -> str:
        options = self._joined(self._options(element.elements), lambda each: f"option {_option(each)};\n")
        reserved = self._joined(_of(element.elements, ast.EnumReserved), _reserved)
        values = self._joined(
            _of(element.elements, ast.EnumValue),
            lambda each: f"{each.name} = {each.number}{self._compact(each.options)};\n",
            key=lambda each: each.number,
        )
        return f"enum {element.name} {{\n{_indented(reserved + options + values)}}}\n"

    def _extension(self, element: ast.Extension) -> str:
        fields = self._joined(_of(element.elements, ast.Field), self._field)
        groups = self._joined(_of(element.elements, ast.Group), self._group)
        return f"extend {element.typeName} {{\n{_indented(fields + groups)}}}\n"

    def _service(self, element: ast.Service) -> str:
        options = self._joined(self._options(element.elements), lambda each: f"option {_option(each)};\n")
        return f"service {element.name} {{\n{_indented(options)}{_indented(''.join(self._methods(element)))}}}\n"

    def _methods(self, element: ast.Service) -> Iterator[str]:
        for each in _of(element.elements, ast.Method):
            head = f"rpc {each.name} ({_streamed(each.input_type)}) returns ({_streamed(each.output_type)})"
            options = self._joined(self._options(each.elements), lambda each: f"option {_option(each)};\n")
            yield f"{head} {{\n{_indented(options)}}}\n" if options else f"{head};\n"


def _of(elements: Iterable[Any], *kinds: type) -> list[Any]:
    return [each for each in elements if isinstance(each, kinds)]


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" if line else "\n" for line in text.splitlines())


def _import(element: ast.Import) -> str:
    kind = "public " if element.public else "weak " if element.weak else ""
    return f'import {kind}"{unquoted(element.name)}";\n'


def _cardinality(element: Any) -> str:
    return f"{element.cardinality.value.lower()} " if element.cardinality is not None else ""


def _streamed(type: ast.MessageType) -> str:
    return f"stream {type.type}" if type.stream else type.type


def _reserved(element: Any) -> str:
    names = (json.dumps(unquoted(each), ensure_ascii=False) for each in element.names)
    return f"reserved {', '.join([*element.ranges, *names])};\n"


def _extension_range(element: ast.ExtensionRange) -> str:
    return f"extensions {', '.join(element.ranges)};\n"


def _option(option: ast.Option) -> str:
    return f"{option.name} = {_value(option.value)}"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, ast.MessageLiteral):
        fields = (f"{each.name}: {_value(each.value)}" for each in _of(value.elements, ast.MessageLiteralField))
        return "{\n" + _indented(",\n".join(fields) + "\n") + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(getattr(value, "name", value))

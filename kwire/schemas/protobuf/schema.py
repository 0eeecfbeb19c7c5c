"""`ProtobufSchema`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

from kwire.base.extras import needed
from kwire.schemas import wire
from kwire.schemas.errors import DecodeError, SchemaError
from kwire.schemas.limits import bounded
from kwire.schemas.protobuf.parsing import parse_tree
from kwire.schemas.schema import PROTOBUF, Incompatibility, Resolved, Schema

try:
    from google.protobuf import json_format, message_factory
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError as BadMessage

    from kwire.schemas.protobuf.descriptors import descriptor
    from kwire.schemas.protobuf.differences import incompatible_changes
    from kwire.schemas.protobuf.rendering import render
    from kwire.schemas.protobuf.trees import decoded, tree
    from kwire.schemas.protobuf.well_known import well_known
except ImportError:
    raise SchemaError(needed("registry")) from None

_FILE: Final = "schema.proto"


class ProtobufSchema(Schema):
    """A file of Protobuf: its text, or its descriptor in Base64, as clients in Python send it. `SchemaError`."""

    type = PROTOBUF

    @bounded
    def __init__(self, text: str, resolved: Sequence[Resolved] = ()) -> None:
        sent = decoded(text)
        self._tree = parse_tree(text) if sent is None else tree(sent)
        self._pool = DescriptorPool()
        self._added: set[str] = set()
        for each in resolved:
            self._add(_descriptor(each.text, each.name), {one.name: one for one in resolved})
        self.descriptor = descriptor(self._tree, _free_name({each.name for each in resolved}))
        self._add(self.descriptor, {})
        self.file = self._pool.FindFileByName(self.descriptor.name)
        super().__init__(render(self._tree))

    def _add(self, file: FileDescriptorProto, others: dict[str, Resolved]) -> None:
        """Let the library check a file, after those that it imports. `SchemaError`."""
        if file.name in self._added:
            return
        self._added.add(file.name)
        for name in file.dependency:
            if name in others:
                self._add(_descriptor(others[name].text, name), others)
            elif name not in self._added:
                self._add_known(name)
        try:
            self._pool.Add(file)
            self._pool.FindFileByName(file.name)
        except (TypeError, KeyError, ValueError) as error:
            reason = str(error).removeprefix("Couldn't build proto file into descriptor pool: ")
            raise SchemaError(" ".join(reason.split())[:300]) from None

    def _add_known(self, name: str) -> None:
        known = well_known(name)
        if known is None:
            raise SchemaError(f'import "{name}": there is no reference with this name')
        self._add(known, {})

    @bounded
    def normalized(self) -> str:
        """Imports, options and fields in a fixed order."""
        return render(self._tree, normalized=True)

    def serialized(self) -> str:
        """The descriptor in Base64."""
        return b64encode(self.descriptor.SerializeToString()).decode()

    @bounded
    def incompatibilities(self, writer: Schema) -> list[Incompatibility]:
        """By the rules of Confluent's registry."""
        assert isinstance(writer, ProtobufSchema)
        return incompatible_changes(writer.file, self.file)

    def decode(self, body: bytes) -> Any:
        """The message of a payload, with the file's own names of fields. `DecodeError`."""
        indexes, data = wire.split_indexes(body)
        message = message_factory.GetMessageClass(self._message(indexes))()
        try:
            message.ParseFromString(data)
            return json_format.MessageToDict(message, preserving_proto_field_name=True)
        except BadMessage as error:
            raise DecodeError(f"the bytes do not fit the Protobuf schema: {error}") from None
        except (json_format.Error, TypeError, ValueError, RecursionError) as error:
            raise DecodeError(f"the message cannot be shown as JSON: {error}") from None

    def encode(self, value: Any, indexes: Sequence[int] = (0,)) -> bytes:
        """The body of a payload with a message of the file, its first one by default. `DecodeError`."""
        message = message_factory.GetMessageClass(self._message(tuple(indexes)))()
        try:
            json_format.ParseDict(value, message)
        except (json_format.Error, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise DecodeError(f"the value does not fit the Protobuf schema: {error}") from None
        return wire.join_indexes(indexes, message.SerializeToString())

    def message(self, name: str) -> Any:
        """The descriptor of a message by its full name. `DecodeError`."""
        try:
            return self._pool.FindMessageTypeByName(name)
        except KeyError:
            raise DecodeError(f"the schema has no message {name}") from None

    def message_class(self, name: str) -> Any:
        """The class of a message by its full name. `DecodeError`."""
        return message_factory.GetMessageClass(self.message(name))

    def name_at(self, indexes: Sequence[int]) -> str:
        """The full name of the message that indexes lead to. `DecodeError`."""
        messages = self.descriptor.message_type
        found = self.descriptor.package
        for index in indexes:
            if index >= len(messages):
                raise DecodeError(f"the schema has no message {list(indexes)}")
            found = f"{found}.{messages[index].name}" if found else messages[index].name
            messages = messages[index].nested_type
        return str(found)

    def _message(self, indexes: Sequence[int]) -> Any:
        """The message that indexes lead to. `DecodeError`."""
        return self.message(self.name_at(indexes))


def _descriptor(text: str, name: str) -> FileDescriptorProto:
    sent = decoded(text)
    if sent is not None:
        sent.name = name
        return sent
    return descriptor(parse_tree(text), name)


def _free_name(taken: set[str]) -> str:
    name = _FILE
    while name in taken:
        name = f"_{name}"
    return name

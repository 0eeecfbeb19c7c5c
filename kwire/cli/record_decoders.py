"""Reading the records of Kafka's internal topics: which message a key and its value are, by the topic they stand in."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from kwire.base.uuids import uuid_to_text
from kwire.codec.errors import CodecError
from kwire.codec.message import Message, Struct
from kwire.codec.protocol import decode_record, decode_record_key

_GROUP_RECORDS: Final = (
    "legacy_offset_commit",
    "offset_commit",
    "group_metadata",
    "consumer_group_metadata",
    "consumer_group_member_metadata",
    "consumer_group_partition_metadata",
    "consumer_group_target_assignment_metadata",
    "consumer_group_target_assignment_member",
    "consumer_group_current_member_assignment",
    "consumer_group_regular_expression",
    "share_group_metadata",
    "share_group_member_metadata",
    "share_group_target_assignment_metadata",
    "share_group_target_assignment_member",
    "share_group_current_member_assignment",
    "share_group_state_partition_metadata",
    "streams_group_metadata",
    "streams_group_member_metadata",
    "streams_group_target_assignment_metadata",
    "streams_group_target_assignment_member",
    "streams_group_current_member_assignment",
    "streams_group_topology",
)
RECORDS: Final = {
    "__consumer_offsets": _GROUP_RECORDS,
    "__transaction_state": ("transaction_log",),
    "__share_group_state": ("share_snapshot", "share_update"),
}
"""Internal topic -> the messages in it, each as ``<name>_key`` and ``<name>_value``."""

Decoder = Callable[[bytes | None, bytes | None], tuple[Any, Any]]


def decoder_for(topic: str) -> Decoder | None:
    """What turns a key and a value of an internal topic into plain data; None for any other topic. The decoder gives
    an error text in place of what it cannot read."""
    stems = RECORDS.get(topic)
    if stems is None:
        return None
    keys: dict[int, type[Message]] = {}
    values: dict[int, type[Message]] = {}
    for stem in stems:
        key = _class(f"{stem}_key")
        keys[key.API_KEY] = key
        values[key.API_KEY] = _class(f"{stem}_value")

    def decode(key: bytes | None, value: bytes | None) -> tuple[Any, Any]:
        try:
            name = decode_record_key(keys, key or b"")
            shown = {type(name).__name__: plain(name)}
            if value is None:
                return shown, None
            return shown, plain(decode_record(values[type(name).API_KEY], value))
        except CodecError as error:
            return f"unreadable: {error}", None if value is None else value.hex()

    return decode


def _class(module: str) -> type[Message]:
    name = "".join(word.capitalize() for word in module.split("_"))
    found: type[Message] = getattr(import_module(f"kwire.codec.messages.{module}"), name)
    return found


def plain(value: Any) -> Any:
    """A message as dicts and lists; uuids as Kafka writes them, other bytes as hex."""
    if isinstance(value, Struct):
        types = dict(line.split(" ", 2)[:2] for line in value.FIELDS.strip().splitlines())
        return {name: _plain_field(types.get(name), getattr(value, name)) for name in value.__slots__}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value


def _plain_field(kind: str | None, value: Any) -> Any:
    if kind == "uuid":
        return uuid_to_text(value)
    if kind == "[]uuid":
        return [uuid_to_text(each) for each in value or ()]
    return plain(value)

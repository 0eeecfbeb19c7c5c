"""Messages of Protobuf for tests: files that import others, nested messages, well-known types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

ONE, MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED


def field(name: str, number: int, type: Any, label: Any = ONE) -> FieldDescriptorProto:
    """A field of a scalar type, or of a message by its full name."""
    if isinstance(type, str):
        kind = FieldDescriptorProto.TYPE_MESSAGE
        return FieldDescriptorProto(name=name, number=number, type=kind, type_name=type, label=label)
    return FieldDescriptorProto(name=name, number=number, type=type, label=label)


def files() -> list[FileDescriptorProto]:
    """``money.proto``, ``line.proto`` that imports it, and ``order.proto`` that imports both and a well-known one."""
    money = DescriptorProto(name="Money", field=[field("cents", 1, FieldDescriptorProto.TYPE_SINT64)])
    line = DescriptorProto(
        name="Line",
        field=[field("name", 1, FieldDescriptorProto.TYPE_STRING), field("price", 2, ".shop.Money")],
    )
    part = DescriptorProto(name="Part", field=[field("weight", 1, FieldDescriptorProto.TYPE_DOUBLE)])
    parcel = DescriptorProto(name="Parcel", field=[field("parts", 1, ".shop.Order.Parcel.Part", MANY)])
    parcel.nested_type.append(part)
    order = DescriptorProto(
        name="Order",
        field=[
            field("id", 1, FieldDescriptorProto.TYPE_INT32),
            field("lines", 2, ".shop.Line", MANY),
            field("at", 3, ".google.protobuf.Timestamp"),
            field("parcel", 4, ".shop.Order.Parcel"),
            field("total", 5, ".shop.Money"),
        ],
        nested_type=[parcel],
    )
    first = DescriptorProto(name="First", field=[field("text", 1, FieldDescriptorProto.TYPE_STRING)])
    common = {"package": "shop", "syntax": "proto3"}
    imported = ["line.proto", "money.proto", "google/protobuf/timestamp.proto"]
    return [
        FileDescriptorProto(name="money.proto", message_type=[money], **common),
        FileDescriptorProto(name="line.proto", message_type=[line], dependency=["money.proto"], **common),
        FileDescriptorProto(name="order.proto", message_type=[first, order], dependency=imported, **common),
    ]


VALUES: Final[dict[str, tuple[bytes, Mapping[str, Any]]]] = {
    "shop.First": (b"\x00", {"text": "\u00e9"}),
    "shop.Order": (
        b"\x02\x02",
        {
            "id": 7,
            "lines": [{"name": "a", "price": {"cents": "-5"}}, {"name": "b"}],
            "at": "2026-11-25T10:00:00Z",
            "parcel": {"parts": [{"weight": 1.5}]},
            "total": {"cents": "95"},
        },
    ),
    "shop.Order.Parcel": (b"\x04\x02\x00", {"parts": [{"weight": 0.25}, {"weight": -2.0}]}),
    "shop.Order.Parcel.Part": (b"\x06\x02\x00\x00", {"weight": 3.5}),
}
"""Messages of order.proto: their indexes as the wire format has them, and a value in Protobuf's JSON."""


def classes() -> dict[str, Any]:
    """The messages' classes, as protoc would generate them."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    for each in files():
        pool.AddSerializedFile(each.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in VALUES}

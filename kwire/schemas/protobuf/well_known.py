"""Files that every schema may import: those of Google's library, and the two that Confluent's registry adds."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from kwire.schemas.protobuf.descriptors import descriptor
from kwire.schemas.protobuf.parsing import parse_tree

_GOOGLE: Final = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)
_TEXTS: Final = {
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    "google/type/date.proto": """
        syntax = "proto3";
        package google.type;
        message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
    """,
    "google/type/timeofday.proto": """
        syntax = "proto3";
        package google.type;
        message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
    """,
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
}


def well_known(name: str) -> FileDescriptorProto | None:
    """The descriptor of a file that every schema may import; None for any other name."""
    if name in _TEXTS:
        return descriptor(parse_tree(_TEXTS[name]), name)
    word = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if name != f"google/protobuf/{word}.proto" or word not in _GOOGLE:
        return None
    found = FileDescriptorProto()
    import_module(f"google.protobuf.{word}_pb2").DESCRIPTOR.CopyToProto(found)
    return found

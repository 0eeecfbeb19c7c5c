"""Schemas of records, without any input or output: parsing, compatibility, Confluent's wire format, values.

    schema = parse(text)                               # Avro; or parse(text, "PROTOBUF", resolved)
    schema.text, schema.normalized()                   # canonical forms
    check("BACKWARD", schema, earlier)                 # why it may not follow others; empty if it may
    wire.split(payload)                                # the schema's id, and the body
    decode(payload, lookup)                            # Python's values; jsonable(value) for JSON

What lives elsewhere: the registry (`kwire.registry`). Libraries (fastavro, protobuf)
are imported with the first schema that needs them; all limits on what strangers send are in `limits`.
"""

from kwire.schemas.decoding import decode, decoded_text, jsonable
from kwire.schemas.errors import DecodeError, SchemaError
from kwire.schemas.levels import DEFAULT_LEVEL, LEVELS, Finding, check
from kwire.schemas.parsing import parse
from kwire.schemas.schema import AVRO, JSON, PROTOBUF, TYPES, Incompatibility, Reference, Resolved, Schema

__all__ = [
    "AVRO",
    "DEFAULT_LEVEL",
    "JSON",
    "LEVELS",
    "PROTOBUF",
    "TYPES",
    "DecodeError",
    "Finding",
    "Incompatibility",
    "Reference",
    "Resolved",
    "Schema",
    "SchemaError",
    "check",
    "decode",
    "decoded_text",
    "jsonable",
    "parse",
]

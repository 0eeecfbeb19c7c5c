"""`parse`: a text becomes a `Schema` of its type. What a type needs is imported with the first schema of it."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.schemas.errors import SchemaError
from kwire.schemas.limits import PROTOBUF_CHARACTERS_MAX, REFERENCES_MAX, check_size
from kwire.schemas.schema import AVRO, JSON, PROTOBUF, TYPES, Resolved, Schema


def parse(text: str, type: str = AVRO, resolved: Sequence[Resolved] = (), *, strict: bool = True) -> Schema:
    """The schema of a text. ``resolved``: all schemas that it refers to, each after those that it needs itself.
    ``strict``: as for a schema that is new; a stored one may have what was allowed once. `SchemaError`."""
    if len(resolved) > REFERENCES_MAX:
        raise SchemaError(f"the schema refers to {len(resolved)} others; at most {REFERENCES_MAX} are allowed")
    for each in (text, *(each.text for each in resolved)):
        check_size(each, *((PROTOBUF_CHARACTERS_MAX,) if type == PROTOBUF else ()))
    if type == AVRO:
        from kwire.schemas.avro.schema import AvroSchema

        return AvroSchema(text, resolved, strict=strict)
    if type == JSON:
        from kwire.schemas.json_schema.schema import JsonSchema

        return JsonSchema(text, resolved, strict=strict)
    if type == PROTOBUF:
        from kwire.schemas.protobuf.schema import ProtobufSchema

        return ProtobufSchema(text, resolved)
    raise SchemaError(f"there is no schema type {type}: only {', '.join(TYPES)}")

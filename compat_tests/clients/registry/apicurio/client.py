"""Calls by confluent-kafka's client and its serializers, and what they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from compat_tests.clients.registry.apicurio.calls import DOCUMENT, field, record

ORDER: Final = record(field("id"), name="Piece")
WIDER: Final = record(field("id"), field("x", default=0), name="Piece")
OTHER: Final = record(field("other"), name="Piece")
LINE: Final = 'syntax = "proto3";\n\nmessage Row {\n  int32 n = 1;\n}\n'
LINES: Final = 'syntax = "proto3";\n\nimport "row.proto";\n\nmessage Rows {\n  repeated Row rows = 1;\n}\n'


class Calls:
    """Calls of one client. Ids are counted from 1, as they come."""

    def __init__(self, url: str) -> None:
        self.client = SchemaRegistryClient({"url": url})
        self.found: dict[str, Any] = {}
        self._ids: dict[int, int] = {}

    def note(self, name: str, call: Callable[[], Any]) -> Any:
        """Call, and keep what comes of it: of an error, its status and code."""
        try:
            returned = call()
        except SchemaRegistryError as error:
            self.found[name] = (error.http_status_code, error.error_code)
            return None
        self.found[name] = self._plain(returned)
        return returned

    def id(self, name: str, call: Callable[[], Any]) -> int:
        """The id that a call returns."""
        returned = int(call())
        self.found[name] = self._number(returned)
        return returned

    def _number(self, id: int) -> int:
        return self._ids.setdefault(id, len(self._ids) + 1)

    def _plain(self, value: Any) -> Any:
        if hasattr(value, "schema_id") and hasattr(value, "subject"):
            return value.subject, value.version, self._number(value.schema_id), self._plain(value.schema)
        if isinstance(value, Schema):
            references = [(each.name, each.subject, each.version) for each in value.references or []]
            return value.schema_type, "".join((value.schema_str or "").split()), references
        if isinstance(value, dict) and value.get("normalize") is False:  # the default, which Apicurio shows as well
            return {name: each for name, each in value.items() if name != "normalize"}
        if hasattr(value, "compatibility") and hasattr(value, "compatibility_level"):
            return value.compatibility, value.compatibility_level
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        return (value.subject, value.version) if hasattr(value, "subject") and hasattr(value, "version") else value


def results(url: str) -> dict[str, Any]:
    """What all calls return, by their names."""
    calls = Calls(url)
    client, note = calls.client, calls.note
    order, wider, other = (Schema(text, "AVRO") for text in (ORDER, WIDER, OTHER))
    first = calls.id("register", lambda: client.register_schema("py-p", order))
    calls.id("register again", lambda: client.register_schema("py-p", order))
    calls.id("register elsewhere", lambda: client.register_schema("py-q", order))
    calls.id("register another", lambda: client.register_schema("py-p", wider))
    note("register what may not follow", lambda: client.register_schema("py-p", other))
    note("schema", lambda: SchemaRegistryClient({"url": url}).get_schema(first))
    note("no schema", lambda: client.get_schema(99999))
    note("subjects by id", lambda: sorted(client.get_subjects_by_schema_id(first)))
    note("versions by id", lambda: sorted((each.subject, each.version) for each in client.get_schema_versions(first)))
    note("look up", lambda: client.lookup_schema("py-p", wider))
    note("look up nothing", lambda: client.lookup_schema("py-p", other))
    note("latest", lambda: client.get_latest_version("py-p"))
    note("latest of nothing", lambda: client.get_latest_version("nothing"))
    note("version", lambda: client.get_version("py-p", 1))
    note("no version", lambda: client.get_version("py-p", 9))
    note("versions", lambda: client.get_versions("py-p"))
    note("may follow", lambda: client.test_compatibility("py-p", wider))
    note("may not follow", lambda: client.test_compatibility("py-p", other))
    note("may follow all", lambda: client.test_compatibility_all_versions("py-p", wider))
    note("set compatibility", lambda: client.set_compatibility("py-p", "FULL"))
    note("compatibility", lambda: client.get_compatibility("py-p"))
    note("wrong compatibility", lambda: client.set_compatibility("py-p", "SIDEWAYS"))
    note("config", lambda: client.get_config("py-p"))
    note("delete config", lambda: client.delete_config("py-p"))
    note("no compatibility", lambda: client.get_compatibility("py-p"))
    line = calls.id("line", lambda: client.register_schema("py-row", Schema(LINE, "PROTOBUF")))
    reference = SchemaReference("row.proto", "py-row", 1)
    calls.id("lines", lambda: client.register_schema("py-rows", Schema(LINES, "PROTOBUF", [reference])))
    note("lines by version", lambda: client.get_version("py-rows", 1))
    note("line by id", lambda: client.get_schema(line))
    note("delete a version", lambda: client.delete_version("py-p", 1))
    note("versions without it", lambda: client.get_versions("py-p"))
    note("delete it for good", lambda: client.delete_version("py-p", 1, permanent=True))
    note("delete a subject", lambda: client.delete_subject("py-q"))
    note("delete it for ever", lambda: client.delete_subject("py-q", permanent=True))
    _serialize(calls)
    note("subjects", lambda: sorted(each for each in client.get_subjects() if each.startswith("py-")))
    return calls.found


def _serialize(calls: Calls) -> None:
    client, context = calls.client, SerializationContext("py-t", MessageField.VALUE)
    payload = AvroSerializer(client, WIDER)({"id": 7, "x": 1}, context)
    assert payload is not None
    calls.found["avro"] = payload[5:]
    calls.note("avro back", lambda: AvroDeserializer(client)(payload, context))
    documents = SerializationContext("py-d", MessageField.VALUE)
    document = JSONSerializer('{"title":"PyDocument",' + DOCUMENT[1:], client)({"id": 7}, documents)
    assert document is not None
    calls.found["json"] = document[5:]
    back = JSONDeserializer(None, schema_registry_client=client)
    calls.note("json back", lambda: back(document, documents))

"""Calls by plain REST: what is asked in which order, and an answer's form in which two registries can be compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from harness.registries.process import Answer

Ask = Callable[[str, str, Any], Answer]

LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)


class Step(NamedTuple):
    """A call. ``{NAME}`` in the path is the id that the step of this name got."""

    name: str
    method: str
    path: str
    body: Any = None


def record(*fields: Mapping[str, Any], name: str = "Order") -> str:
    """An Avro schema."""
    return json.dumps({"type": "record", "name": name, "fields": list(fields)}, separators=(",", ":"))


def field(name: str, type: Any = "int", **more: Any) -> dict[str, Any]:
    """A field of one."""
    return {"name": name, "type": type, **more}


ORDER: Final = record(field("id"))
WIDER: Final = record(field("id"), field("x", default=0))
WIDEST: Final = record(field("id"), field("x", default=0), field("y", default=0))
OTHER: Final = record(field("other"))
CHANGES: Final = {
    "with a default more": WIDER,
    "without a default more": record(field("id"), field("x")),
    "one less": record(),
    "wider type": record(field("id", "long")),
    "other type": record(field("id", "string")),
    "another name": record(field("id"), name="Another"),
}
DOCUMENT: Final = '{"type":"object","properties":{"id":{"type":"integer"}},"additionalProperties":false}'
DOCUMENTS: Final = {
    "property more": '{"type":"object","properties":{"id":{"type":"integer"},"x":{"type":"integer"}},'
    '"additionalProperties":false}',
    "required": '{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],'
    '"additionalProperties":false}',
    "other type": '{"type":"object","properties":{"id":{"type":"string"}},"additionalProperties":false}',
    "wider type": '{"type":"object","properties":{"id":{"type":"number"}},"additionalProperties":false}',
}
MESSAGE: Final = 'syntax = "proto3";\n\nmessage Order {\n  int32 id = 1;\n}\n'
MESSAGES: Final = {
    "field more": 'syntax = "proto3";\n\nmessage Order {\n  int32 id = 1;\n  string x = 2;\n}\n',
    "other type": 'syntax = "proto3";\n\nmessage Order {\n  string id = 1;\n}\n',
    "another number": 'syntax = "proto3";\n\nmessage Order {\n  int32 id = 2;\n}\n',
    "message more": MESSAGE + "\nmessage Line {\n  int32 n = 1;\n}\n",
}
LINE: Final = 'syntax = "proto3";\n\nmessage Line {\n  int32 n = 1;\n}\n'
LINES: Final = 'syntax = "proto3";\n\nimport "line.proto";\n\nmessage Lines {\n  repeated Line lines = 1;\n}\n'
LINE_REFERENCE: Final = [{"name": "line.proto", "subject": "line", "version": 1}]


def _avro(text: str) -> dict[str, Any]:
    return {"schema": text}


def _life() -> Iterator[Step]:
    """A subject from the first version to the last deletion."""
    versions = "/subjects/life/versions"
    yield Step("level at first", "GET", "/config")
    yield Step("set the level at first", "PUT", "/config", {"compatibility": "BACKWARD"})
    yield Step("no versions yet", "GET", versions)
    yield Step("no version yet", "GET", f"{versions}/1")
    yield Step("no latest version yet", "GET", f"{versions}/latest")
    yield Step("look-up in no subject", "POST", "/subjects/life", _avro(ORDER))
    yield Step("no such id", "GET", "/schemas/ids/999999")
    yield Step("deletion of no subject", "DELETE", "/subjects/life")
    yield Step("deletion of no version", "DELETE", f"{versions}/1")
    yield Step("order", "POST", versions, _avro(ORDER))
    yield Step("order again", "POST", versions, _avro(ORDER))
    yield Step("order elsewhere", "POST", "/subjects/copy/versions", _avro(ORDER))
    yield Step("wider", "POST", versions, _avro(WIDER))
    yield Step("incompatible", "POST", versions, _avro(OTHER))
    yield Step("subjects", "GET", "/subjects")
    yield Step("versions", "GET", versions)
    for number in ("1", "2", "latest", "-1", "3", "0", "x", "-2", "2147483648"):
        yield Step(f"version {number}", "GET", f"{versions}/{number}")
    yield Step("text of a version", "GET", f"{versions}/1/schema")
    yield Step("text of no version", "GET", f"{versions}/7/schema")
    yield Step("by id", "GET", "/schemas/ids/{order}")
    yield Step("text by id", "GET", "/schemas/ids/{order}/schema")
    yield Step("subjects by id", "GET", "/schemas/ids/{order}/subjects")
    yield Step("versions by id", "GET", "/schemas/ids/{order}/versions")
    yield Step("look-up", "POST", "/subjects/life", _avro(ORDER))
    yield Step("look-up of an unknown schema", "POST", "/subjects/life", _avro(OTHER))
    yield Step("permanent deletion before a soft one", "DELETE", f"{versions}/1?permanent=true")
    yield Step("soft deletion", "DELETE", f"{versions}/1")
    yield Step("soft deletion again", "DELETE", f"{versions}/1")
    yield Step("versions after a deletion", "GET", versions)
    yield Step("versions with deleted ones", "GET", f"{versions}?deleted=true")
    yield Step("deleted version", "GET", f"{versions}/1")
    yield Step("deleted version, wanted", "GET", f"{versions}/1?deleted=true")
    yield Step("by id after a deletion", "GET", "/schemas/ids/{order}")
    yield Step("look-up of a deleted version", "POST", "/subjects/life", _avro(ORDER))
    yield Step("look-up of a deleted version, wanted", "POST", "/subjects/life?deleted=true", _avro(ORDER))
    yield Step("permanent deletion", "DELETE", f"{versions}/1?permanent=true")
    yield Step("versions after a permanent deletion", "GET", f"{versions}?deleted=true")
    yield Step("third version", "POST", versions, _avro(WIDEST))
    yield Step("versions with a third", "GET", versions)
    yield Step("permanent deletion of a subject before a soft one", "DELETE", "/subjects/life?permanent=true")
    yield Step("soft deletion of a subject", "DELETE", "/subjects/life")
    yield Step("soft deletion of a subject again", "DELETE", "/subjects/life")
    yield Step("versions of a deleted subject", "GET", versions)
    yield Step("subjects without a deleted one", "GET", "/subjects")
    yield Step("subjects with a deleted one", "GET", "/subjects?deleted=true")
    yield Step("a deleted subject comes back", "POST", versions, _avro(ORDER))
    yield Step("versions after it came back", "GET", versions)
    yield Step("second soft deletion of a subject", "DELETE", "/subjects/life")
    yield Step("permanent deletion of a subject", "DELETE", "/subjects/life?permanent=true")
    yield Step("permanent deletion of a subject again", "DELETE", "/subjects/life?permanent=true")
    yield Step("subjects at the end", "GET", "/subjects?deleted=true")


def _settings() -> Iterator[Step]:
    """Levels of compatibility, and modes."""
    yield Step("level", "GET", "/config")
    yield Step("first of a", "POST", "/subjects/a/versions", _avro(ORDER))
    yield Step("no level of its own", "GET", "/config/a")
    yield Step("level that holds", "GET", "/config/a?defaultToGlobal=true")
    yield Step("level of no subject", "GET", "/config/nothing")
    yield Step("no level", "PUT", "/config/a", {"compatibility": "SIDEWAYS"})
    yield Step("set a level", "PUT", "/config/a", {"compatibility": "NONE"})
    yield Step("level of its own", "GET", "/config/a")
    yield Step("anything goes", "POST", "/subjects/a/versions", _avro(OTHER))
    yield Step("remove a level", "DELETE", "/config/a")
    yield Step("no level of its own again", "GET", "/config/a")
    yield Step("set the level", "PUT", "/config", {"compatibility": "FULL"})
    yield Step("new level", "GET", "/config")
    yield Step("set the level back", "PUT", "/config", {"compatibility": "BACKWARD"})
    yield Step("mode", "GET", "/mode")
    yield Step("no mode of its own", "GET", "/mode/a")
    yield Step("no mode", "PUT", "/mode", {"mode": "SIDEWAYS"})
    yield Step("set a mode", "PUT", "/mode/a", {"mode": "READONLY"})
    yield Step("read-only", "POST", "/subjects/a/versions", _avro(WIDER))
    yield Step("remove a mode", "DELETE", "/mode/a")


def _compatibility() -> Iterator[Step]:
    """What may follow what, on each level, for each type."""
    kinds = (("AVRO", ORDER, CHANGES), ("JSON", DOCUMENT, DOCUMENTS), ("PROTOBUF", MESSAGE, MESSAGES))
    for kind, first, changes in kinds:
        subject = f"c-{kind.lower()}"
        check = f"/compatibility/subjects/{subject}/versions"
        yield Step(f"first {kind}", "POST", f"/subjects/{subject}/versions", {"schema": first, "schemaType": kind})
        for level in LEVELS:
            yield Step(f"{kind} {level}", "PUT", f"/config/{subject}", {"compatibility": level})
            for name, text in changes.items():
                body = {"schema": text, "schemaType": kind}
                yield Step(f"{kind} {level}: {name}", "POST", f"{check}/latest", body)
    yield Step("AVRO: check against all", "POST", "/compatibility/subjects/c-avro/versions", _avro(WIDER))
    yield Step("AVRO: check against no version", "POST", "/compatibility/subjects/c-avro/versions/9", _avro(WIDER))
    yield Step("AVRO: check against no subject", "POST", "/compatibility/subjects/none/versions/latest", _avro(WIDER))
    yield Step(
        "AVRO: check against version 1 of no subject", "POST", "/compatibility/subjects/none/versions/1", _avro(ORDER)
    )
    yield Step("AVRO: no schema to check", "POST", "/compatibility/subjects/c-avro/versions/latest", _avro("{"))


def _references() -> Iterator[Step]:
    """Schemas that refer to others."""
    lines = {"schema": LINES, "schemaType": "PROTOBUF"}
    known = {**lines, "references": LINE_REFERENCE}
    yield Step("reference to nothing", "POST", "/subjects/lines/versions", known)
    yield Step("line", "POST", "/subjects/line/versions", {"schema": LINE, "schemaType": "PROTOBUF"})
    yield Step("lines", "POST", "/subjects/lines/versions", known)
    yield Step("lines again", "POST", "/subjects/lines/versions", known)
    yield Step("version with a reference", "GET", "/subjects/lines/versions/1")
    yield Step("by id, with a reference", "GET", "/schemas/ids/{lines}")
    yield Step("look-up with a reference", "POST", "/subjects/lines", known)
    yield Step("who refers to it", "GET", "/subjects/line/versions/1/referencedby")
    yield Step("who refers to the other", "GET", "/subjects/lines/versions/1/referencedby")
    yield Step("deletion of what is referred to", "DELETE", "/subjects/line/versions/1")
    yield Step("deletion of what refers", "DELETE", "/subjects/lines")
    yield Step("deletion of what was referred to", "DELETE", "/subjects/line/versions/1")
    yield Step("avro line", "POST", "/subjects/avro-line/versions", _avro(record(field("n"), name="Line")))
    referring = record(field("line", "Line"), name="Lines")
    reference = [{"name": "Line", "subject": "avro-line", "version": 1}]
    body = {"schema": referring, "references": reference}
    yield Step("avro lines", "POST", "/subjects/avro-lines/versions", body)
    yield Step("avro version with a reference", "GET", "/subjects/avro-lines/versions/1")


def _wrong() -> Iterator[Step]:
    """Requests that are none."""
    versions = "/subjects/wrong/versions"
    yield Step("no avro", "POST", versions, _avro('{"type":"record"}'))
    yield Step("no json", "POST", versions, {"schema": '{"type": 7}', "schemaType": "JSON"})
    yield Step("no protobuf", "POST", versions, {"schema": "message {", "schemaType": "PROTOBUF"})
    yield Step("empty", "POST", versions, _avro(""))
    yield Step("no type", "POST", versions, {"schema": ORDER, "schemaType": "XML"})
    yield Step("no schema", "POST", versions, {})
    yield Step("no body of JSON", "POST", versions, b"{")
    yield Step("no route", "GET", "/nothing")
    yield Step("no method", "DELETE", "/schemas/types")
    yield Step("reference left out", "POST", "/subjects/left-out/versions", {"schema": LINES, "schemaType": "PROTOBUF"})
    yield Step("types", "GET", "/schemas/types")
    yield Step("contexts", "GET", "/contexts")


STEPS: Final = (*_life(), *_settings(), *_compatibility(), *_references(), *_wrong())


def answers(ask: Ask) -> dict[str, Any]:
    """What a registry answers to all steps, by their names, comparable: `_comparable`."""
    ids: dict[str, int] = {}
    order: dict[int, int] = {}
    found: dict[str, Any] = {}
    for step in STEPS:
        path = step.path
        for name, id in ids.items():
            path = path.replace(f"{{{name}}}", str(id))
        answer = ask(step.method, path, step.body)
        if answer.status == 200 and isinstance(answer.body, dict) and "id" in answer.body:
            ids[step.name] = answer.body["id"]
            order.setdefault(answer.body["id"], len(order) + 1)
        found[step.name] = _comparable(step, answer, order)
    return found


def _comparable(step: Step, answer: Answer, order: Mapping[int, int]) -> Any:
    """An answer whose ids are counted from 1. Of a failure: the status and the code, for words are nobody's interface.
    Of a text that is a schema: the schema."""
    status, body = answer
    if status >= 400:
        return status, body.get("error_code") if isinstance(body, dict) else None
    if isinstance(body, dict):
        if "id" in body:
            body = {**body, "id": order[body["id"]]}
        if "messages" in body:
            body = {name: value for name, value in body.items() if name != "messages"}
        if body.get("normalize") is False:  # the default, which Apicurio shows as well
            body = {name: value for name, value in body.items() if name != "normalize"}
        if isinstance(body.get("schema"), str):
            body = {**body, "schema": _plain(body["schema"])}
    if step.name == "who refers to it" and isinstance(body, list):
        body = [order.get(each, each) for each in body]
    return status, body


def _plain(schema: str) -> Any:
    """A schema without regard to spaces."""
    try:
        return json.loads(schema)
    except ValueError:
        return "".join(schema.split())

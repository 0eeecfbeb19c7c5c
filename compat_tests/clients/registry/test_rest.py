"""Confluent's REST interface, request by request: statuses, codes and bodies as its documentation has them."""

from __future__ import annotations

import json
from pathlib import Path

from compat_tests.clients.registry.conftest import Start
from harness.registries.process import Registry
from kwire.registry.calls import BODY_BYTES_MAX

RECORD = '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}'
WIDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"},{"name":"x","type":"int","default":0}]}'
OTHER = '{"type":"record","name":"Order","fields":[{"name":"y","type":"int"}]}'


def test_the_life_of_a_subject(registry: Registry) -> None:
    call = registry.call
    assert call("GET", "/subjects") == (200, [])
    assert call("POST", "/subjects/orders-value/versions", {"schema": RECORD}) == (200, {"id": 1})
    assert call("POST", "/subjects/orders-value/versions", {"schema": RECORD}) == (200, {"id": 1})
    assert call("POST", "/subjects/orders-value/versions", {"schema": WIDER}) == (200, {"id": 2})
    assert call("POST", "/subjects/copies-value/versions", {"schema": RECORD}) == (200, {"id": 1})
    assert call("GET", "/subjects") == (200, ["copies-value", "orders-value"])
    assert call("GET", "/subjects/orders-value/versions") == (200, [1, 2])
    latest = call("GET", "/subjects/orders-value/versions/latest").body
    assert (latest["subject"], latest["version"], latest["id"], latest["schema"]) == ("orders-value", 2, 2, WIDER)
    assert call("GET", "/subjects/orders-value/versions/1/schema").body == json.loads(RECORD)
    assert call("GET", "/schemas/ids/1").body["schema"] == RECORD
    assert call("GET", "/schemas/ids/1/subjects").body == ["copies-value", "orders-value"]
    found = call("POST", "/subjects/orders-value", {"schema": RECORD}).body
    assert (found["version"], found["id"]) == (1, 1)
    assert call("DELETE", "/subjects/orders-value/versions/1") == (200, 1)
    assert call("GET", "/subjects/orders-value/versions") == (200, [2])
    assert call("GET", "/subjects/orders-value/versions?deleted=true") == (200, [1, 2])
    assert call("DELETE", "/subjects/orders-value?permanent=true").code == (404, 40405)
    assert call("DELETE", "/subjects/orders-value") == (200, [2])
    assert call("DELETE", "/subjects/orders-value").code == (404, 40404)
    assert call("DELETE", "/subjects/orders-value?permanent=true") == (200, [1, 2])
    assert call("GET", "/subjects?deleted=true") == (200, ["copies-value"])


def test_compatibility(registry: Registry) -> None:
    call = registry.call
    assert call("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert call("POST", "/subjects/a/versions", {"schema": RECORD}).status == 200
    assert call("POST", "/subjects/a/versions", {"schema": OTHER}).code == (409, 409)
    checked = call("POST", "/compatibility/subjects/a/versions/latest?verbose=true", {"schema": OTHER}).body
    assert checked["is_compatible"] is False
    assert checked["messages"]
    assert call("GET", "/config/a").code == (404, 40408)
    assert call("GET", "/config/a?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})
    assert call("PUT", "/config/a", {"compatibility": "NONE"}) == (200, {"compatibility": "NONE"})
    assert call("POST", "/subjects/a/versions", {"schema": OTHER}).status == 200
    assert call("PUT", "/config", {"compatibility": "SIDEWAYS"}).code == (422, 42203)
    assert call("DELETE", "/config/a").status == 200


def test_modes(registry: Registry) -> None:
    call = registry.call
    assert call("GET", "/mode") == (200, {"mode": "READWRITE"})
    assert call("PUT", "/mode/a", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    assert call("POST", "/subjects/a/versions", {"schema": RECORD}).code == (422, 42205)
    assert call("PUT", "/mode/b", {"mode": "IMPORT"}).status == 200
    assert call("POST", "/subjects/b/versions", {"schema": RECORD, "id": 70, "version": 3}) == (200, {"id": 70})
    assert call("GET", "/subjects/b/versions") == (200, [3])
    assert call("PUT", "/mode/b", {"mode": "SIDEWAYS"}).code == (422, 42204)
    assert call("POST", "/subjects/c/versions", {"schema": WIDER}).body["id"] > 70


def test_references(registry: Registry) -> None:
    call = registry.call
    line = 'syntax = "proto3"; message Line { int32 n = 1; }'
    order = 'syntax = "proto3"; import "line.proto"; message Order { repeated Line lines = 1; }'
    assert call("POST", "/subjects/line/versions", {"schema": line, "schemaType": "PROTOBUF"}).status == 200
    body: dict[str, object] = {"schema": order, "schemaType": "PROTOBUF"}
    assert call("POST", "/subjects/order/versions", body).code == (422, 42201)
    body |= {"references": [{"name": "line.proto", "subject": "line", "version": 1}]}
    id = call("POST", "/subjects/order/versions", body).body["id"]
    assert call("GET", "/subjects/line/versions/1/referencedby") == (200, [id])
    assert call("DELETE", "/subjects/line/versions/1").code == (422, 42206)


def test_contexts_have_ids_of_their_own(registry: Registry) -> None:
    call = registry.call
    assert call("POST", "/subjects/a/versions", {"schema": RECORD}).body == {"id": 1}
    assert call("POST", "/subjects/:.other:a/versions", {"schema": WIDER}).body == {"id": 1}
    assert call("GET", "/contexts") == (200, [".", ".other"])
    assert call("GET", "/contexts/.other/subjects") == (200, [":.other:a"])


def test_what_is_not_there_or_wrong(registry: Registry) -> None:
    call = registry.call
    assert call("GET", "/subjects/none/versions").code == (404, 40401)
    assert call("POST", "/subjects/a/versions", {"schema": RECORD}).status == 200
    assert call("GET", "/subjects/a/versions/9").code == (404, 40402)
    assert call("GET", "/subjects/a/versions/x").code == (422, 42202)
    assert call("GET", "/schemas/ids/99").code == (404, 40403)
    assert call("POST", "/subjects/a", {"schema": OTHER}).code == (404, 40403)
    assert call("POST", "/subjects/a/versions", {"schema": "{"}).code == (422, 42201)
    assert call("POST", "/subjects/a/versions", b"no json").status in (400, 422)
    assert call("GET", "/nothing").status == 404
    assert call("DELETE", "/schemas/types").status == 405


def test_hostile_schemas_are_refused(registry: Registry) -> None:
    call = registry.call
    deep = '{"type":"array","items":' * 2000 + '"int"' + "}" * 2000
    assert call("POST", "/subjects/a/versions", {"schema": deep}).code == (422, 42201)
    circle = {"schema": '{"$ref": "#"}', "schemaType": "JSON"}
    assert call("POST", "/subjects/a/versions", circle).code == (422, 42201)
    many = [{"name": f"n{number}", "subject": "s", "version": 1} for number in range(5000)]
    assert call("POST", "/subjects/a/versions", {"schema": RECORD, "references": many}).status == 422
    assert call("POST", "/subjects/a/versions", b'{"schema":"' + b"x" * (BODY_BYTES_MAX + 1) + b'"}').status == 413
    half = '{"type": "string", "doc": "\\ud800"}'
    for schema in (half, half.encode().decode("unicode_escape")):
        for kind in ("AVRO", "JSON"):
            assert call("POST", "/subjects/a/versions", {"schema": schema, "schemaType": kind}).code == (422, 42201)
    infinite = {"schema": RECORD, "metadata": {"properties": {"a": float("inf")}}}
    assert call("POST", "/subjects/a/versions", infinite).status == 400, "no other parser reads Infinity"
    assert call("GET", "/subjects") == (200, []), "it still answers"


def test_settings_have_the_types_that_confluents_registry_reads(registry: Registry) -> None:
    call = registry.call
    assert call("PUT", "/config/a", {"compatibilityLevel": "none"}).code == (422, 42203), "the name of the answer"
    assert call("PUT", "/config/a", {"compatibility": "FULL", "compatibilityLevel": "x"}).status == 200
    assert call("GET", "/config/a") == (200, {"compatibilityLevel": "FULL"})
    wrong: dict[str, object] = {"normalize": "yes", "alias": 1, "overrideMetadata": []}
    for name, value in wrong.items():
        assert call("PUT", "/config/a", {name: value}).status == 400
    assert call("POST", "/subjects/a/versions", {"schema": RECORD, "metadata": 5}).status == 400
    assert call("PUT", "/config/a", {"normalize": True}) == (200, {"normalize": True})


def test_basic_authentication(start: Start, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice: secret\n")
    registry = start("--users", str(users))
    assert registry.call("GET", "/subjects").code == (401, 401)
    assert registry.call("GET", "/subjects", headers={"Authorization": "Basic YWxpY2U6d3Jvbmc="}).status == 401
    assert registry.call("GET", "/subjects", headers={"Authorization": "Basic YWxpY2U6c2VjcmV0"}) == (200, [])

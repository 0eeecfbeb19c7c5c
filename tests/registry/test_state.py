"""What records of the topic make together."""

from __future__ import annotations

import json
from typing import Any

from kwire.registry.store import records
from kwire.registry.store.state import State


def schema(subject: str, version: int, id: int, text: str = '"string"', **more: Any) -> tuple[bytes, bytes]:
    value = {"subject": subject, "version": version, "id": id, "schema": text, "deleted": False, **more}
    return records.schema_key(subject, version), json.dumps(value).encode()


def state(*applied: tuple[bytes | None, bytes | None]) -> State:
    made = State()
    for key, value in applied:
        made.apply(key, value)
    return made


def numbers(made: State, subject: str, *, deleted: bool = False) -> list[tuple[int, int]]:
    return [(each.version, each.id) for each in made.versions(subject, deleted=deleted)]


def test_keys_are_confluents_byte_for_byte() -> None:
    assert records.schema_key("orders-value", 1) == (
        b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}'
    )
    assert records.key(records.CONFIG, None) == b'{"keytype":"CONFIG","subject":null,"magic":0}'


def test_versions_and_ids_may_have_gaps() -> None:
    made = state(schema("a", 1, 3), schema("a", 5, 9, '"int"'))
    assert numbers(made, "a") == [(1, 3), (5, 9)]
    assert made.highest_id(".") == 9


def test_a_tombstone_ends_a_version_but_not_its_id() -> None:
    made = state(schema("a", 1, 3), schema("a", 2, 4, '"int"'), (records.schema_key("a", 2), None))
    assert numbers(made, "a", deleted=True) == [(1, 3)]
    assert made.with_id(".", 4) == []
    assert made.highest_id(".") == 4, "an id is never given twice"


def test_the_deletion_of_a_subject_hides_its_versions() -> None:
    gone = json.dumps({"subject": "a", "version": 1}).encode()
    made = state(schema("a", 1, 3), (records.key(records.DELETE_SUBJECT, "a"), gone), schema("a", 2, 4, '"int"'))
    assert numbers(made, "a") == [(2, 4)]
    assert numbers(made, "a", deleted=True) == [(1, 3), (2, 4)]


def test_unknown_fields_and_records_are_kept_and_do_no_harm() -> None:
    made = state(
        schema("a", 1, 3, guid="x", ts=1, metadata={"properties": {"owner": "me"}}),
        (b'{"keytype":"ENCODING","tenant":"t","magic":0}', b"{}"),
        (b"no json", b"neither"),
        (None, None),
        (records.schema_key("b", 1), b'{"subject":"b","version":1,"schema":"no id"}'),
        (records.NOOP_KEY, None),
    )
    [version] = made.versions("a")
    assert dict(version.fields)["guid"] == "x"
    assert made.not_understood == 4
    assert list(made.subjects()) == ["a"]

"""What Apicurio Registry answers otherwise, and why kwire does not follow it.

Two differences are in no list: Apicurio adds ``normalize`` to what it says of configurations, and words its messages by
itself.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Difference(NamedTuple):
    """The answers to a step in `calls`' form, and why they differ."""

    kwire: Any
    apicurio: Any
    reason: str


_DEFAULT: Final = "Confluent's default is BACKWARD, Apicurio's NONE"
_NO_VERSION: Final = "Confluent documents 42202 for what cannot be a version"
_FIRST_SOFTLY: Final = "Confluent documents the status 404 for these codes"
_NO_SETTING: Final = "Confluent documents 40408 and 40409 for subjects without a setting; Apicurio shows the default"
_NO_MODES: Final = "Apicurio has no modes of its own: it accepts each, and changes nothing"
_NO_CHECK: Final = "Apicurio takes any text for a schema, if nothing was there before"
_WORDS: Final = "Apicurio answers what no resource of its own has refused without Confluent's JSON"
_PROTOBUF: Final = "Confluent's rules let fields come and go on every level; Apicurio's keep those that there are"

_COMPATIBLE: Final = (200, {"is_compatible": True})
_NOT: Final = (200, {"is_compatible": False})
_LINES: Final = {
    "subject": "lines",
    "version": 1,
    "id": 8,
    "schema": 'syntax="proto3";import"line.proto";messageLines{repeatedLinelines=1;}',
    "references": [{"name": "line.proto", "subject": "line", "version": 1}],
}


def _protobuf(level: str, *changes: str) -> dict[str, Difference]:
    names = [f"PROTOBUF {each}: {change}" for each in (level, f"{level}_TRANSITIVE") for change in changes]
    return {name: Difference(_COMPATIBLE, _NOT, _PROTOBUF) for name in names}


DIFFERENCES: Final[dict[str, Difference]] = {
    "level at first": Difference(
        (200, {"compatibilityLevel": "BACKWARD"}), (200, {"compatibilityLevel": "NONE"}), _DEFAULT
    ),
    "version 0": Difference((422, 42202), (404, 40402), _NO_VERSION),
    "version x": Difference((422, 42202), (404, 40402), _NO_VERSION),
    "version -2": Difference((422, 42202), (404, 40401), _NO_VERSION),
    "version 2147483648": Difference((422, 42202), (404, 40402), _NO_VERSION),
    "permanent deletion before a soft one": Difference((404, 40407), (409, 40407), _FIRST_SOFTLY),
    "soft deletion again": Difference((404, 40406), (409, 40406), _FIRST_SOFTLY),
    "permanent deletion of a subject before a soft one": Difference((404, 40405), (409, 40405), _FIRST_SOFTLY),
    "second soft deletion of a subject": Difference(
        (200, [4]), (200, [2, 3, 4]), "the versions that this request deletes, not those deleted before as well"
    ),
    "no level of its own": Difference((404, 40408), (200, {"compatibilityLevel": "NONE"}), _NO_SETTING),
    "no level of its own again": Difference((404, 40408), (200, {"compatibilityLevel": "NONE"}), _NO_SETTING),
    "level of no subject": Difference((404, 40408), (404, 40401), _NO_SETTING),
    "no mode of its own": Difference((404, 40409), (200, {"mode": "READWRITE"}), _NO_SETTING),
    "no mode": Difference((422, 42204), (422, 42201), _NO_MODES),
    "read-only": Difference((422, 42205), (200, {"id": 2}), _NO_MODES),
    **_protobuf("BACKWARD", "another number"),
    **_protobuf("FORWARD", "field more", "another number"),
    **_protobuf("FULL", "field more", "another number"),
    "look-up with a reference": Difference(
        (200, {**_LINES, "schemaType": "PROTOBUF"}), (200, _LINES), "the type is left out for Avro only"
    ),
    "empty": Difference((422, 42201), (200, {"id": 11}), _NO_CHECK),
    "reference left out": Difference((422, 42201), (200, {"id": 12}), _NO_CHECK),
    "no schema": Difference((422, 42201), (500, 0), "a request of the client's is wrong, not the registry"),
    "no body of JSON": Difference((400, 400), (400, None), _WORDS),
    "no route": Difference((404, 404), (404, None), _WORDS),
    "no method": Difference((405, 405), (405, None), _WORDS),
    "contexts": Difference((200, ["."]), (200, [":.:"]), "Confluent's name of the default context is a dot"),
}
"""Of `calls.answers`."""

CLIENT_DIFFERENCES: Final[dict[str, Difference]] = {
    "no compatibility": Difference((404, 40408), "NONE", _NO_SETTING),
}
"""Of `client.results`."""

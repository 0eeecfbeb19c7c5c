"""What each route does, with the state of an instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kwire.registry.calls import Call
from kwire.registry.instance import Instance
from kwire.registry.operations import deleting, reading, settings
from kwire.registry.operations.requests import Change, wanted
from kwire.registry.store.names import ALL_CONTEXTS, context_of
from kwire.registry.store.versions import Version
from kwire.schemas import PROTOBUF, TYPES

Action = Callable[[Instance, Call], Any]


def _page(call: Call, found: list[Any]) -> list[Any]:
    """A part of a list, by ``offset`` and ``limit``."""
    offset, limit = call.number("offset", 0), call.number("limit", 0)
    return found[offset : offset + limit] if limit else found[offset:]


def _prefix(call: Call) -> str:
    given = call.query.get("subjectPrefix")
    if call.context:
        return call.within(given or "")
    return ALL_CONTEXTS if given is None else given


def _subjects(instance: Instance, call: Call) -> list[str]:
    flags = {"deleted": call.flag("deleted"), "deleted_only": call.flag("deletedOnly")}
    return _page(call, reading.subjects(instance.state, _prefix(call), **flags))


def _numbers(instance: Instance, call: Call) -> list[int]:
    flags = {"deleted": call.flag("deleted"), "deleted_only": call.flag("deletedOnly")}
    return _page(call, reading.numbers(instance.state, call.subject, **flags))


def _version(instance: Instance, call: Call) -> Version:
    return reading.version(instance.state, call.subject, call.path["version"], deleted=call.flag("deleted"))


def _formatted(instance: Instance, call: Call, version: Version) -> Version:
    """The version with its text in the form that the query wants: ``serialized`` is Protobuf's descriptor in Base64,
    ``resolved`` has all references in it."""
    if call.query.get("format") == "serialized" and version.type == PROTOBUF:
        from kwire.schemas.protobuf.schema import ProtobufSchema

        schema = instance.schemas.stored(version)
        assert isinstance(schema, ProtobufSchema)
        return version._replace(text=schema.serialized())
    return version


def _shown_version(instance: Instance, call: Call) -> dict[str, Any]:
    return _formatted(instance, call, _version(instance, call)).shown()


def _with_metadata(instance: Instance, call: Call) -> dict[str, Any]:
    flag = call.flag("deleted")
    found = reading.latest_with_metadata(instance.state, call.subject, call.metadata, deleted=flag)
    return _formatted(instance, call, found).shown()


def _text_of_version(instance: Instance, call: Call) -> str:
    return _formatted(instance, call, _version(instance, call)).text


def _referred_by(instance: Instance, call: Call) -> list[int]:
    return _page(call, reading.referred_by(instance.state, call.subject, call.path["version"]))


def _look_up(instance: Instance, call: Call) -> dict[str, Any]:
    flags = {"normalize": call.flag("normalize"), "deleted": call.flag("deleted")}
    return instance.registering.look_up(call.subject, wanted(call.body), **flags)


def _compatible(instance: Instance, call: Call) -> dict[str, Any]:
    text = call.path.get("version")
    return instance.registering.compatible(call.subject, text, wanted(call.body), verbose=call.flag("verbose"))


def _register(instance: Instance, call: Call) -> Change:
    return instance.registering.register(call.subject, wanted(call.body), normalize=call.flag("normalize"))


def _with_id(instance: Instance, call: Call) -> Version:
    subject = call.query.get("subject", "")
    found = reading.with_id(instance.state, call.id, call.within(subject) if subject or call.context else "")
    return _formatted(instance, call, found)


def _schema(instance: Instance, call: Call) -> dict[str, Any]:
    version = _with_id(instance, call)
    highest = instance.state.highest_id(context_of(version.subject)) if call.flag("fetchMaxId") else None
    return reading.schema_of(version, highest)


def _versions_with_id(instance: Instance, call: Call) -> list[Version]:
    subject = call.within(call.query.get("subject", ""))
    return reading.versions_with_id(instance.state, call.id, subject, deleted=call.flag("deleted"))


def _subjects_with_id(instance: Instance, call: Call) -> list[str]:
    return _page(call, list(dict.fromkeys(each.subject for each in _versions_with_id(instance, call))))


def _places_with_id(instance: Instance, call: Call) -> list[dict[str, Any]]:
    found = [{"subject": each.subject, "version": each.version} for each in _versions_with_id(instance, call)]
    return _page(call, found)


def _schemas(instance: Instance, call: Call) -> list[dict[str, Any]]:
    flags = {"deleted": call.flag("deleted"), "latest_only": call.flag("latestOnly")}
    return _page(call, list(reading.all_schemas(instance.state, _prefix(call), **flags)))


def _scope(call: Call) -> str | None:
    """What a setting is of: a subject, the path's context, or everything."""
    return call.subject if "subject" in call.path else (call.context or None)


def _config(instance: Instance, call: Call) -> dict[str, Any]:
    return settings.show_config(instance.state, _scope(call), default_to_global=call.flag("defaultToGlobal"))


def _set_config(instance: Instance, call: Call) -> Change:
    return settings.set_config(instance.state, _scope(call), call.body)


def _delete_config(instance: Instance, call: Call) -> Change:
    return settings.delete_config(instance.state, _scope(call))


def _mode(instance: Instance, call: Call) -> dict[str, str]:
    return settings.show_mode(instance.state, _scope(call), default_to_global=call.flag("defaultToGlobal"))


def _set_mode(instance: Instance, call: Call) -> Change:
    return settings.set_mode(instance.state, _scope(call), call.body, force=call.flag("force"))


def _delete_mode(instance: Instance, call: Call) -> Change:
    return settings.delete_mode(instance.state, call.subject)


def _delete_version(instance: Instance, call: Call) -> Change:
    permanent = call.flag("permanent")
    return deleting.delete_version(instance.state, call.subject, call.path["version"], permanent=permanent)


def _delete_subject(instance: Instance, call: Call) -> Change:
    return deleting.delete_subject(instance.state, call.subject, permanent=call.flag("permanent"))


def _cluster(instance: Instance, call: Call) -> dict[str, Any]:
    clusters = {"kafka-cluster": "", "schema-registry-cluster": instance.group}
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


READING: Final[list[tuple[str, Action]]] = [
    ("/", lambda instance, call: {}),
    ("/subjects", _subjects),
    ("/subjects/{subject}", _look_up),
    ("/subjects/{subject}/metadata", _with_metadata),
    ("/subjects/{subject}/versions", _numbers),
    ("/subjects/{subject}/versions/{version}", _shown_version),
    ("/subjects/{subject}/versions/{version}/schema", _text_of_version),
    ("/subjects/{subject}/versions/{version}/referencedby", _referred_by),
    ("/schemas", _schemas),
    ("/schemas/types", lambda instance, call: list(TYPES)),
    ("/schemas/ids/{id}", _schema),
    ("/schemas/ids/{id}/schema", lambda instance, call: _with_id(instance, call).text),
    ("/schemas/ids/{id}/subjects", _subjects_with_id),
    ("/schemas/ids/{id}/versions", _places_with_id),
    ("/contexts", lambda instance, call: instance.state.contexts()),
    ("/compatibility/subjects/{subject}/versions", _compatible),
    ("/compatibility/subjects/{subject}/versions/{version}", _compatible),
    ("/config", _config),
    ("/config/{subject}", _config),
    ("/mode", _mode),
    ("/mode/{subject}", _mode),
    ("/v1/metadata/id", _cluster),
]
WRITING: Final[list[tuple[str, str, Action]]] = [
    ("POST", "/subjects/{subject}/versions", _register),
    ("DELETE", "/subjects/{subject}", _delete_subject),
    ("DELETE", "/subjects/{subject}/versions/{version}", _delete_version),
    ("PUT", "/config", _set_config),
    ("PUT", "/config/{subject}", _set_config),
    ("DELETE", "/config", _delete_config),
    ("DELETE", "/config/{subject}", _delete_config),
    ("PUT", "/mode", _set_mode),
    ("PUT", "/mode/{subject}", _set_mode),
    ("DELETE", "/mode/{subject}", _delete_mode),
]

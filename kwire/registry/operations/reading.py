"""Answers about subjects, versions and ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kwire.registry import failures
from kwire.registry.operations.requests import LATEST, version_number
from kwire.registry.store.names import DEFAULT_CONTEXT, begins, qualified
from kwire.registry.store.state import State
from kwire.registry.store.versions import Version, shown_schema


def subjects(state: State, prefix: str, *, deleted: bool, deleted_only: bool) -> list[str]:
    """The subjects with a prefix."""
    found = []
    for subject in state.subjects():
        if not begins(subject, prefix):
            continue
        live = bool(state.versions(subject))
        if (not live) if deleted_only else (deleted or live):
            found.append(subject)
    return found


def numbers(state: State, subject: str, *, deleted: bool, deleted_only: bool) -> list[int]:
    """The numbers of a subject's versions. `Refusal` if there are none."""
    versions = state.versions(subject, deleted=deleted or deleted_only)
    if not versions:
        raise failures.no_subject(subject)
    return [each.version for each in versions if each.deleted or not deleted_only]


def version(state: State, subject: str, text: str, *, deleted: bool = False) -> Version:
    """The version that a path names. `Refusal`."""
    number = version_number(text)
    versions = state.versions(subject, deleted=deleted)
    if number == LATEST:
        found = versions[-1:]
    else:
        found = [each for each in versions if each.version == number]
    if not found:
        raise failures.no_version(number) if versions else failures.no_subject(subject)
    return found[0]


def latest_with_metadata(state: State, subject: str, wanted: Mapping[str, str], *, deleted: bool) -> Version:
    """The last version of a subject whose metadata has these properties. `Refusal` if there is none."""
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise failures.no_subject(subject)
    each: Version
    for each in reversed(versions):
        metadata = each.fields.get("metadata")
        properties = metadata.get("properties") if isinstance(metadata, dict) else None
        if isinstance(properties, dict) and wanted.items() <= properties.items():
            return each
    raise failures.no_schema()


def referred_by(state: State, subject: str, text: str) -> list[int]:
    """The ids of schemas that refer to a version. `Refusal`."""
    found = version(state, subject, text, deleted=True)
    referring = (each for each in state.referring(subject, found.version) if not each.deleted)
    return sorted({each.id for each in referring})


def with_id(state: State, id: int, subject: str) -> Version:
    """A version whose schema has an id; ``subject``: where to look, or "" for the default context, then all. `Refusal`
    if there is none."""
    name = qualified(subject)
    found = state.with_id(name.context, id)
    if name.subject and any(each.subject == str(name) for each in found):
        found = [each for each in found if each.subject == str(name)]
    if not found and not subject:
        others = (context for context in state.contexts() if context != DEFAULT_CONTEXT)
        found = next((each for each in (state.with_id(context, id) for context in others) if each), [])
    if not found:
        raise failures.no_schema(id)
    return found[0]


def versions_with_id(state: State, id: int, subject: str, *, deleted: bool) -> list[Version]:
    """All versions whose schema has an id. `Refusal` if there is none."""
    name = qualified(subject)
    found = state.with_id(name.context, id)
    if not found:
        raise failures.no_schema(id)
    chosen = [each for each in found if (deleted or not each.deleted) and each.subject.startswith(str(name))]
    return sorted(chosen, key=lambda each: (each.subject, each.version))


def all_schemas(state: State, prefix: str, *, deleted: bool, latest_only: bool) -> Iterable[dict[str, Any]]:
    """All versions of subjects with a prefix, as the REST interface shows them."""
    for subject in state.subjects():
        if begins(subject, prefix):
            versions = state.versions(subject, deleted=deleted)
            yield from (each.shown() for each in (versions[-1:] if latest_only else versions))


def schema_of(version: Version, highest_id: int | None) -> dict[str, Any]:
    """What a request for an id gets. ``highest_id``: of the context, if it is wanted as well."""
    found = shown_schema(version)
    return found if highest_id is None else {**found, "maxId": highest_id}

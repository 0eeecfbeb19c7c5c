"""Deletion: soft (the version is not listed any more, its id is still served), then permanent (a tombstone)."""

from __future__ import annotations

from kwire.registry import failures
from kwire.registry.operations.reading import version
from kwire.registry.operations.requests import Change
from kwire.registry.operations.settings import check_writable
from kwire.registry.store import records
from kwire.registry.store.records import Record
from kwire.registry.store.state import State
from kwire.registry.store.versions import Version


def delete_version(state: State, subject: str, text: str, *, permanent: bool) -> Change:
    """Delete a version; the answer is its number. `Refusal`."""
    check_writable(state, subject)
    found = version(state, subject, text, deleted=True) if text not in ("latest", "-1") or permanent else None
    if found is None:
        found = version(state, subject, text)
    if found.deleted and not permanent:
        raise failures.version_deleted(subject, found.version)
    if permanent and not found.deleted:
        raise failures.version_not_deleted(subject, found.version)
    _check_unreferenced(state, found)
    key = records.schema_key(subject, found.version)
    changes = [Record(key, None if permanent else records.value(found.as_deleted()))]
    if not permanent and len(state.versions(subject)) == 1:
        changes += _without_settings(state, subject)
    return Change(changes, found.version)


def delete_subject(state: State, subject: str, *, permanent: bool) -> Change:
    """Delete all versions of a subject; the answer is their numbers. `Refusal`."""
    check_writable(state, subject)
    everything, live = state.versions(subject, deleted=True), state.versions(subject)
    if not everything:
        raise failures.no_subject(subject)
    if permanent and live:
        raise failures.subject_not_deleted(subject)
    if not permanent and not live:
        raise failures.subject_deleted(subject)
    affected = everything if permanent else live
    for each in affected:
        _check_unreferenced(state, each)
    if permanent:
        changes = [Record(records.schema_key(subject, each.version), None) for each in affected]
    else:
        value = records.value({"subject": subject, "version": affected[-1].version})
        changes = [Record(records.key(records.DELETE_SUBJECT, subject), value), *_without_settings(state, subject)]
    return Change(changes, [each.version for each in affected])


def _check_unreferenced(state: State, version: Version) -> None:
    """`Refusal` if another schema refers to a version."""
    if any(not each.deleted for each in state.referring(version.subject, version.version)):
        raise failures.is_referenced(version.subject, version.version)


def _without_settings(state: State, subject: str) -> list[Record]:
    """The records that remove a subject's own settings."""
    kinds = ((records.CONFIG, state.configs), (records.MODE, state.modes))
    return [Record(records.key(kind, subject), None) for kind, settings in kinds if subject in settings]

"""`State`: what all records of the topic make together. It changes by `apply` only, in every instance in one order.

Records that are not understood stay in the topic and change nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from kwire.registry.store.names import DEFAULT_CONTEXT, beside, context_of
from kwire.registry.store.records import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MODE,
    SCHEMA,
    parsed,
)
from kwire.registry.store.versions import Identity, Version, read_version

N = TypeVar("N", int, Identity)

Place = tuple[str, int]
"""A subject and a version."""


class State:
    """All versions, ids, configurations and modes."""

    def __init__(self) -> None:
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        """By subject, or by context as ``:.name:``; None: for everything."""
        self.modes: dict[str | None, str] = {}
        self.not_understood = 0
        """Records without a meaning here."""
        self._subjects: dict[str, dict[int, Version]] = {}
        self._by_id: dict[str, dict[int, dict[Place, None]]] = {}
        self._by_identity: dict[str, dict[Identity, dict[Place, None]]] = {}
        self._referring: dict[Place, set[Place]] = {}
        self._highest_id: dict[str, int] = {}
        self._contexts: set[str] = {DEFAULT_CONTEXT}

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record."""
        fields = parsed(key)
        kind = None if fields is None else fields.get("keytype")
        if fields is None or not self._applied(str(kind), fields, value):
            self.not_understood += kind != "NOOP"

    def _applied(self, kind: str, key: Mapping[str, Any], value: bytes | None) -> bool:
        content = parsed(value)
        if value is not None and content is None:
            return False
        subject = key.get("subject")
        if kind == SCHEMA and isinstance(subject, str) and isinstance(key.get("version"), int):
            return self._apply_schema(subject, key["version"], content)
        if kind in (CONFIG, MODE) and isinstance(subject, str | None):
            self._apply_setting(kind, subject, content)
            return True
        if kind in (DELETE_SUBJECT, CLEAR_SUBJECT) and isinstance(subject, str):
            self._apply_deletion(subject, content, forget=kind == CLEAR_SUBJECT)
            return True
        if kind == CONTEXT and content is not None and isinstance(content.get("context"), str):
            self._contexts.add(content["context"])
            return True
        return False

    def _apply_schema(self, subject: str, version: int, content: Mapping[str, Any] | None) -> bool:
        if content is None:
            self._forget(subject, version)
            return True
        found = read_version(content)
        if found is None or (found.subject, found.version) != (subject, version):
            return False
        self._put(found)
        return True

    def _put(self, version: Version) -> None:
        place, context = (version.subject, version.version), context_of(version.subject)
        before = self._subjects.get(version.subject, {}).get(version.version)
        if before is not None:
            self._unlink(before)
        self._subjects.setdefault(version.subject, {})[version.version] = version
        self._by_id.setdefault(context, {}).setdefault(version.id, {})[place] = None
        self._by_identity.setdefault(context, {}).setdefault(version.identity, {})[place] = None
        self._highest_id[context] = max(self._highest_id.get(context, 0), version.id)
        self._contexts.add(context)
        for each in version.references:
            self._referring.setdefault((beside(version.subject, each.subject), each.version), set()).add(place)

    def _unlink(self, version: Version) -> None:
        place, context = (version.subject, version.version), context_of(version.subject)
        _drop(self._by_id[context], version.id, place)
        _drop(self._by_identity[context], version.identity, place)
        for each in version.references:
            self._referring.get((beside(version.subject, each.subject), each.version), set()).discard(place)

    def _forget(self, subject: str, version: int) -> None:
        versions = self._subjects.get(subject, {})
        found = versions.pop(version, None)
        if found is not None:
            self._unlink(found)
        if not versions:
            self._subjects.pop(subject, None)

    def _apply_setting(self, kind: str, subject: str | None, content: Mapping[str, Any] | None) -> None:
        settings: dict[str | None, Any] = self.configs if kind == CONFIG else self.modes
        if content is None:
            settings.pop(subject, None)
        elif kind == CONFIG:
            settings[subject] = dict(content)
        elif isinstance(content.get("mode"), str):
            settings[subject] = content["mode"]

    def _apply_deletion(self, subject: str, content: Mapping[str, Any] | None, *, forget: bool) -> None:
        last = None if content is None else content.get("version")
        if not isinstance(last, int) and not forget:
            return
        for version in list(self._subjects.get(subject, {}).values()):
            if isinstance(last, int) and version.version > last:
                continue
            if forget:
                self._forget(subject, version.version)
            elif not version.deleted:
                self._put(version._replace(deleted=True, fields=version.as_deleted()))

    def subjects(self) -> Iterator[str]:
        """All subjects in alphabetical order, deleted ones as well."""
        return iter(sorted(self._subjects))

    def contexts(self) -> list[str]:
        """All contexts in alphabetical order."""
        return sorted(self._contexts)

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """The versions of a subject in order. ``deleted``: with those that are."""
        found = self._subjects.get(subject, {})
        return [found[number] for number in sorted(found) if deleted or not found[number].deleted]

    def version(self, subject: str, version: int) -> Version | None:
        """A version, also if it is deleted; None if there is none."""
        return self._subjects.get(subject, {}).get(version)

    def with_id(self, context: str, id: int) -> list[Version]:
        """The versions whose schema has an id, deleted ones as well."""
        return [self._at(place) for place in self._by_id.get(context, {}).get(id, ())]

    def with_identity(self, context: str, identity: Identity) -> list[Version]:
        """The versions that have a schema, deleted ones as well."""
        return [self._at(place) for place in self._by_identity.get(context, {}).get(identity, ())]

    def referring(self, subject: str, version: int) -> list[Version]:
        """The versions that refer to one, in order, deleted ones as well."""
        return [self._at(place) for place in sorted(self._referring.get((subject, version), ()))]

    def highest_id(self, context: str) -> int:
        """The highest id that has been given in a context; 0 if none has."""
        return self._highest_id.get(context, 0)

    def _at(self, place: Place) -> Version:
        return self._subjects[place[0]][place[1]]


def _drop(index: dict[N, dict[Place, None]], name: N, place: Place) -> None:
    """Take a place out of an index."""
    index[name].pop(place, None)
    if not index[name]:
        del index[name]

"""`Schemas`: texts as parsed schemas, with all that they refer to; each is parsed once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from kwire.registry import failures
from kwire.registry.operations.requests import LATEST
from kwire.registry.store.names import beside
from kwire.registry.store.state import State
from kwire.registry.store.versions import Version
from kwire.schemas import Reference, Resolved, Schema, SchemaError, parse
from kwire.schemas.limits import REFERENCES_MAX

_KEPT_MAX: Final = 500
_BROUGHT_MAX: Final = 50
_Key = tuple[str, str, tuple[Resolved, ...]]


def _parsed(key: _Key) -> Schema | str:
    """The schema of a type, a text and what it refers to, or why there is none."""
    type, text, resolved = key
    try:
        return parse(text, type, resolved)
    except SchemaError as error:
        return str(error)


class Schemas:
    """Parses schemas against a state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._brought: OrderedDict[_Key, Schema | str] = OrderedDict()
        self._kept: OrderedDict[tuple[str, int, int, str], Schema] = OrderedDict()

    async def prepare(self, subject: str, text: str, type: str, references: Iterable[Reference]) -> None:
        """Parse a schema that a request brings on a thread, where a large one holds nothing up, for `new` to find."""
        try:
            key = (type, text, tuple(self._resolved(subject, references)))
        except (SchemaError, failures.Refusal):
            return  # `new` says why
        if key not in self._brought:
            self._keep(key, await asyncio.to_thread(_parsed, key))

    def new(self, subject: str, text: str, type: str, references: Iterable[Reference]) -> Schema:
        """A schema that a request brings. `Refusal` if it is none, or refers to what is not there."""
        try:
            key = (type, text, tuple(self._resolved(subject, references)))
        except SchemaError as error:
            raise failures.invalid_schema(str(error)) from None
        found = self._brought.get(key) or self._keep(key, _parsed(key))
        if isinstance(found, str):
            raise failures.invalid_schema(f"Invalid schema of type {type}, details: {found}")
        return found

    def _keep(self, key: _Key, found: Schema | str) -> Schema | str:
        self._brought[key] = found
        if len(self._brought) > _BROUGHT_MAX:
            self._brought.popitem(last=False)
        return found

    def stored(self, version: Version) -> Schema:
        """A stored schema. `Refusal` if it cannot be parsed any more."""
        place = (version.subject, version.version, version.id, version.text)
        found = self._kept.get(place)
        if found is None:
            try:
                resolved = self._resolved(version.subject, version.references)
                found = parse(version.text, version.type, resolved, strict=False)
            except SchemaError as error:
                message = f"The stored version {version.version} of {version.subject} cannot be read: {error}"
                raise failures.invalid_schema(message) from None
            self._kept[place] = found
            if len(self._kept) > _KEPT_MAX:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(place)
        return found

    def _resolved(self, subject: str, references: Iterable[Reference]) -> list[Resolved]:
        """The texts of all that references lead to, each after those that it needs. `SchemaError`, `Refusal`."""
        found: dict[str, Resolved] = {}
        above: list[str] = []

        def add(parent: str, reference: Reference) -> None:
            if reference.name in found:
                return
            if reference.name in above or len(above) + len(found) >= REFERENCES_MAX:
                raise SchemaError(f"references lead in a circle, or to more than {REFERENCES_MAX} schemas")
            version = self.referred(parent, reference)
            above.append(reference.name)
            for each in version.references:
                add(version.subject, each)
            above.pop()
            found[reference.name] = Resolved(reference.name, version.text)

        for each in references:
            add(subject, each)
        return list(found.values())

    def referred(self, parent: str, reference: Reference) -> Version:
        """The version that a reference of a subject leads to. `Refusal`."""
        subject = beside(parent, reference.subject)
        versions = self._state.versions(subject, deleted=True)
        if reference.version == LATEST:
            versions = [each for each in versions if not each.deleted][-1:]
        else:
            versions = [each for each in versions if each.version == reference.version]
        if not versions:
            message = f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
            raise failures.invalid_schema(message)
        return versions[0]

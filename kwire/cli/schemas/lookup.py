"""`SchemaLookup`: the schemas of a registry by their ids, each fetched and parsed once."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kwire.cli.connection.errors import CommandError
from kwire.cli.schemas.client import RegistryClient
from kwire.schemas import Resolved, Schema, SchemaError, parse
from kwire.schemas.limits import REFERENCES_MAX

_UNKNOWN_SCHEMA: Final = 40403
_UNKNOWN: Final = (40401, 40402)
_AVRO: Final = "AVRO"
_IDS_MAX: Final = 10_000
"""Ids that are looked up. Payloads that are none of a serializer may begin like ones with any id."""


class Version(NamedTuple):
    """A version of a subject, and the id of its schema."""

    subject: str
    version: int
    id: int


class SchemaLookup:
    """Asks one registry. All methods raise `CommandError` if it does not answer, or refuses the login."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._schemas: dict[int, Schema | str] = {}
        self._versions: dict[int, tuple[Version, ...]] = {}

    @property
    def url(self) -> str:
        """The registry's, without a login."""
        return self._client.url

    def schema(self, id: int) -> Schema:
        """The schema of an id. `SchemaError` if there is none, or it cannot be used."""
        found = self._schemas.get(id)
        if found is None:
            if len(self._schemas) >= _IDS_MAX:
                raise SchemaError(f"there are more than {_IDS_MAX} ids of schemas")
            found = self._schemas[id] = self._fetched(id)
        if isinstance(found, str):
            raise SchemaError(found)
        return found

    def versions(self, id: int) -> tuple[Version, ...]:
        """The versions of subjects that have a schema; none for an unknown id."""
        found = self._versions.get(id)
        if found is None:
            try:
                content = self._client.get("schemas", "ids", str(id), "versions")
            except CommandError as error:
                if error.code != _UNKNOWN_SCHEMA:
                    raise
                content = []
            found = tuple(Version(each["subject"], each["version"], id) for each in content)
            self._versions[id] = found
        return found

    def latest(self, subject: str) -> Version | None:
        """The newest version of a subject; None if there is no such subject."""
        try:
            content = self._client.get("subjects", subject, "versions", "latest")
        except CommandError as error:
            if error.code not in _UNKNOWN:
                raise
            return None
        return Version(subject, content["version"], content["id"])

    def _fetched(self, id: int) -> Schema | str:
        """The schema of an id, or why there is none."""
        try:
            content = self._client.get("schemas", "ids", str(id))
            resolved: dict[str, str] = {}
            self._resolve(content, resolved)
            references = [Resolved(name, text) for name, text in resolved.items()]
            return parse(content["schema"], content.get("schemaType", _AVRO), references, strict=False)
        except SchemaError as error:
            return f"schema {id}: {error}"
        except CommandError as error:
            if error.code != _UNKNOWN_SCHEMA:
                raise
            return f"the registry has no schema {id}"

    def _resolve(self, content: dict[str, Any], resolved: dict[str, str]) -> None:
        """Put the texts of all that a schema refers to into ``resolved``, each after those that it needs itself."""
        for each in content.get("references") or ():
            if each["name"] in resolved:
                continue
            if len(resolved) >= REFERENCES_MAX:
                raise SchemaError(f"it refers to more than {REFERENCES_MAX} others")
            found = self._client.get("subjects", each["subject"], "versions", str(each["version"]))
            self._resolve(found, resolved)
            resolved[each["name"]] = found["schema"]

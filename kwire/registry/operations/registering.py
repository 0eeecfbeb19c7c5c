"""Registering schemas, looking them up, and checking what may follow what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kwire.registry import failures
from kwire.registry.operations.requests import LATEST, Change, Wanted, version_number
from kwire.registry.operations.schemas import Schemas
from kwire.registry.operations.settings import IMPORT, READWRITE, check_writable, config_of, mode_of
from kwire.registry.store import names, records
from kwire.registry.store.records import Record
from kwire.registry.store.state import State
from kwire.registry.store.versions import Identity, Version, extras, new_fields
from kwire.schemas import Finding, Incompatibility, Reference, Schema, SchemaError, check

_ID_MAX = 2**31 - 1


class Registering:
    """Operations with new schemas on a state."""

    def __init__(self, state: State, schemas: Schemas) -> None:
        self._state = state
        self._schemas = schemas

    def register(self, subject: str, wanted: Wanted, *, normalize: bool) -> Change:
        """Give a schema a version of a subject, and an id if it has none yet. `Refusal`."""
        state = self._state
        if not names.is_valid(subject):
            raise failures.invalid_subject(subject)
        self._check_mode(subject, wanted)
        config = config_of(state, subject)
        schema, identity = self._identified(subject, wanted, normalize or config.get("normalize") is True)
        same = state.with_identity(names.context_of(subject), identity)
        if wanted.id is None and wanted.version is None:
            present = [each for each in same if each.subject == subject and not each.deleted]
            if present:
                return Change([], {"id": present[-1].id})
        earlier = state.versions(subject)
        importing = mode_of(state, subject) == IMPORT
        if not importing:
            self._check_level(subject, str(config["compatibilityLevel"]), schema, earlier)
        number = self._number(subject, wanted, importing)
        id = self._id(subject, wanted, identity, same)
        fields = {name: wanted.fields.get(name) for name in ("metadata", "ruleSet")}
        version = Version(subject, number, id, wanted.type, identity[1], identity[2], False, fields)
        return Change(self._records(version), {"id": id})

    def _check_mode(self, subject: str, wanted: Wanted) -> None:
        check_writable(self._state, subject)
        mode = mode_of(self._state, subject)
        if wanted.id is not None and mode != IMPORT:
            raise failures.not_permitted(f"Subject {subject} is not in import mode")
        if wanted.id is None and mode != READWRITE:
            raise failures.not_permitted(f"Subject {subject} is not in read-write mode")

    def _identified(self, subject: str, wanted: Wanted, normalize: bool) -> tuple[Schema, Identity]:
        """The parsed schema, and what makes it the same as others: references to the latest version get its number."""
        references = tuple(
            Reference(each.name, each.subject, self._schemas.referred(subject, each).version)
            for each in wanted.references
        )
        schema = self._schemas.new(subject, wanted.text, wanted.type, references)
        try:
            text = schema.normalized() if normalize else schema.text
        except SchemaError as error:
            raise failures.invalid_schema(str(error)) from None
        if normalize:
            references = tuple(sorted(set(references)))
        return schema, (wanted.type, text, references, extras(wanted.fields))

    def _check_level(self, subject: str, level: str, schema: Schema, earlier: Sequence[Version]) -> None:
        found = self._found(level, schema, earlier)
        if found:
            messages = _messages(found, earlier, level)
            text = "Schema being registered is incompatible with an earlier schema for subject"
            raise failures.incompatible(f'{text} "{subject}", details: [{", ".join(messages)}]')

    def _found(self, level: str, schema: Schema, earlier: Sequence[Version]) -> list[Finding]:
        try:
            return check(level, schema, [self._schemas.stored(each) for each in earlier])
        except SchemaError as error:
            raise failures.invalid_schema(str(error)) from None

    def _number(self, subject: str, wanted: Wanted, importing: bool) -> int:
        """The number of the new version."""
        everything = self._state.versions(subject, deleted=True)
        following = everything[-1].version + 1 if everything else 1
        if wanted.version is None or wanted.version == following:
            return following
        if not importing:
            raise failures.invalid_schema("Version is not one more than previous version")
        return wanted.version

    def _id(self, subject: str, wanted: Wanted, identity: Identity, same: Sequence[Version]) -> int:
        """The id of the new version: that of the same schema elsewhere in the context, or the next one."""
        context = names.context_of(subject)
        if wanted.id is not None:
            if any(each.identity != identity for each in self._state.with_id(context, wanted.id)):
                raise failures.id_taken(wanted.id)
            return wanted.id
        if same:
            return same[0].id
        following = self._state.highest_id(context) + 1
        if following > _ID_MAX:
            raise failures.store_failed(f"All ids of the context {context} are taken")
        return following

    def _records(self, version: Version) -> list[Record]:
        """The records of a new version. Deleted ones with the same schema go: a schema has one place in a subject."""
        context = names.context_of(version.subject)
        found = []
        if context not in self._state.contexts():
            found.append(Record(records.context_key(context), records.context_value(context)))
        for each in self._state.versions(version.subject, deleted=True):
            if each.deleted and each.id == version.id and each.version < version.version:
                found.append(Record(records.schema_key(each.subject, each.version), None))
        key = records.schema_key(version.subject, version.version)
        return [*found, Record(key, records.value(new_fields(version)))]

    def look_up(self, subject: str, wanted: Wanted, *, normalize: bool, deleted: bool) -> dict[str, Any]:
        """The version of a subject that has a schema. `Refusal` if there is none."""
        if not self._state.versions(subject, deleted=deleted):
            raise failures.no_subject(subject)
        normalize = normalize or config_of(self._state, subject).get("normalize") is True
        _, identity = self._identified(subject, wanted, normalize)
        for each in reversed(self._state.versions(subject, deleted=deleted)):
            if each.identity == identity:
                shown: dict[str, Any] = each.shown()
                return shown
        raise failures.no_schema()

    def compatible(self, subject: str, text: str | None, wanted: Wanted, *, verbose: bool) -> dict[str, Any]:
        """Whether a schema may follow a version (``text``), or without one all that the level names. It may follow the
        latest version of a subject that has none. `Refusal`."""
        earlier = self._state.versions(subject)
        if text is not None:
            number = version_number(text)
            earlier = earlier[-1:] if number == LATEST else [each for each in earlier if each.version == number]
            if not earlier and number != LATEST:
                raise failures.no_version(number)
        schema, _ = self._identified(subject, wanted, normalize=False)
        level = str(config_of(self._state, subject)["compatibilityLevel"])
        found = self._found(level, schema, earlier)
        answer: dict[str, Any] = {"is_compatible": not found}
        if verbose:
            answer["messages"] = _messages(found, earlier, level)
        return answer


def _messages(found: Sequence[Finding], earlier: Sequence[Version], level: str) -> list[str]:
    """Why a schema may not follow others, as Confluent writes it."""
    if not found:
        return []
    other = earlier[found[0].earlier]
    return [
        *(_message(each.reason, *(("old", "new") if each.forward else ("new", "old"))) for each in found),
        f"{{oldSchemaVersion: {other.version}}}",
        f"{{oldSchema: '{other.text}'}}",
        f"{{compatibility: '{level}'}}",
    ]


def _message(reason: Incompatibility, reader: str, writer: str) -> str:
    texts = {
        "READER_FIELD_MISSING_DEFAULT_VALUE": f"The field '{reason.detail}' at path '{reason.path}' in the {reader} "
        f"schema has no default value and is missing in the {writer} schema",
        "TYPE_MISMATCH": f"The type (path '{reason.path}') of a field in the {reader} schema does not match with the "
        f"{writer} schema",
        "NAME_MISMATCH": f"The name of the schema has changed (path '{reason.path}')",
        "MISSING_ENUM_SYMBOLS": f"The {reader} schema is missing enum symbols '{reason.detail}' at path "
        f"'{reason.path}' in the {writer} schema",
        "MISSING_UNION_BRANCH": f"The {reader} schema is missing a type inside a union field at path '{reason.path}' "
        f"in the {writer} schema",
        "FIXED_SIZE_MISMATCH": f"The size of FIXED type field at path '{reason.path}' in the {reader} schema does not "
        f"match with the {writer} schema",
    }
    usual = f"The {reader} schema does not fit the {writer} schema at path '{reason.path}'"
    description = texts.get(reason.kind, usual)
    more = f", additionalInfo:'{reason.detail}'" if reason.detail else ""
    return f"{{errorType:'{reason.kind}', description:'{description}'{more}}}"

"""Configurations and modes: of a subject, else of its context, else of everything.

A configuration may have more fields than the level of compatibility (``normalize``, ``alias``, metadata and rules of
newer registries): they are kept and shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kwire.registry import failures
from kwire.registry.operations.requests import Change
from kwire.registry.store import records
from kwire.registry.store.names import DEFAULT_CONTEXT, context_of, qualified
from kwire.registry.store.records import Record
from kwire.registry.store.state import State
from kwire.schemas import DEFAULT_LEVEL, LEVELS

READWRITE, READONLY, READONLY_OVERRIDE, IMPORT = "READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"
MODES: Final = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT, "FORWARD")
_LEVEL: Final = "compatibilityLevel"
_TYPES: Final[Mapping[str, type]] = {
    "normalize": bool,
    "validateFields": bool,
    "alias": str,
    "compatibilityGroup": str,
    "defaultMetadata": dict,
    "overrideMetadata": dict,
    "defaultRuleSet": dict,
    "overrideRuleSet": dict,
}
"""Fields of a configuration that Confluent's registry reads by their types: it would not start with others."""
_DEFAULT: Final[Mapping[str, Any]] = {_LEVEL: DEFAULT_LEVEL}


def scope_key(name: str | None) -> str | None:
    """Where the settings of a subject, a context (``:.name:``) or everything (None) are kept."""
    if name is None:
        return None
    found = qualified(name)
    if found.subject:
        return str(found)
    return None if found.context == DEFAULT_CONTEXT else f":{found.context}:"


def _scopes(name: str | None) -> list[str | None]:
    """Where to look for a setting, the narrowest place first."""
    if name is None:
        return [None]
    context = context_of(name)
    wider = [None] if context == DEFAULT_CONTEXT else [f":{context}:", None]
    return list(dict.fromkeys([scope_key(name), *wider]))


def config_of(state: State, name: str | None) -> dict[str, Any]:
    """The configuration that holds for a subject."""
    found = dict(_DEFAULT)
    for scope in reversed(_scopes(name)):
        found.update(_fields(state, scope))
    return found


def _fields(state: State, key: str | None) -> dict[str, Any]:
    """What a record configures: without the subject, which newer registries write beside it."""
    return {name: value for name, value in state.configs.get(key, {}).items() if name != "subject"}


def mode_of(state: State, name: str | None) -> str:
    """The mode that holds for a subject. READONLY_OVERRIDE for everything beats that of a subject."""
    if state.modes.get(None) == READONLY_OVERRIDE:
        return READONLY_OVERRIDE
    return next((state.modes[scope] for scope in _scopes(name) if scope in state.modes), READWRITE)


def show_config(state: State, name: str | None, *, default_to_global: bool) -> dict[str, Any]:
    """The configuration of a subject itself, or the one that holds for it. `Refusal` if it has none."""
    key = scope_key(name)
    if key is None or default_to_global:
        return config_of(state, name)
    if key not in state.configs:
        raise failures.no_level(str(name))
    return _fields(state, key)


def set_config(state: State, name: str | None, body: Any) -> Change:
    """Set fields of a configuration; those that the body does not have stay. `Refusal`."""
    if not isinstance(body, dict):
        raise failures.invalid_level()
    level = body.get("compatibility")
    if level is not None and (not isinstance(level, str) or level.upper() not in LEVELS):
        raise failures.invalid_level()
    others = {each: value for each, value in body.items() if each not in ("compatibility", _LEVEL)}
    if level is None and not others:  # _LEVEL is the field's name in answers and records only
        raise failures.invalid_level()
    for each, value in others.items():
        if value is not None and not isinstance(value, _TYPES.get(each, object)):
            raise failures.invalid_field(each)
    key = scope_key(name)
    fields = {**state.configs.get(key, {}), **others}
    answer = dict(others)
    if level is not None:
        fields[_LEVEL] = answer["compatibility"] = level.upper()
    return Change([Record(records.key(records.CONFIG, key), records.value(fields))], answer)


def delete_config(state: State, name: str | None) -> Change:
    """Remove a configuration; the answer is what it was. `Refusal` if a subject has none."""
    key = scope_key(name)
    if key is not None and key not in state.configs:
        raise failures.no_subject(str(name))
    was = {**(_DEFAULT if key is None else {}), **_fields(state, key)}
    return Change([Record(records.key(records.CONFIG, key), None)], was)


def show_mode(state: State, name: str | None, *, default_to_global: bool) -> dict[str, str]:
    """The mode of a subject itself, or the one that holds for it. `Refusal` if it has none."""
    key = scope_key(name)
    if key is None or default_to_global:
        return {"mode": mode_of(state, name)}
    if key not in state.modes:
        raise failures.no_mode(str(name))
    return {"mode": state.modes[key]}


def set_mode(state: State, name: str | None, body: Any, *, force: bool) -> Change:
    """Set a mode. `Refusal`: imports need a subject without versions, unless forced."""
    mode = body.get("mode") if isinstance(body, dict) else None
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise failures.invalid_mode()
    mode, key = mode.upper(), scope_key(name)
    if mode == IMPORT and not force and mode_of(state, name) != IMPORT and _has_versions(state, key):
        raise failures.not_permitted("Cannot import since found existing subjects")
    return Change([Record(records.key(records.MODE, key), records.value({"mode": mode}))], {"mode": mode})


def _has_versions(state: State, key: str | None) -> bool:
    if key is not None and qualified(key).subject:
        return bool(state.versions(key))
    context = DEFAULT_CONTEXT if key is None else qualified(key).context
    return any(state.versions(each) for each in state.subjects() if key is None or context_of(each) == context)


def delete_mode(state: State, name: str) -> Change:
    """Remove a subject's mode; the answer is what it was. `Refusal` if it has none."""
    key = scope_key(name)
    if key not in state.modes:
        raise failures.no_subject(name)
    return Change([Record(records.key(records.MODE, key), None)], {"mode": state.modes[key]})


def check_writable(state: State, subject: str) -> None:
    """`Refusal` if the mode forbids changes."""
    if mode_of(state, subject) in (READONLY, READONLY_OVERRIDE):
        raise failures.not_permitted(f"Subject {subject} is in read-only mode")

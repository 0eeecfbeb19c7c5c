"""Subjects and their contexts: ``:.staging:orders-value`` is ``orders-value`` in the context ``.staging``.

A context has its own ids. Subjects without one are in the default context, whose name is ``.``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_CONTEXT: Final = "."
ALL_CONTEXTS: Final = ":*:"
GLOBAL_CONTEXT: Final = ":.__GLOBAL:"
"""Configurations of all contexts, as newer versions of Confluent's registry have them."""
_CHARACTERS_MAX: Final = 4096


class Qualified(NamedTuple):
    """A subject and its context, which begins with a dot."""

    context: str
    subject: str

    def __str__(self) -> str:
        return self.subject if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.subject}"


def qualified(name: str) -> Qualified:
    """The parts of a name."""
    if name.startswith(":."):
        context, colon, subject = name[1:].partition(":")
        if colon:
            return Qualified(context, subject)
    return Qualified(DEFAULT_CONTEXT, name)


def normal(name: str) -> str:
    """The name in its only form: without the default context."""
    return str(qualified(name))


def context_of(name: str) -> str:
    """The context of a subject."""
    return qualified(name).context


def beside(parent: str, name: str) -> str:
    """A subject that another one names: in the context of that one, unless it has one of its own."""
    if name.startswith(":."):
        return normal(name)
    return str(Qualified(context_of(parent), name))


def is_valid(name: str) -> bool:
    """Whether a name may be a subject's: none is empty, has control characters, or is one of the reserved words."""
    subject = qualified(name).subject
    if not subject or len(name) > _CHARACTERS_MAX or subject in ("__GLOBAL", "__EMPTY"):
        return False
    return not any(each < " " or "\x7f" <= each <= "\x9f" for each in name)


def begins(name: str, prefix: str) -> bool:
    """Whether a subject has a prefix; ``:*:`` stands for all contexts, and an empty one for the default context."""
    if prefix.startswith(ALL_CONTEXTS):
        return qualified(name).subject.startswith(prefix.removeprefix(ALL_CONTEXTS))
    wanted, found = qualified(prefix), qualified(name)
    return found.context == wanted.context and found.subject.startswith(wanted.subject)

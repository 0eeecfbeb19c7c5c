"""Principals: the identities of clients."""

from __future__ import annotations

from typing import Final, NamedTuple

USER_TYPE: Final = "User"
"""The type of all principals that Kafka's authentication creates."""


class Principal(NamedTuple):
    """The identity of a client, written as in Kafka: ``User:alice``."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER_TYPE, "ANONYMOUS")
"""The principal of unauthenticated clients."""


def parse_principal(text: str) -> Principal:
    """The principal that a text such as ``User:alice`` names. `ValueError`, in one line, if there is no type or no
    name."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"{text!r} is not a principal such as User:alice")
    return Principal(kind, name)


def parse_principals(text: str) -> frozenset[Principal]:
    """The principals of a list with semicolons between them, such as the property `super.users`. `ValueError`."""
    return frozenset(parse_principal(each.strip()) for each in text.strip().split(";") if each.strip())

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

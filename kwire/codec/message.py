"""The base classes of all generated messages: default values, equality, repr and the names of a message's facts.

The classes themselves are in `kwire.codec.messages`; how they become bytes is in `kwire.codec.compiler`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Protocol, TypeAlias


class SizedRecords(Protocol):
    """Records that are elsewhere (a file range): the codec has only their size in bytes."""

    @property
    def size(self) -> int:
        """Bytes of the records."""


#: A `records` field: a view into the frame when decoded, anything of these when encoded.
Records: TypeAlias = bytes | bytearray | memoryview | SizedRecords
#: Tagged fields that are not in the tables, in ascending order of tag.
UnknownTags: TypeAlias = tuple[tuple[int, bytes], ...]

#: Stands for "not given" where the default is a fresh list or struct (None may mean null).
UNSET: Any = type("Unset", (), {"__slots__": (), "__repr__": lambda _: "UNSET"})()

SECRET_FIELDS: Final = frozenset({"auth_bytes", "hmac", "request_data", "response_data", "salted_password"})
"""Fields with which one could log in: passwords, what they are verified with, and delegation tokens. The contents of an
Envelope may have such fields."""


class Struct:
    """A struct of Kafka's message tables. Two are equal when they are of one class and all their fields are equal."""

    __slots__ = ("unknown_tags",)

    #: One line per field, in wire order: name, type, versions, then what deviates from the plain case
    #: (``nullable=VERSIONS``, ``tag=NUMBER@VERSIONS``, ``default=VALUE``, ``flexible=VERSIONS``, ``ignorable``).
    FIELDS: ClassVar[str] = ""

    unknown_tags: UnknownTags

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        names = (*self.__slots__, "unknown_tags")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{name}={_shown(name, getattr(self, name))}" for name in self.__slots__]
        if self.unknown_tags:
            shown.append(f"unknown_tags={self.unknown_tags!r}")
        return f"{self.__class__.__name__}({', '.join(shown)})"


def _shown(name: str, value: Any) -> str:
    """A field in the text of a struct, which may be logged: a secret is only counted."""
    return f"<{len(value)} bytes>" if name in SECRET_FIELDS and value is not None else repr(value)


class Message(Struct):
    """A struct that stands alone: a request, response, header or internal record."""

    __slots__ = ()

    #: The API key of a request or response, the record type of an internal record, -1 for all others.
    API_KEY: ClassVar[int] = -1
    #: First and last version.
    VALID_VERSIONS: ClassVar[tuple[int, int]] = (0, -1)
    #: First and last version with compact lengths and tagged fields; (0, -1) when there is none.
    FLEXIBLE_VERSIONS: ClassVar[tuple[int, int]] = (0, -1)

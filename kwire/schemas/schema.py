"""`Schema`: what all three types of schemas have in common, and the values around it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final, NamedTuple

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
TYPES: Final = (JSON, PROTOBUF, AVRO)
"""In the order in which Confluent's registry lists them."""


class Reference(NamedTuple):
    """Another schema that a schema uses. ``name``: what it is called there: a full name (Avro), a URL (JSON Schema),
    the path of an import (Protobuf)."""

    name: str
    subject: str
    version: int


class Resolved(NamedTuple):
    """The text of a schema that another one refers to. Those that it refers to itself stand before it."""

    name: str
    text: str


class Incompatibility(NamedTuple):
    """Why data written with one schema cannot be read with another one. ``kind``: Avro's or Confluent's word for it;
    ``path``: where, as a JSON pointer; ``detail``: what differs."""

    kind: str
    path: str
    detail: str


class Schema(ABC):
    """A schema that has been parsed. ``text`` is its canonical form: two schemas with the same type, text and
    references are the same one."""

    type: ClassVar[str]

    def __init__(self, text: str) -> None:
        self.text = text

    @abstractmethod
    def normalized(self) -> str:
        """The text in which differences without a meaning (order of properties, full names) are gone."""

    @abstractmethod
    def incompatibilities(self, writer: Schema) -> list[Incompatibility]:
        """Why data written with ``writer`` (of the same type) cannot be read with this schema; empty if it can.
        `SchemaError` if finding out goes beyond the limits."""

    @abstractmethod
    def decode(self, body: bytes) -> Any:
        """The value of what follows the header of a payload (`kwire.schemas.wire`), as Python has it: dictionaries,
        lists, numbers, str, bytes, Decimal, datetime, date, time, UUID, None. `DecodeError`."""

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """What follows the header of a payload for a value. `DecodeError` if it does not fit the schema."""

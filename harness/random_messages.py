"""Random instances of every message class, from a seed: for round trips, the comparison with Java, and fuzzing.

An instance holds only what its version can carry, so that decoding its bytes gives an equal one.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from typing import Any

import kwire.codec.messages
from kwire.codec.message import Message, Struct
from kwire.codec.schema import Field, layout

_INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UINT_BITS = {"uint16": 16, "uint32": 32}
_ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789-_.:/ "\\\n\u00e9\u00df\u4e2d\u20ac\U0001f600'


def message_classes() -> list[type[Message]]:
    """Every generated message class, in order of module name."""
    names = sorted(module.name for module in pkgutil.iter_modules(kwire.codec.messages.__path__))
    return [_message_class(name) for name in names]


def _message_class(module_name: str) -> type[Message]:
    module = importlib.import_module(f"kwire.codec.messages.{module_name}")
    candidates = vars(module).values()
    found = [
        each for each in candidates if isinstance(each, type) and issubclass(each, Message) and each is not Message
    ]
    assert len(found) == 1, module_name
    return found[0]


def versions_of(cls: type[Message]) -> range:
    """All valid versions of a message class."""
    return range(cls.VALID_VERSIONS[0], cls.VALID_VERSIONS[1] + 1)


def random_message(cls: type[Message], version: int, rng: random.Random, *, unknown_tags: bool = True) -> Any:
    """An instance that the version can carry, with or without unknown tags."""
    flexible = cls.FLEXIBLE_VERSIONS[0] <= version <= cls.FLEXIBLE_VERSIONS[1]
    return _Maker(rng, version, flexible, unknown_tags).struct(cls, 0)


class _Maker:
    def __init__(self, rng: random.Random, version: int, flexible: bool, unknown_tags: bool) -> None:
        self._rng = rng
        self._version = version
        self._flexible = flexible
        self._unknown_tags = unknown_tags

    def struct(self, cls: type[Struct], depth: int) -> Struct:
        instance = cls()
        plain, tagged, absent = layout(cls, self._version, self._flexible)
        for field in plain:
            setattr(instance, field.name, self._value(field, depth))
        for field in tagged:
            if self._rng.random() < 0.5:
                setattr(instance, field.name, self._value(field, depth))
        if self._unknown_tags and self._flexible and self._rng.random() < 0.3:
            instance.unknown_tags = self._tags({field.tag for field in tagged + absent})
        return instance

    def _tags(self, known: set[int]) -> tuple[tuple[int, bytes], ...]:
        tags = {self._rng.choice((*range(10), 127, 128, 300, 70_000)) for _ in range(self._rng.randint(1, 3))}
        return tuple((tag, self._rng.randbytes(self._rng.choice((0, 1, 7, 200)))) for tag in sorted(tags - known))

    def _value(self, field: Field, depth: int) -> Any:
        if self._version in field.nullable and self._rng.random() < 0.2:
            return None
        if field.array:
            return [self._element(field, depth + 1) for _ in range(self._count(field, depth))]
        return self._element(field, depth)

    def _count(self, field: Field, depth: int) -> int:
        if field.struct is None and self._rng.random() < 0.02:
            return self._rng.choice((127, 128, 200))
        return self._rng.choice((0, 1, 1, 2, 3) if depth < 2 else (0, 1, 1, 2))

    def _element(self, field: Field, depth: int) -> Any:
        if field.struct is not None:
            return self.struct(field.struct, depth)
        return self._scalar(field.element)

    def _scalar(self, kind: str) -> Any:
        rng = self._rng
        if kind in _INT_BITS:
            top = 1 << (_INT_BITS[kind] - 1)
            return rng.choice((0, 1, -1, -top, top - 1, rng.randrange(-top, top), rng.randrange(-128, 128)))
        if kind in _UINT_BITS:
            top = 1 << _UINT_BITS[kind]
            return rng.choice((0, 1, top - 1, rng.randrange(top)))
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "float64":
            return rng.choice((0.0, -1.5, 1e300, 5e-324, rng.uniform(-1e6, 1e6)))
        if kind == "uuid":
            return rng.randbytes(16)
        return self._text() if kind == "string" else self._bytes()

    def _text(self) -> str:
        size = (
            self._rng.choice((0, 1, 3, 8, 8, 20))
            if self._rng.random() < 0.97
            else self._rng.choice((126, 127, 128, 700))
        )
        return "".join(self._rng.choices(_ALPHABET, k=size))

    def _bytes(self) -> bytes:
        return self._rng.randbytes(self._rng.choice((0, 1, 16, 16, 61, 126, 127, 300)))

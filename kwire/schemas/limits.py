"""Bounds on what one schema may have, so that no schema takes the memory, the stack or the time of a process.

Apache Avro's and Confluent's own checks have none of these: a schema beyond them is refused as invalid.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from kwire.schemas.errors import SchemaError

P = ParamSpec("P")
T = TypeVar("T")

TEXT_CHARACTERS_MAX: Final = 1_000_000
"""Characters of a schema, and of one that it refers to."""
PROTOBUF_CHARACTERS_MAX: Final = 256 * 1024
"""Characters of a file of Protobuf: its grammar is walked in Python, at about 120 KiB/s."""
DEPTH_MAX: Final = 64
"""Levels of types within types."""
REFERENCES_MAX: Final = 200
"""Schemas that one refers to, directly or not."""
NODES_MAX: Final = 50_000
"""Types in one schema."""
COMPARISONS_MAX: Final = 100_000
"""Pairs of types that one check of compatibility looks at."""


def check_size(text: str, maximum: int = TEXT_CHARACTERS_MAX) -> None:
    """`SchemaError` for a text that is too long."""
    if len(text) > maximum:
        raise SchemaError(f"the schema has {len(text)} characters; at most {maximum} are allowed")


class Budget:
    """Counts down steps of work. ``what``: a word for them, in the plural."""

    def __init__(self, steps: int, what: str) -> None:
        self._left = steps
        self._refusal = f"the schema has more than {steps} {what}"

    def take(self) -> None:
        """Take one. `SchemaError` if none is left."""
        self._left -= 1
        if self._left < 0:
            raise SchemaError(self._refusal)


def bounded(function: Callable[P, T]) -> Callable[P, T]:
    """A function in which types nested too deeply for Python's stack are a `SchemaError`: names can chain types
    further than `DEPTH_MAX` without nesting them in the text."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise SchemaError("the schema's types are chained too deeply") from None

    return call

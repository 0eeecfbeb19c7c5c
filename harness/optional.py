"""`present`: a value that a library's type leaves optional, and that is always there where it is used."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """The value itself. AssertionError if it is None."""
    assert value is not None
    return value

"""How records are read, and from which cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

ENDLESS_US: Final = 2**63 - 1


class Reading(NamedTuple):
    """``committed``: of transactions only what is committed (read_committed). ``fails_on_loss``: records of the range
    that are gone are `RecordsGone`, otherwise they are left out. ``headers``: with a column of headers. Without
    ``keys`` or ``values`` these columns are null, which saves copying what nobody looks at. ``times``: timestamps and
    their types are wanted; if nothing but offsets is wanted, they are null, and few records have to be decoded.
    ``endless``: timestamps beyond what microseconds hold become `ENDLESS_US`, as DuckDB's infinity, or its negative;
    otherwise they are `ReadError`."""

    committed: bool = False
    fails_on_loss: bool = True
    headers: bool = False
    keys: bool = True
    values: bool = True
    times: bool = True
    endless: bool = False

    @property
    def only_offsets(self) -> bool:
        """Whether the records themselves do not matter."""
        return not (self.headers or self.keys or self.values or self.times)


class Brokers(NamedTuple):
    """A cluster: addresses with commas between them, client properties, and how long brokers may not answer."""

    bootstrap: str
    properties: Mapping[str, str]
    timeout_s: float = 60.0

    def __repr__(self) -> str:
        """Without the properties, which may have passwords."""
        return f"Brokers(bootstrap={self.bootstrap!r})"

"""Where an audit works: its folder, its memory, its processes, and what it says meanwhile."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.audit.fields import MACROS

if TYPE_CHECKING:
    import duckdb

_LINE_S: Final = 10.0
_TERMINAL_S: Final = 0.5
ROW_BYTES: Final = 250
"""Memory that matching takes for a record."""
BUCKETS_MAX: Final = 256
_SHARE: Final = 3
"""A part of the memory, for the records of one bucket."""


class Work(NamedTuple):
    """``folder``: for files of this audit alone; ``memory_mb``: for DuckDB; ``jobs``: processes that read."""

    folder: str
    memory_mb: int
    jobs: int
    quiet: bool = True

    def buckets(self, rows: int) -> int:
        """Into how many parts so many records are divided: a power of two."""
        wanted = rows * ROW_BYTES * _SHARE // (self.memory_mb << 20)
        return min(BUCKETS_MAX, 1 << max(0, wanted).bit_length()) if wanted else 1


def database(path: str, folder: str, memory_mb: int, threads: int, **settings: Any) -> duckdb.DuckDBPyConnection:
    """DuckDB with these bounds; what does not fit into memory goes to ``folder``."""
    import duckdb

    config: Mapping[str, Any] = {
        "memory_limit": f"{memory_mb}MB",
        "threads": threads,
        "temp_directory": f"{folder}/spill",
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        **settings,
    }
    found = duckdb.connect(path, config=dict(config))
    found.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    for each in MACROS:
        found.execute(each)
    return found


class Progress:
    """Lines on standard error: one that changes on a terminal, else one every ten seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._started_s = time.monotonic()
        self._said_s = self._started_s
        self._open = False

    def __call__(self, what: str, done: int, total: int) -> None:
        """``done`` of ``total`` (0: not known)."""
        now_s = time.monotonic()
        if self._quiet or now_s - self._said_s < (_TERMINAL_S if self._terminal else _LINE_S):
            return
        self._said_s = now_s
        of = f" of {total:,}" if total else ""
        line = f"{what}: {done:,}{of}, {now_s - self._started_s:.0f} s"
        print(
            f"\r{line:<78}" if self._terminal else line, end="" if self._terminal else "\n", file=sys.stderr, flush=True
        )
        self._open = self._terminal

    def close(self) -> None:
        """End the line."""
        if self._open:
            print(file=sys.stderr, flush=True)
            self._open = False

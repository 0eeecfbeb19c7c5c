"""How far a query is, on one line of the terminal that is gone when it ends."""

from __future__ import annotations

import sys
import time
from typing import Final

from kwire.sql.session import Session

_FIRST_S: Final = 0.5
"""A query that ends before shows nothing."""
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """A context manager; `tick` shows what the scans of a session have read. Only if standard error is a terminal."""

    def __init__(self, session: Session, *, enabled: bool) -> None:
        self._session = session
        self._enabled = enabled and sys.stderr is not None and sys.stderr.isatty()
        self._begin_s = time.monotonic()
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self._clear()

    def tick(self) -> None:
        """Show how far it is."""
        passed_s = time.monotonic() - self._begin_s
        if self._enabled and passed_s >= _FIRST_S:
            print(f"{_CLEAR}{self._line(passed_s)}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def _line(self, passed_s: float) -> str:
        counts = [each.counts for each in list(self._session.scans)]
        records, offsets = sum(each.records for each in counts), sum(each.offsets for each in counts)
        share = f" of {offsets:,}" if offsets else ""
        return f"{records:,}{share} records read, {records / passed_s:,.0f}/s, {passed_s:.0f} s (Ctrl-C ends the query)"

    def _clear(self) -> None:
        if self._shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
            self._shown = False

"""`LimitedLog`: log lines that strangers can cause, at most `LINES_MAX` of a kind in `INTERVAL_S`.

Otherwise whoever reaches a listener could fill the disk with failed logins. The next line that is written says how many
were left out (``left_out``). Metrics count everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kwire.base.logging import Logger

LINES_MAX: Final = 10
INTERVAL_S: Final = 10.0


class _Kind:
    """The lines of one event on one listener."""

    __slots__ = ("began_s", "left_out", "written")

    def __init__(self, now_s: float) -> None:
        self.began_s = now_s
        self.written = 0
        self.left_out = 0


class LimitedLog:
    """A logger's INFO lines. Lines are of one kind if they have the same event and the same field ``listener``."""

    __slots__ = ("_kinds", "_log", "_monotonic")

    def __init__(self, log: Logger, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._monotonic = monotonic
        self._kinds: dict[tuple[str, Any], _Kind] = {}

    def info(self, event: str, /, **fields: Any) -> None:
        """Write a line, or count it."""
        now_s = self._monotonic()
        key = (event, fields.get("listener"))
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(now_s)
        elif now_s - kind.began_s >= INTERVAL_S:
            kind.began_s, kind.written = now_s, 0
        if kind.written >= LINES_MAX:
            kind.left_out += 1
            return
        kind.written += 1
        if kind.left_out:
            fields["left_out"], kind.left_out = kind.left_out, 0
        self._log.info(event, **fields)

"""`LimitedLog`: log lines that strangers can cause, at most ``lines_max`` of a kind in `INTERVAL_S`.

Otherwise whoever reaches a listener could fill the disk with failed logins. The next line of the kind that is written
says how many were left out (``left_out``). Metrics count everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kwire.base.logging import Logger

LINES_MAX: Final = 10
INTERVAL_S: Final = 10.0
KINDS_MAX: Final = 1000
"""Kinds that are told apart at a time; all others are one kind."""


class _Kind:
    """The lines of one event on one listener."""

    __slots__ = ("began_s", "left_out", "written")

    def __init__(self, now_s: float) -> None:
        self.began_s = now_s
        self.written = 0
        self.left_out = 0


class LimitedLog:
    """A logger's INFO lines. Lines are of one kind if they have the same event and the same field ``by``."""

    __slots__ = ("_by", "_kinds", "_lines_max", "_log", "_monotonic")

    def __init__(
        self, log: Logger, monotonic: Callable[[], float], *, by: str = "listener", lines_max: int = LINES_MAX
    ) -> None:
        self._log = log
        self._monotonic = monotonic
        self._by = by
        self._lines_max = lines_max
        self._kinds: dict[tuple[str, Any], _Kind] = {}

    def info(self, event: str, /, **fields: Any) -> None:
        """Write a line, or count it."""
        left_out = self.admits(event, fields.get(self._by))
        if left_out is None:
            return
        if left_out:
            fields["left_out"] = left_out
        self._log.info(event, **fields)

    def admits(self, event: str, value: object) -> int | None:
        """How many lines of a kind were left out before one that may be written now; None if it is left out, too."""
        now_s = self._monotonic()
        kind = self._kind((event, value), now_s)
        if now_s - kind.began_s >= INTERVAL_S:
            kind.began_s, kind.written = now_s, 0
        if kind.written >= self._lines_max:
            kind.left_out += 1
            return None
        kind.written += 1
        left_out, kind.left_out = kind.left_out, 0
        return left_out

    def _kind(self, key: tuple[str, Any], now_s: float) -> _Kind:
        kinds = self._kinds
        if key not in kinds and len(kinds) >= KINDS_MAX:
            over = [each for each, kind in kinds.items() if now_s - kind.began_s >= INTERVAL_S and not kind.left_out]
            for each in over:
                del kinds[each]
            if len(kinds) >= KINDS_MAX:
                key = ("", None)
        kind = kinds.get(key)
        if kind is None:
            kind = kinds[key] = _Kind(now_s)
        return kind

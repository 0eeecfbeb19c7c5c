"""Lines that strangers cause are limited by kind, and what is left out is counted."""

from __future__ import annotations

from typing import Any, cast

from kwire.base.limited_log import INTERVAL_S, LINES_MAX, LimitedLog


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, /, **fields: Any) -> None:
        self.lines.append((event, fields))


def test_lines_of_a_kind_are_limited_and_counted() -> None:
    log, now = Log(), [100.0]
    limited = LimitedLog(cast(Any, log), lambda: now[0])
    for number in range(LINES_MAX + 5):
        limited.info("login failed", listener="A", number=number)
    assert [fields["number"] for _, fields in log.lines] == list(range(LINES_MAX))
    limited.info("login failed", listener="B")
    limited.info("another", listener="A")
    assert len(log.lines) == LINES_MAX + 2
    now[0] += INTERVAL_S
    limited.info("login failed", listener="A")
    limited.info("login failed", listener="A")
    assert log.lines[-2:] == [("login failed", {"listener": "A", "left_out": 5}), ("login failed", {"listener": "A"})]

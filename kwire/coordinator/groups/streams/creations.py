"""The internal topics that are being created for streams groups, and why some could not be created. Soft state of one
broker: members get the reasons with the status MISSING_INTERNAL_TOPICS, until the creation is tried again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kwire.coordinator.groups.streams.topology.configured import InternalTopic

FAILURES_MAX: Final = 1000
"""How many failures are remembered, the newest. Kafka has the same limit."""


class TopicCreations:
    """See the module. Times are in milliseconds of a monotonic clock."""

    def __init__(self) -> None:
        self._in_progress: set[str] = set()
        self._failures: dict[str, tuple[str, int]] = {}

    def begin(self, topics: Iterable[InternalTopic], now_ms: int) -> list[InternalTopic]:
        """The topics to create now: those that are not being created, and have not failed a moment ago."""
        wanted = []
        for topic in topics:
            if topic.name not in self._in_progress and self._reason(topic.name, now_ms) is None:
                self._in_progress.add(topic.name)
                wanted.append(topic)
        return wanted

    def end(self, topics: Iterable[InternalTopic], reasons: Mapping[str, str], until_ms: int) -> None:
        """The creation of topics has ended. ``reasons``: why some were not created; they are not tried again until
        ``until_ms``."""
        for topic in topics:
            self._in_progress.discard(topic.name)
        for name, reason in reasons.items():
            self._failures.pop(name, None)
            self._failures[name] = reason, until_ms
        while len(self._failures) > FAILURES_MAX:
            del self._failures[next(iter(self._failures))]

    def reasons(self, topics: Iterable[InternalTopic], now_ms: int) -> dict[str, str]:
        """Why topics could not be created a moment ago, by name."""
        found = {topic.name: self._reason(topic.name, now_ms) for topic in topics}
        return {name: reason for name, reason in found.items() if reason is not None}

    def _reason(self, name: str, now_ms: int) -> str | None:
        reason, until_ms = self._failures.get(name, ("", now_ms))
        if until_ms <= now_ms:
            self._failures.pop(name, None)
            return None
        return reason

"""`PeriodicWork`: what is done with all logs again and again, each kind of work by a timer of its own.

Work on very many logs or files is done in steps, each in a turn of the event loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from kwire.base.errors import KafkaError
from kwire.log.common.environment import logger


class PeriodicWork:
    """Work by name. An OSError or a KafkaError is logged and ends it until its next time."""

    def __init__(self) -> None:
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def every(self, name: str, interval_ms: int, action: Callable[[], object]) -> None:
        """Do something periodically, for the first time after ``interval_ms``."""

        def steps() -> Iterator[None]:
            action()
            yield from ()

        self.every_in_steps(name, interval_ms, steps)

    def every_in_steps(self, name: str, interval_ms: int, steps: Callable[[], Iterator[None]]) -> None:
        """The same for work that yields after each step."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            self._timers[name] = loop.call_later(interval_ms / 1000, run)
            self._go_on(name, steps())

        self._timers[name] = loop.call_later(interval_ms / 1000, run)

    def _go_on(self, name: str, steps: Iterator[None]) -> None:
        if name not in self._timers:  # it was stopped
            return
        try:
            for _ in steps:
                asyncio.get_running_loop().call_soon(self._go_on, name, steps)
                return
        except (OSError, KafkaError) as error:
            logger.error("periodic work failed", what=name, error=str(error))

    def stop(self) -> None:
        """Nothing is begun any more, nor gone on with."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

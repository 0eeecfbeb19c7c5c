"""`Kwire`, the value of the ``kwire`` fixture: an address, unique names, topics, and faults on demand."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.testing.control import ControlClient
    from kwire.testing.process import KwireProcess

TOPIC_TIMEOUT_S = 15.0
_numbers = itertools.count(1)


class NoControl(Exception):
    """A fault was requested from a broker that the fixtures did not start."""


class RunningBroker:
    """A broker that was running already: the value of ``kwire_noproc``. It may be Apache Kafka."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.client_properties: Mapping[str, str] = {}

    @property
    def control(self) -> ControlClient:
        """There is none: `NoControl`."""
        raise NoControl(
            f"{self.bootstrap_servers} was not started by these fixtures: fail_next() and pause() need the broker of "
            "the kwire_proc fixture (run without --kwire-bootstrap)"
        )


class Kwire:
    """One test's view of a broker. ``bootstrap_servers`` is its HOST:PORT."""

    def __init__(self, broker: KwireProcess | RunningBroker) -> None:
        self._broker = broker
        self._touched = False

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT."""
        return self._broker.bootstrap_servers

    def __str__(self) -> str:
        return self.bootstrap_servers

    # -- names and topics -------------------------------------------------------------------------------------------

    def name(self, prefix: str = "test") -> str:
        """A name that no other test and no other worker has: for groups, transactional ids, topics not yet made."""
        return f"{prefix}-{os.getpid()}-{time.time_ns() // 1_000_000:x}-{next(_numbers)}"

    def topic(self, prefix: str = "topic", *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new topic with a fresh name, ready to be used. ``config``: Kafka's topic properties by name.

        `TopicError` when the broker refuses it, OSError if it does not respond.
        """
        from kwire.testing.topics import create_topic

        name = self.name(prefix)
        properties = self._broker.client_properties
        create_topic(self.bootstrap_servers, name, partitions, config or {}, TOPIC_TIMEOUT_S, properties)
        return name

    # -- faults -----------------------------------------------------------------------------------------------------

    def fail_next(self, api: str, error: str, *, times: int = 1) -> None:
        """Have the next ``times`` requests of an API fail: ``fail_next("Produce", "NOT_ENOUGH_REPLICAS")``.

        These requests have no effect; the response has the error in the field where this API's clients expect it.
        NETWORK_EXCEPTION closes the connection instead of responding; ``times=0`` cancels the fault. Failures left over
        at the end of the test are discarded.
        """
        self._control().fail_next(api, error, times=times)

    def failures_left(self) -> dict[str, int]:
        """API -> how many of its requests are still to fail: empty when all have failed."""
        return self._control().failures_left()

    def pause(self, *apis: str) -> None:
        """Send no responses (or none of these APIs) until `resume` or the end of the test. Connections stay open and
        the broker's timers run on: to clients it is a broker behind a network that has failed."""
        self._control().pause(*apis)

    def resume(self) -> None:
        """Handle the requests that have waited."""
        self._control().resume()

    def paused(self, *apis: str) -> AbstractContextManager[None]:
        """`pause` for a ``with`` block."""
        return self._pause_for(apis)

    @contextlib.contextmanager
    def _pause_for(self, apis: tuple[str, ...]) -> Iterator[None]:
        self.pause(*apis)
        try:
            yield
        finally:
            self.resume()

    def _control(self) -> ControlClient:
        control = self._broker.control
        self._touched = True
        return control

    def reset(self) -> None:
        """Cancel all faults; the fixture calls this after each test."""
        if self._touched:
            self._broker.control.reset()
            self._touched = False

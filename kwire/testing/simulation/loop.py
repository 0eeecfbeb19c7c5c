"""An asyncio event loop on virtual time. When nothing is ready, the clock jumps to the next timer.

File descriptors are numbers that the simulation gave out; whether one is readable or writable is asked of the object
behind it. Threads, signals, subprocesses and real sockets do not exist here.
"""

from __future__ import annotations

import asyncio
from asyncio import base_events, events
from collections.abc import Callable
from typing import Any, Protocol


class Pollable(Protocol):
    """What stands behind a simulated descriptor."""

    def readable(self) -> bool: ...
    def writable(self) -> bool: ...


class Deadlock(Exception):
    """Nobody is ready, no timer is set: what is awaited can never happen."""


class _Selector:
    """Takes the place of epoll: asks the simulated descriptors, and lets time pass when none is ready."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[events.Handle]:
        ready = self._loop.ready_handles()
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Deadlock(f"nothing can happen any more at {self._loop.time():.6f} s")
        self._loop.pass_time(timeout)
        return []

    def close(self) -> None:
        """Nothing to give back."""


class VirtualLoop(base_events.BaseEventLoop):
    """Starts at ``start_s`` on its own clock; `time` is virtual seconds."""

    def __init__(self, start_s: float = 1000.0) -> None:
        super().__init__()
        self._now = start_s
        self._clock_resolution = 1e-9
        self._selector = _Selector(self)
        self._pollables: dict[int, Pollable] = {}
        self._readers: dict[int, events.Handle] = {}
        self._writers: dict[int, events.Handle] = {}
        self._next_fd = 1000
        self.jumps = 0

    def time(self) -> float:
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Jump ahead."""
        self._now += seconds
        self.jumps += 1

    # -- descriptors ------------------------------------------------------------------------------------------------

    def register(self, pollable: Pollable) -> int:
        """A new descriptor for something that can be polled."""
        self._next_fd += 1
        self._pollables[self._next_fd] = pollable
        return self._next_fd

    def unregister(self, fd: int) -> None:
        """The descriptor is closed. Forgetting to stop watching it first is an error, as it is with epoll."""
        assert fd not in self._readers, f"descriptor {fd} closed while it was read from"
        assert fd not in self._writers, f"descriptor {fd} closed while it was written to"
        del self._pollables[fd]

    def pollable(self, fd: int) -> Any:
        """What stands behind a descriptor."""
        return self._pollables[fd]

    def ready_handles(self) -> list[events.Handle]:
        """The callbacks whose descriptors are ready, in the order in which they were registered."""
        pollables = self._pollables
        ready = [handle for fd, handle in self._readers.items() if pollables[fd].readable()]
        ready += [handle for fd, handle in self._writers.items() if pollables[fd].writable()]
        return ready

    def _process_events(self, event_list: list[events.Handle]) -> None:
        for handle in event_list:
            self._add_callback(handle)  # type: ignore[attr-defined]

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self.remove_reader(fd)
        assert fd in self._pollables, f"no such descriptor: {fd}"
        self._readers[fd] = events.Handle(callback, args, self, None)

    def remove_reader(self, fd: Any) -> bool:
        return self._remove(self._readers, fd)

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self.remove_writer(fd)
        assert fd in self._pollables, f"no such descriptor: {fd}"
        self._writers[fd] = events.Handle(callback, args, self, None)

    def remove_writer(self, fd: Any) -> bool:
        return self._remove(self._writers, fd)

    @staticmethod
    def _remove(handles: dict[int, events.Handle], fd: int) -> bool:
        handle = handles.pop(fd, None)
        if handle is None:
            return False
        handle.cancel()
        return True

    def __del__(self) -> None:
        """Nothing is held that would have to be closed."""

    # -- what does not exist here -----------------------------------------------------------------------------------

    def _write_to_self(self) -> None:
        """There is no other thread to be woken by."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("threads do not exist in the simulation: use doors.executor")

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """There is none."""


def run(loop: VirtualLoop, main: Any) -> Any:
    """Run a coroutine to its end on a virtual loop, then end what is left of it and close the loop."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)

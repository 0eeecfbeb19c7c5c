"""An asyncio event loop on virtual time. When nothing is ready, the clock jumps to the next timer.

File descriptors are numbers that the simulation assigns; the object behind one decides whether it is readable or
writable. Threads, signals, subprocesses and real sockets do not exist here.

Several processes share the loop. Each is a `Life`: whatever is scheduled from within it belongs to it, by the context
variable that tasks and callbacks inherit. A life that is dead runs nothing any more, as after SIGKILL; one that is
paused runs nothing until it is resumed, and then everything that has come due meanwhile.
"""

from __future__ import annotations

import asyncio
from asyncio import base_events, events
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any, Protocol


class Pollable(Protocol):
    """The object behind a simulated descriptor."""

    def readable(self) -> bool:
        """Whether a read returns at once."""

    def writable(self) -> bool:
        """Whether a write returns at once."""


class Deadlock(Exception):
    """Nothing is ready and no timer is set: the awaited event can never happen."""


class Life:
    """One process: from its start to its death."""

    __slots__ = ("backlog", "dead", "name", "paused", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        self.tasks: list[asyncio.Task[Any]] = []  # all of them, so that nothing of the dead runs when it is collected
        self.backlog: list[tuple[Context, Callable[..., Any], tuple[Any, ...]]] = []

    def __repr__(self) -> str:
        return f"Life({self.name})"


LIFE: ContextVar[Life | None] = ContextVar("LIFE", default=None)
"""The process that runs."""


def _guarded(life: Life, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if life.dead:
        return
    if life.paused:
        life.backlog.append((copy_context(), callback, args))
        return
    callback(*args)


class _Selector:
    """Replaces epoll: polls the simulated descriptors, and advances the clock if none is ready."""

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
        self._owners: dict[int, Life] = {}
        self._touched: dict[int, None] = {}  # descriptors that may be ready to be read; of all others it is known
        self._paused = 0
        self.jumps = 0

    # -- processes --------------------------------------------------------------------------------------------------

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        """See `asyncio.AbstractEventLoop`."""
        life = LIFE.get() if context is None else context.get(LIFE)
        if life is None:
            return super().call_soon(callback, *args, context=context)
        if life.dead:  # what is left of it is being collected, perhaps after the end of the loop
            return events.Handle(callback, args, self, context)
        return super().call_soon(_guarded, life, callback, args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        """See `asyncio.AbstractEventLoop`."""
        life = LIFE.get() if context is None else context.get(LIFE)
        if life is None:
            return super().call_at(when, callback, *args, context=context)
        if life.dead:
            return events.TimerHandle(when, callback, args, self, context)
        return super().call_at(when, _guarded, life, callback, args, context=context)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:  # type: ignore[override]
        """See `asyncio.AbstractEventLoop`."""
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context)
        life = LIFE.get() if context is None else context.get(LIFE)
        if life is not None:
            life.tasks.append(task)
        return task

    def kill(self, life: Life) -> None:
        """End a process: none of its callbacks runs any more, and its descriptors are no longer watched."""
        life.dead = True
        life.backlog.clear()
        for task in life.tasks:
            if not task.done():
                asyncio.tasks._unregister_task(task)  # nobody may wait for its end
                task._log_destroy_pending = False  # type: ignore[attr-defined]
        for handles in (self._readers, self._writers):
            for fd in [fd for fd in handles if self._owners.get(fd) is life]:
                handles.pop(fd).cancel()

    def pause(self, life: Life) -> None:
        """SIGSTOP."""
        life.paused = True
        self._paused += 1

    def resume(self, life: Life) -> None:
        """SIGCONT: what has come due is run now, in its order."""
        life.paused = False
        self._paused -= 1
        backlog, life.backlog = life.backlog, []
        for context, callback, args in backlog:
            self.call_soon(callback, *args, context=context)

    # -- time -------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """The virtual time in seconds."""
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
        self._owners.pop(fd, None)

    def touch(self, fd: int) -> None:
        """Note that something has arrived: the descriptor may be readable from now on."""
        self._touched[fd] = None

    def pollable(self, fd: int) -> Any:
        """What stands behind a descriptor."""
        return self._pollables[fd]

    def ready_handles(self) -> list[events.Handle]:
        """The callbacks whose descriptors are ready: readers in the order of what arrived, then writers."""
        pollables, readers = self._pollables, self._readers
        ready = []
        for fd in list(self._touched):
            pollable = pollables.get(fd)
            if pollable is None or not pollable.readable():
                del self._touched[fd]
            elif fd in readers and not (self._paused and self._sleeps(fd)):
                ready.append(readers[fd])
        for fd, handle in self._writers.items():
            if pollables[fd].writable() and not (self._paused and self._sleeps(fd)):
                ready.append(handle)
        return ready

    def _sleeps(self, fd: int) -> bool:
        owner = self._owners.get(fd)
        return owner is not None and owner.paused

    def _process_events(self, event_list: list[events.Handle]) -> None:
        for handle in event_list:
            self._add_callback(handle)  # type: ignore[attr-defined]

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        """See `asyncio.AbstractEventLoop`."""
        self.remove_reader(fd)
        assert fd in self._pollables, f"no such descriptor: {fd}"
        self._readers[fd] = events.Handle(callback, args, self, None)
        self._touched[fd] = None
        self._own(fd)

    def remove_reader(self, fd: Any) -> bool:
        """See `asyncio.AbstractEventLoop`."""
        return self._remove(self._readers, fd)

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        """See `asyncio.AbstractEventLoop`."""
        self.remove_writer(fd)
        assert fd in self._pollables, f"no such descriptor: {fd}"
        self._writers[fd] = events.Handle(callback, args, self, None)
        self._own(fd)

    def _own(self, fd: int) -> None:
        life = LIFE.get()
        if life is not None:
            self._owners[fd] = life

    def remove_writer(self, fd: Any) -> bool:
        """See `asyncio.AbstractEventLoop`."""
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
        """Raise RuntimeError: the simulation has no threads."""
        raise RuntimeError("threads do not exist in the simulation: use doors.executor")

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """There is none."""


def run(loop: VirtualLoop, main: Any) -> Any:
    """Run a coroutine to its end on a virtual loop, then end what is left of it and close the loop."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)

"""`Simulation`: the loop, the network and the machines of one seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, ParamSpec, TypeVar

from harness.raw_client import RawClient
from harness.simulation.disk import Disk
from harness.simulation.loop import VirtualLoop, run
from harness.simulation.network import Network, SimulatedSockets
from harness.simulation.trace import Trace
from kwire.base.addresses import parse_address
from kwire.base.doors import Clock, Doors, Executor

P = ParamSpec("P")
T = TypeVar("T")

EPOCH_MS: Final = 1_700_000_000_000
"""The wall clock at the beginning of every simulation."""

WORK_S: Final = (50e-6, 3e-3)
"""How long a call on a thread takes."""


class SimulatedExecutor(Executor):
    """Calls run later, at a time that the seed decides, on the only thread."""

    def __init__(self, loop: VirtualLoop, trace: Trace, random: Random) -> None:
        self._loop = loop
        self._trace = trace
        self._random = random

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """See `kwire.base.doors.Executor.run`."""
        future: asyncio.Future[T] = self._loop.create_future()

        def call() -> None:
            if future.cancelled():
                return
            self._trace.record("work", getattr(function, "__qualname__", type(function).__qualname__))
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._loop.call_later(self._random.uniform(*WORK_S), call)
        return future

    def run_apart(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """See `kwire.base.doors.Executor.run_apart`."""
        return self.run(function, *args, **kwargs)

    def close(self) -> None:
        """No threads, nothing to end."""


class Machine:
    """A host: its disk outlives the processes on it."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        loop, trace = simulation.loop, simulation.trace
        clock = Clock(time_ms=simulation.time_ms, monotonic=loop.time, perf_counter=loop.time, thread_time=lambda: 0.0)
        self.name = name
        self.disk = Disk(trace, name, simulation.time_ms)
        self.doors = Doors(
            clock=clock,
            files=self.disk,
            sockets=SimulatedSockets(simulation.network, name, self.disk),
            executor=SimulatedExecutor(loop, trace, simulation.random(f"{name} executor")),
            random=simulation.random(name),
            processes=None,
        )

    async def connect(self, address: str, client_id: str | None = None) -> RawClient:
        """A raw client of a broker at ``host:port``."""
        host, port = parse_address(address)
        return await RawClient.connect(self.doors, host, port, client_id or self.name)


class Simulation:
    """One simulation. ``keep``: how many of the newest events stay readable in ``trace.kept``."""

    def __init__(self, seed: int, keep: int = 0) -> None:
        self.seed = seed
        self.loop = VirtualLoop()
        self._start_s = self.loop.time()
        self.trace = Trace(self.loop.time, keep)
        self.network = Network(self.loop, self.trace, self.random("network"))

    def random(self, purpose: str) -> Random:
        """Randomness for one purpose: what one part draws does not change what another gets."""
        return Random(f"{self.seed} {purpose}")

    def machine(self, name: str) -> Machine:
        """A new host on the network."""
        return Machine(self, name)

    def time_ms(self) -> int:
        """The virtual wall clock."""
        return EPOCH_MS + round((self.loop.time() - self._start_s) * 1000)

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the beginning."""
        return self.loop.time() - self._start_s

    def run(self, scenario: Coroutine[Any, Any, T]) -> T:
        """Run a scenario to its end. A simulation runs once."""
        result: T = run(self.loop, scenario)
        return result

"""The loop jumps, the network keeps order and has finite windows, the executor works later."""

from __future__ import annotations

import asyncio

import pytest

from harness.processor.cpu_time import CpuTime
from harness.simulation import Simulation
from harness.simulation.loop import Deadlock
from harness.simulation.network import WINDOW


def test_time_jumps_to_the_next_timer() -> None:
    simulation = Simulation(1)

    async def sleep() -> list[float]:
        await asyncio.sleep(86_400)
        return [simulation.elapsed_s, simulation.time_ms() - 1_700_000_000_000]

    with CpuTime() as spent:
        assert simulation.run(sleep()) == pytest.approx([86_400, 86_400_000])
    assert spent.seconds < 1


def test_waiting_for_what_cannot_happen_is_an_error() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        Simulation(1).run(wait())


def test_threads_do_not_exist() -> None:
    async def thread() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match=r"doors\.executor"):
        Simulation(1).run(thread())


def test_work_on_threads_takes_time_and_hands_on_failures() -> None:
    simulation = Simulation(1)
    machine = simulation.machine("a")

    async def work() -> float:
        assert await machine.doors.executor.run(lambda: 42) == 42
        with pytest.raises(ZeroDivisionError):
            await machine.doors.executor.run(lambda: 1 // 0)
        return simulation.elapsed_s

    assert simulation.run(work()) > 0


def test_bytes_arrive_in_order_however_they_are_cut() -> None:
    async def transfer(simulation: Simulation) -> bytes:
        here, there = simulation.machine("here"), simulation.machine("there")
        listener = there.doors.sockets.listen("there", 0, 1, -1)
        client = await here.doors.sockets.connect(*listener.getsockname())
        server, peer = listener.accept()
        assert peer == client.getsockname()
        sent = b"".join(n.to_bytes(4) for n in range(30_000))
        view, got, buffer = memoryview(sent), bytearray(), memoryview(bytearray(10_000))
        while len(got) < len(sent):
            try:
                view = view[client.send(view) :] if view else view
            except BlockingIOError:
                assert len(sent) - len(view) - len(got) <= WINDOW
            await asyncio.sleep(0.001)
            try:
                got += buffer[: server.recv_into(buffer)]
            except BlockingIOError:
                pass
        client.close()
        await asyncio.sleep(1)
        assert server.recv_into(buffer) == 0
        server.close()
        listener.close()
        assert got == sent
        return bytes(got)

    simulation = Simulation(3)
    simulation.run(transfer(simulation))


def test_nobody_listens() -> None:
    simulation = Simulation(1)

    async def connect() -> None:
        with pytest.raises(ConnectionRefusedError):
            await simulation.machine("a").doors.sockets.connect("nowhere", 9092)

    simulation.run(connect())


def test_a_port_is_taken_once() -> None:
    simulation = Simulation(1)

    async def listen() -> None:
        sockets = simulation.machine("a").doors.sockets
        sockets.listen("a", 9092, 1, -1)
        with pytest.raises(OSError, match="in use"):
            sockets.listen("", 9092, 1, -1)

    simulation.run(listen())


def test_one_purpose_does_not_change_anothers_randomness() -> None:
    first, second = Simulation(5), Simulation(5)
    first.random("a").random()
    assert first.random("b").random() == second.random("b").random()
    assert first.random("a").random() != first.random("b").random()

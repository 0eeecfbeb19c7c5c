"""Ports that tests choose for their servers: distinct in all processes, and out of reach for outgoing connections."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import ROOT
from harness.processes.brokers import BrokerFailed, KafkaBroker, KwireBroker
from harness.processes.ports import free_port
from kwire.base.free_ports import ephemeral_ports, server_ports

PROCESSES = 4
EACH = 50
CHOOSE = f"from harness.processes.ports import free_port; print(*[free_port() for _ in range({EACH})])"


def test_processes_that_choose_at_the_same_time_get_different_ports() -> None:
    """Two pytest workers chose the same port, and one worker the same port twice; the broker then had one port for
    its clients and its controller."""
    choosers = [
        subprocess.Popen([sys.executable, "-c", CHOOSE], cwd=ROOT, stdout=subprocess.PIPE) for _ in range(PROCESSES)
    ]
    chosen = [int(word) for chooser in choosers for word in chooser.communicate()[0].split()]
    assert len(set(chosen)) == len(chosen) == PROCESSES * EACH


def test_no_outgoing_connection_can_have_taken_a_chosen_port() -> None:
    """A port from the ephemeral range is taken by any connection that the kernel gives it to, before the broker binds
    it or while the broker is restarted."""
    assert not {free_port() for _ in range(20)} & set(ephemeral_ports())


def test_a_broker_has_different_ports_for_clients_and_controller(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path)
    broker.choose_ports()
    assert 0 != broker.port != broker.controller_port != 0


def test_a_port_in_use_is_skipped(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    before = free_port(counter)
    with socket.create_server(("127.0.0.1", free_port(counter))) as server:
        taken = server.getsockname()[1]
        counter.write_text(str(before))
        assert free_port(counter) not in (before, taken)


def test_after_the_last_port_comes_the_first(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    ports = server_ports(ephemeral_ports())
    counter.write_text(str(ports[-1]))
    assert free_port(counter) < ports[len(ports) // 2]


@pytest.mark.parametrize("text", ["", "not a number", "80", "123456789"])
def test_a_damaged_counter_is_replaced(tmp_path: Path, text: str) -> None:
    counter = tmp_path / "counter"
    counter.write_text(text)
    assert free_port(counter) in server_ports(ephemeral_ports())
    assert counter.read_text().isdecimal()


class Unlucky(KwireBroker):
    """Its first choice is a port that is in use."""

    taken = 0

    def choose_ports(self) -> None:
        super().choose_ports()
        if self.taken:
            self.port, self.taken = self.taken, 0


def test_a_broker_whose_port_was_taken_starts_on_another_one(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        broker = Unlucky(tmp_path)
        broker.taken = taken = server.getsockname()[1]
        try:
            broker.start()
            port = broker.port
            assert port not in (0, taken)
            broker.restart()
            assert broker.port == port
        finally:
            broker.kill()


def test_a_broker_whose_port_the_caller_has_set_keeps_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        broker = KwireBroker(tmp_path)
        broker.port = server.getsockname()[1]
        with pytest.raises(BrokerFailed, match="Address already in use"):
            broker.start()

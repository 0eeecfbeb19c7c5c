"""A short run of `campaigns/chaos` without network namespaces: brokers are killed, paused, stopped and expelled.

kwire only."""

from __future__ import annotations

from pathlib import Path

from campaigns.chaos import network
from campaigns.chaos.campaign import Options, run_once
from compat_tests.needs import need


def test_brokers_that_are_killed_paused_stopped_and_expelled_lose_nothing(tmp_path: Path) -> None:
    options = Options(
        store="embedded", seconds=25, seed=3, rate=100, namespaces=False, gap_s=(2.5, 4.5), longest_s=2, share=True
    )
    result = run_once(options, tmp_path)
    assert result["anomalies"] == []
    assert {"kill", "pause", "stop", "session"} <= set(result["faults"])
    operations = result["operations"]
    assert operations["send"]["ok"] > 500
    assert operations["txn"]["ok"] and operations["copy"]["ok"] and operations["poll"]["ok"]
    assert result["share"]["share accept"] > 200 and result["share"]["share repeated"] > 10


def test_a_secured_cluster_loses_nothing_either(tmp_path: Path) -> None:
    options = Options(
        store="embedded", seconds=15, seed=3, rate=60, namespaces=False, gap_s=(2.5, 4.5), longest_s=2, secured=True
    )
    result = run_once(options, tmp_path)
    assert result["anomalies"] == []
    assert result["operations"]["send"]["ok"] > 200


def test_who_is_cut_off_in_the_network_hears_nothing_until_it_is_healed() -> None:
    need(network.why_unavailable())
    import socket
    import subprocess
    import sys

    listening = (
        "import socket; s = socket.create_server(('', 9999)); print(flush=True); [s.accept() for _ in iter(int, 1)]"
    )
    asking = "import socket, sys; socket.create_connection((sys.argv[1], 9999), 0.5)"
    with network.made(["b1", "b2"], namespaces=True) as net:
        assert isinstance(net, network.Namespaces)
        server = subprocess.Popen([*net.prefix("b1"), sys.executable, "-c", listening], stdout=subprocess.PIPE)
        assert server.stdout is not None
        try:
            assert server.stdout.readline()

            def heard_by_other() -> bool:
                command = [*net.prefix("b2"), sys.executable, "-c", asking, net.address("b1")]
                return subprocess.run(command, capture_output=True, check=False).returncode == 0

            def heard_by_clients() -> bool:
                try:
                    socket.create_connection((net.address("b1"), 9999), 0.5).close()
                except OSError:
                    return False
                return True

            assert heard_by_other() and heard_by_clients()
            net.cut("b1", "b2")
            assert not heard_by_other() and heard_by_clients()
            net.cut("b1", network.CLIENTS)
            assert not heard_by_clients()
            net.heal_all()
            assert heard_by_other() and heard_by_clients()
        finally:
            server.kill()
            server.wait()
            server.stdout.close()
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"kwire-{net._token}-" not in names

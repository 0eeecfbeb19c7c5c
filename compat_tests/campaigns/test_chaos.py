"""A short run of `campaigns/chaos` without network namespaces: brokers are killed, paused, stopped and expelled.

kwire only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from campaigns.chaos import network
from campaigns.chaos.campaign import Options, run_once
from compat_tests.needs import need

pytestmark = pytest.mark.timeout(1500)


def run(options: Options, home: Path, is_enough: Callable[[dict[str, Any]], bool]) -> None:
    """A run, and a longer one if the machine was too busy for enough to happen. Neither may have anomalies."""
    for seconds in (options.seconds, 6 * options.seconds):
        result = run_once(replace(options, seconds=seconds), home / f"{seconds}")
        assert result["anomalies"] == []
        if is_enough(result):
            return
    raise AssertionError(f"too little happened: {result}")


def done(result: dict[str, Any], kind: str) -> int:
    """How many operations of a kind succeeded."""
    return int(result["operations"].get(kind, {}).get("ok", 0))


def test_brokers_that_are_killed_paused_stopped_and_expelled_lose_nothing(tmp_path: Path) -> None:
    options = Options(
        store="embedded", seconds=25, seed=3, rate=100, namespaces=False, gap_s=(2.5, 4.5), longest_s=2, share=True
    )

    def is_enough(result: dict[str, Any]) -> bool:
        share = result.get("share", {})
        return (
            {"kill", "pause", "stop", "session"} <= set(result["faults"])
            and done(result, "send") > 500
            and all(done(result, kind) for kind in ("txn", "copy", "poll"))
            and share.get("share accept", 0) > 200
            and share.get("share repeated", 0) > 10
        )

    run(options, tmp_path, is_enough)


def test_a_secured_cluster_loses_nothing_either(tmp_path: Path) -> None:
    options = Options(
        store="embedded", seconds=15, seed=3, rate=60, namespaces=False, gap_s=(2.5, 4.5), longest_s=2, secured=True
    )
    run(options, tmp_path, lambda result: done(result, "send") > 200)


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

"""The clusters of a console: one that is there, one that is not, one that does not answer."""

from __future__ import annotations

import socket
from pathlib import Path

from harness.console.in_process import broker, console, statuses

NOWHERE = "127.0.0.1:1"


async def test_clusters_that_are_gone_stand_beside_the_others(tmp_path: Path) -> None:
    async with broker(tmp_path) as bootstrap, console(bootstrap, NOWHERE) as client:
        well, gone = await statuses(client)
        assert (well["name"], well["status"], well["brokers"], well["lacks"]) == ("c0", "ok", 1, [])
        assert well["read_only"] is True
        assert (gone["status"], gone["error"]) == ("unreachable", f"{NOWHERE}: Connection refused")
        assert (await client.get("/api/topics")).json() == []
        assert (await client.get("/api/topics?cluster=c0")).status == 200
        unknown = await client.get("/api/topics?cluster=no-such")
        assert (unknown.status, unknown.json()["error"]["code"]) == (404, "unknown_cluster")


async def test_a_cluster_that_is_gone_is_told_by_name() -> None:
    async with console(NOWHERE) as client:
        answer = await client.get("/api/topics")
        assert answer.status == 502
        assert answer.json() == {"error": {"code": "cluster_unreachable", "message": f"{NOWHERE}: Connection refused"}}


async def test_a_cluster_that_does_not_answer_holds_nothing_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connections wait there to be accepted
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with console(address, timeout_s=0.2) as client:
            answer = await client.get("/api/topics")
            assert (answer.status, answer.json()["error"]["code"]) == (502, "cluster_unreachable")
            assert answer.json()["error"]["message"] == f"{address}: no answer within 0.2 s"
            [status] = (await client.get("/api/clusters")).json()
            assert status["status"] in ("connecting", "unreachable")

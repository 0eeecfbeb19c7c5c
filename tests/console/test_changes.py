"""What the page changes, if it may; and what a console that only reads answers."""

from __future__ import annotations

from pathlib import Path

from harness.console.in_process import broker, console
from kwire.console.app import CHANGING, CHANGING_BY_GROUP


async def test_a_console_that_only_reads_refuses_every_change() -> None:
    async with console("127.0.0.1:1") as client:  # no cluster is asked
        for method, path, _ in [*CHANGING, *CHANGING_BY_GROUP]:
            target = path.replace("{topic}", "t").replace("{group:path}", "g")
            answer = await client.ask(method, target, {})
            assert (answer.status, answer.json()["error"]["code"]) == (403, "read_only"), path
        answer = await client.ask("POST", "/api/groups/g/seek", {"to": "earliest", "execute": True})
        assert (answer.status, answer.json()["error"]["code"]) == (403, "read_only")


async def test_topics_are_made_changed_and_deleted(tmp_path: Path) -> None:
    async with broker(tmp_path) as bootstrap, console(bootstrap, allow_changes=True) as client:
        body = {"name": "t", "partitions": 2, "configs": {"retention.ms": 60000, "cleanup.policy": "compact"}}
        made = await client.ask("POST", "/api/topics", body)
        assert (made.status, made.json()) == (200, {"name": "t", "partitions": 2, "replication_factor": 1})
        again = await client.ask("POST", "/api/topics", body)
        assert (again.status, again.json()["error"]["code"]) == (409, "conflict")
        assert (await client.ask("POST", "/api/topics/t/partitions", {"count": 3})).status == 200
        changes = {"set": {"segment.ms": "120000"}, "delete": ["cleanup.policy"]}
        assert (await client.ask("PATCH", "/api/topics/t/configs", changes)).status == 200
        topic = (await client.get("/api/topics/t")).json()
        own = {each["name"]: each["value"] for each in topic["configs"] if not each["default"]}
        assert (len(topic["partitions"]), own) == (3, {"retention.ms": "60000", "segment.ms": "120000"})
        assert (await client.ask("DELETE", "/api/topics/t")).json() == {"name": "t"}
        assert (await client.get("/api/topics/t")).status == 404
        assert (await client.get("/api/topics")).json() == []


async def test_messages_are_written_and_sent_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as bootstrap, console(bootstrap, allow_changes=True) as client:
        await client.ask("POST", "/api/topics", {"name": "t", "partitions": 2})
        message = {"key": "k", "value": {"base64": "/w=="}, "headers": [{"key": "h", "value": None}], "partition": 1}
        written = await client.ask("POST", "/api/topics/t/messages", message)
        assert written.json() == {"partition": 1, "offset": 0}
        [shown] = (await client.get("/api/topics/t/messages")).json()["messages"]
        again = await client.ask("POST", "/api/topics/t/messages", shown)
        assert again.json() == {"partition": 1, "offset": 1}
        chosen = (await client.ask("POST", "/api/topics/t/messages", {"key": "k", "value": None})).json()
        assert chosen["partition"] in (0, 1)


async def test_bodies_that_are_wrong_are_told(tmp_path: Path) -> None:
    async with broker(tmp_path) as bootstrap, console(bootstrap, allow_changes=True) as client:
        await client.ask("POST", "/api/topics", {"name": "t"})
        for method, target, body in (
            ("POST", "/api/topics", {}),
            ("POST", "/api/topics", {"name": 1}),
            ("POST", "/api/topics", [1]),
            ("POST", "/api/topics", {"name": "x", "partitions": "many"}),
            ("POST", "/api/topics", {"name": "x", "configs": {"a": [1]}}),
            ("POST", "/api/topics", {"name": "no/name"}),
            ("POST", "/api/topics/t/partitions", {"count": True}),
            ("PATCH", "/api/topics/t/configs", {}),
            ("PATCH", "/api/topics/t/configs", {"set": {"no.such": "1"}}),
            ("POST", "/api/topics/t/messages", {"key": "k"}),
            ("POST", "/api/topics/t/messages", {"value": {"base64": "?"}}),
            ("POST", "/api/groups/g/seek", {"to": "somewhere"}),
            ("POST", "/api/groups/g/seek", {"to": "earliest"}),
            ("DELETE", "/api/groups/g/offsets", {"topics": []}),
            ("DELETE", "/api/groups/g/offsets", {"topics": [7]}),
        ):
            answer = await client.ask(method, target, body)
            assert (answer.status, answer.json()["error"]["code"]) == (400, "bad_request"), (target, body)
        for method, target, status in (
            ("POST", "/api/topics/no-such/messages", 404),
            ("DELETE", "/api/topics/no-such", 404),
            ("DELETE", "/api/groups/no-such", 404),
            ("PUT", "/api/topics", 405),
        ):
            assert (await client.ask(method, target, {"value": "v"})).status == status, target

"""Messages in the console: pages, single messages, searches and tails."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest

from harness.console.asgi_client import AsgiClient
from harness.console.in_process import TIMEOUT_S, broker, console, write
from kwire.cli.connection.cluster import Cluster
from kwire.cli.records.writing.encoding import Rows
from kwire.codec.messages.fetch_request import FetchRequest
from kwire.console.records import pages
from kwire.console.records.tailing import INTERVAL_S


def texts(content: Any) -> list[str]:
    return [each["value"] for each in content["messages"]]


async def found(client: AsgiClient, query: str, topic: str = "t") -> tuple[list[Any], dict[str, Any]]:
    """The messages that a search finds, and its last event."""
    messages, last = [], None
    async with client.events(f"/api/topics/{topic}/search?{query}") as events:
        async for event in events:
            if event.name == "message":
                messages.append(event.data)
            last = event
    assert last is not None
    assert last.name in ("done", "failed"), last
    return messages, last.data


async def test_pages_go_on_from_where_they_ended(tmp_path: Path) -> None:
    async with broker(tmp_path) as bootstrap, console(bootstrap) as client:
        await write(bootstrap, "t", 0, Rows([b"%d" % n for n in range(10)]), partitions=2)
        await write(bootstrap, "t", 1, Rows([b"x"], [b"k"], [[("h", b"1"), ("h", None)]], [1000]))
        first = (await client.get("/api/topics/t/messages?limit=4")).json()
        assert texts(first) == ["x", "0", "1", "2"]
        assert first["messages"][0] == {
            "topic": "t",
            "partition": 1,
            "offset": 0,
            "timestamp": 1000,
            "key": "k",
            "value": "x",
            "headers": [{"key": "h", "value": "1"}, {"key": "h", "value": None}],
            "size": 5,
            "truncated": False,
        }
        assert (first["next"], first["ends"], first["complete"]) == ({"0": 3, "1": 1}, {"0": 10, "1": 1}, True)
        second = (await client.get("/api/topics/t/messages?limit=4&offsets=0:3,1:1")).json()
        assert texts(second) == ["3", "4", "5", "6"]
        newest = (await client.get("/api/topics/t/messages?limit=4&from=-4")).json()
        assert texts(newest) == ["x", "7", "8", "9"]
        before = (await client.get("/api/topics/t/messages?limit=4&from=-4&ends=0:7,1:0")).json()
        assert (texts(before), before["first"]) == (["3", "4", "5", "6"], {"0": 3, "1": 0})
        assert texts((await client.get("/api/topics/t/messages?from=8&partition=0")).json()) == ["8", "9"]
        assert texts((await client.get("/api/topics/t/messages?from=latest")).json()) == []


async def test_a_page_waits_as_long_as_the_console_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    @asynccontextmanager
    async def over(limit_s: float) -> AsyncGenerator[None]:
        limits.append(limit_s)
        yield
        raise TimeoutError

    async with broker(tmp_path) as bootstrap, console(bootstrap, timeout_s=TIMEOUT_S) as client:
        await write(bootstrap, "t", 0, Rows([b"1", b"2"]))
        monkeypatch.setattr(pages, "asyncio", SimpleNamespace(timeout=over, sleep=asyncio.sleep))
        page = (await client.get("/api/topics/t/messages?limit=1")).json()
        assert (texts(page), page["complete"], limits) == (["1"], False, [TIMEOUT_S])


async def test_contents_of_any_kind_are_shown(tmp_path: Path) -> None:
    long = "é" * 40_000
    values = [None, b"", b"\xff\xfe", "<script>alert(1)</script>\u2028".encode(), long.encode(), b"\xff" * 70_000]
    async with broker(tmp_path) as bootstrap, console(bootstrap) as client:
        await write(bootstrap, "t", 0, Rows(values))
        content = (await client.get("/api/topics/t/messages")).json()
        null, empty, binary, script, cut, cut_binary = content["messages"]
        assert (null["value"], empty["value"], binary["value"]) == (None, "", {"base64": "//4="})
        assert script["value"] == "<script>alert(1)</script>\u2028"
        assert (cut["truncated"], cut["size"], cut["value"]) == (True, 80_000, long[: 32 * 1024])
        assert (cut_binary["truncated"], len(b64decode(cut_binary["value"]["base64"]))) == (True, 64 * 1024)
        whole = (await client.get("/api/topics/t/messages/0/4")).json()
        assert (whole["truncated"], whole["value"]) == (False, long)


WRONG = [
    ("no-such", 404, "unknown_topic"),
    ("no-such/messages", 404, "unknown_topic"),
    ("t/messages?partition=9", 404, "unknown_partition"),
    ("t/messages/0/99999", 404, "unknown_message"),
    ("t/messages/9/0", 404, "unknown_partition"),
    ("t/messages?from=yesterday", 400, "bad_request"),
    ("t/messages?limit=1000000", 400, "bad_request"),
    ("t/messages?offsets=1", 400, "bad_request"),
    ("t/messages?partitions=a", 400, "bad_request"),
    ("t/messages?isolation=none", 400, "bad_request"),
    ("t/messages/0/x", 400, "bad_request"),
]


async def test_what_is_not_there_is_told(client_of_t: AsgiClient) -> None:
    for target, status, code in WRONG:
        answer = await client_of_t.get(f"/api/topics/{target}")
        assert (answer.status, answer.json()["error"]["code"]) == (status, code), target


async def test_a_search_that_is_wrong_is_told(client_of_t: AsgiClient) -> None:
    for query in ("value=%28&regex=1", "json=~", "json=$.a~b", "from=x", "seconds=0", "limit=0"):
        messages, failure = await found(client_of_t, query)
        assert messages == []
        assert failure["error"]["code"] == "bad_request"


async def test_a_search_looks_at_every_message(client_of_t: AsgiClient) -> None:
    messages, done = await found(client_of_t, "value=needle")
    assert [(each["partition"], each["offset"]) for each in messages] == [(0, 1500)]
    assert messages[0]["value"] == "a needle"
    assert (done["reason"], done["scanned"], done["matched"], done["resume"]) == ("end", 3001, 1, {})


SEARCHES = [
    ("key=k7", [1507]),
    ("header=h", [1508]),
    ("header=h%3Dyes", [1508]),
    ("header=h%3Dno", []),
    (f"value={quote('^x.+needle$')}&regex=1", []),
    (f"value={quote('^a n.+e$')}&regex=1", [1500]),
    ("key=k%5B67%5D&regex=1", [1506, 1507]),
    ("value=needle&key=other", []),
    ("json=user.id%3D7", [1509]),
    (f"json={quote('$.user.id>6')}", [1509]),
    ("value=needle&from=1501", []),
    ("value=needle&to=1500", []),
    ("value=needle&from=1500&to=1501", [1500]),
    ("value=needle&partitions=1", []),
]


async def test_a_search_finds(client_of_t: AsgiClient) -> None:
    for query, offsets in SEARCHES:
        messages, done = await found(client_of_t, query)
        assert ([each["offset"] for each in messages], done["reason"]) == (offsets, "end"), query


async def test_a_search_goes_on_after_its_limit(client_of_t: AsgiClient) -> None:
    messages, done = await found(client_of_t, "value=plain&limit=3&partitions=0")
    assert [each["offset"] for each in messages] == [0, 1, 2]
    assert (done["reason"], done["resume"]) == ("limit", {"0": 3})
    messages, done = await found(client_of_t, "value=plain&limit=2&offsets=0:3")
    assert [each["offset"] for each in messages] == [3, 4]


async def test_a_hostile_expression_takes_linear_time(client_of_t: AsgiClient) -> None:
    messages, done = await found(client_of_t, f"regex=1&value={quote('(a+)+$')}")
    assert (len(messages), done["reason"]) == (1, "end")
    assert messages[0]["value"].startswith("aaaa")


async def test_a_search_ends_with_its_connection(tmp_path: Path) -> None:
    async with broker(tmp_path) as bootstrap, console(bootstrap) as client:
        await write(bootstrap, "t", 0, *(Rows([b"x" * 1000] * 1000) for _ in range(5)))
        before = len(asyncio.all_tasks())
        async with client.events("/api/topics/t/search?limit=5000") as events:
            assert (await anext(events)).name in ("message", "progress")
        async with asyncio.timeout(TIMEOUT_S):
            while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - the broker's own tasks end a moment later
                await asyncio.sleep(0.01)


async def test_a_tail_has_the_newest_and_counts_the_rest(tmp_path: Path) -> None:
    async with broker(tmp_path) as bootstrap, console(bootstrap) as client:
        await write(bootstrap, "t", 0, Rows([b"old"]))
        async with client.events("/api/topics/t/tail") as events:
            assert (await anext(events)).data == {"messages": [], "rate": 0, "skipped": 0}
            await write(bootstrap, "t", 0, *(Rows([b"%d" % (n + base) for n in range(500)]) for base in (0, 500)))
            count, newest = 0, ""
            while count < 1000:
                event = await anext(events)
                assert len(event.data["messages"]) <= 50
                count += len(event.data["messages"]) + event.data["skipped"]
                newest = texts(event.data)[-1] if event.data["messages"] else newest
            assert (count, newest) == (1000, "999")


async def test_only_committed_messages_if_wanted(client_of_t: AsgiClient) -> None:
    answer = await client_of_t.get("/api/topics/t/messages?isolation=read_committed&limit=1")
    assert len(answer.json()["messages"]) == 1


async def test_a_tail_asks_its_leader_no_more_often_than_the_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = 0
    call = Cluster.call

    async def counted(self: Cluster, request: Any, *others: Any) -> Any:
        nonlocal fetches
        fetches += isinstance(request, FetchRequest)
        return await call(self, request, *others)

    async with broker(tmp_path) as bootstrap, console(bootstrap) as client:
        await write(bootstrap, "t", 0, Rows([b"before"]))
        monkeypatch.setattr(Cluster, "call", counted)
        began_s = asyncio.get_running_loop().time()
        async with client.events("/api/topics/t/tail") as events:
            await anext(events)
            await write(bootstrap, "t", 0, *[Rows([b"%d" % number]) for number in range(100)])
            values: list[str] = []
            async for event in events:
                values += texts(event.data)
                if "99" in values:
                    break
        took_s = asyncio.get_running_loop().time() - began_s
    assert fetches <= took_s / INTERVAL_S + 3

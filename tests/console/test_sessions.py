"""People who log in to the console with their names and passwords of a cluster: what it lets them see, they see."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from harness.console.asgi_client import Answer, AsgiClient
from harness.console.in_process import HOST
from kwire.base.addresses import Address
from kwire.cli.connection.cluster import Cluster
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.console import sessions
from kwire.console.access import Access
from kwire.console.app import Console, Settings
from kwire.console.clusters import Target
from kwire.console.failures import Refusal
from kwire.console.sessions import IDLE_S, LIFETIME_S, Sessions, why_no_logins
from tests.server.access.guarded_cluster import CLIENTS, GuardedCluster

PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
HEADERS = {"host": HOST, "origin": f"http://{HOST}", "content-type": "application/json"}
COOKIE = "kwire_console_9021"


class Logins:
    """A console with ``--login`` of a broker with an authorizer and the topic ``secret``. root is a super user, alice
    and bob may do nothing."""

    def __init__(self, bootstrap: str, allow_changes: bool = False) -> None:
        self.now_s = 0.0
        self.target = Target("c", bootstrap, PLAIN, 10.0)
        self.sessions = Sessions(
            [self.target, Target("other", "127.0.0.1:1", PLAIN, 1.0)],
            read_only=not allow_changes,
            clock=lambda: self.now_s,
        )
        self.console = Console(self.sessions, Access(None, Address("127.0.0.1", 9021)), Settings(allow_changes))
        self.client = AsgiClient(self.console.app(), HEADERS)

    async def log_in(self, user: str, password: str, cookie: str | None = None, cluster: str = "c") -> Answer:
        headers = {} if cookie is None else {"cookie": f"{COOKIE}={cookie}"}
        body = {"cluster": cluster, "user": user, "password": password}
        return await self.client.ask("POST", "/api/login", body, headers)

    async def cookie(self, user: str) -> str:
        return identity(await self.log_in(user, user))

    async def get(self, path: str, cookie: str | None = None) -> tuple[int, Any]:
        headers = {} if cookie is None else {"cookie": f"{COOKIE}={cookie}"}
        answer = await self.client.get(path, **headers)
        return answer.status, answer.json()


def identity(answer: Answer) -> str:
    """What the cookie of a response has."""
    assert answer.status == 200, answer.content
    text = answer.headers["set-cookie"]
    assert text.endswith("; Path=/; HttpOnly; SameSite=Strict")
    return text.partition("=")[2].partition(";")[0]


@pytest_asyncio.fixture
async def logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Logins]:
    monkeypatch.setattr(sessions, "REFUSED_S", 0.0)
    async with AsyncExitStack() as stack:
        broker = await GuardedCluster(tmp_path, stack).start(1, **{"connection.failed.authentication.delay.ms": "0"})
        addresses = [f"127.0.0.1:{each.address[1]}" for each in broker.net.listeners]
        inside = Cluster.of(addresses[0], {}, 10.0)
        topic = CreatableTopic(name="secret", num_partitions=1, replication_factor=1)
        await inside.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        inside.close()
        made = Logins(addresses[CLIENTS])
        stack.callback(made.console.close)
        yield made


async def test_nothing_is_shown_before_a_login(logins: Logins) -> None:
    for path in ("/api/clusters", "/api/topics", "/api/groups/g/history", "/api/topics/secret/search"):
        status, content = await logins.get(path)
        assert (status, content["error"]["code"]) == (401, "login_needed"), path
    assert await logins.get("/api/session") == (200, {"login": True, "clusters": ["c", "other"], "users": {}})


@pytest.mark.parametrize("cookie", ["", "x", "A" * 43, "\x00"])
async def test_an_invented_cookie_is_none(logins: Logins, cookie: str) -> None:
    await logins.cookie("root")
    assert (await logins.get("/api/topics", cookie))[0] == 401


async def test_the_cluster_decides_what_a_user_sees(logins: Logins) -> None:
    root, alice = await logins.cookie("root"), await logins.cookie("alice")
    assert [each["name"] for each in (await logins.get("/api/topics", root))[1]] == ["secret"]
    assert await logins.get("/api/topics", alice) == (200, [])
    status, content = await logins.get("/api/topics/secret/messages", alice)
    assert (status, content["error"]["code"]) == (403, "forbidden")
    assert (await logins.get("/api/session", alice))[1]["users"] == {"c": "alice"}


async def test_a_wrong_password_is_refused_and_begins_no_session(logins: Logins) -> None:
    for user, password in (("alice", "wrong"), ("nobody", "nobody"), ('root" user_x="y', "x"), ("a\\", 'b"')):
        answer = await logins.log_in(user, password)
        assert (answer.status, answer.json()["error"]["code"]) == (401, "login_refused"), user
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("user", "password"), [("", "x"), ("x", ""), ("root\x00root", "root"), ("x", "a\nb"), ("x" * 257, "x")]
)
async def test_what_is_no_name_or_password_is_not_tried(logins: Logins, user: str, password: str) -> None:
    assert (await logins.log_in(user, password)).status == 400


async def test_other_origins_cannot_log_anybody_in(logins: Logins) -> None:
    body = {"cluster": "c", "user": "root", "password": "root"}
    for wrong in ({"origin": "http://evil.example"}, {"host": "evil.example"}, {"content-type": "text/plain"}):
        assert (await logins.client.ask("POST", "/api/login", body, wrong)).status == 403


async def test_each_login_has_a_new_cookie_and_the_old_one_ends(logins: Logins) -> None:
    first = await logins.cookie("alice")
    second = identity(await logins.log_in("root", "root", cookie=first))
    assert second != first
    assert (await logins.get("/api/topics", first))[0] == 401
    assert len((await logins.get("/api/topics", second))[1]) == 1
    assert (await logins.get("/api/session", second))[1]["users"] == {"c": "root"}


async def test_a_cluster_that_one_has_not_logged_in_to_is_locked(logins: Logins) -> None:
    root = await logins.cookie("root")
    status, content = await logins.get("/api/topics?cluster=other", root)
    assert (status, content["error"]["code"]) == (401, "login_needed")
    found = (await logins.get("/api/clusters", root))[1]
    assert [each["status"] for each in found][1] == "login needed"
    assert (await logins.log_in("root", "root", cluster="other")).status == 502
    assert (await logins.log_in("root", "root", cluster="third")).status == 404


async def test_a_session_ends_by_logging_out(logins: Logins) -> None:
    root = await logins.cookie("root")
    await logins.client.ask("POST", "/api/logout", {}, {"cookie": f"{COOKIE}={root}"})
    assert (await logins.get("/api/topics", root))[0] == 401


@pytest.mark.parametrize(("pause_s", "times"), [(IDLE_S, 1), (IDLE_S / 2, round(LIFETIME_S / IDLE_S * 2))])
async def test_a_session_ends_after_a_time_and_without_requests(logins: Logins, pause_s: float, times: int) -> None:
    root = await logins.cookie("root")
    for number in range(times):
        assert (await logins.get("/api/session", root))[1]["users"] == {"c": "root"}, number
        logins.now_s += pause_s
    assert (await logins.get("/api/session", root))[1]["users"] == {}


async def test_streams_end_with_their_session(logins: Logins) -> None:
    root = await logins.cookie("root")
    session = logins.sessions.find(root)
    assert session is not None
    inside = AsgiClient(logins.console.app(), {**HEADERS, "cookie": f"{COOKIE}={root}"})
    async with inside.events("/api/events") as events:
        assert (await anext(events)).name == "cluster"
        logins.sessions.log_out(root)
        assert [each async for each in events] == []
    assert session.workspace.closing.is_set()


async def test_there_are_so_many_sessions_and_no_more(logins: Logins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 1)
    root = await logins.cookie("root")
    assert (await logins.log_in("alice", "alice")).status == 503
    assert (await logins.log_in("root", "root", cookie=root)).status == 200
    logins.now_s += LIFETIME_S
    assert (await logins.log_in("alice", "alice")).status == 200


def test_the_token_lets_nobody_in_where_people_log_in() -> None:
    access = Access(None, Address("127.0.0.1", 9021))
    assert not access.is_valid("") and not access.is_valid("None")


@pytest.mark.parametrize(
    "properties", [{}, {"security.protocol": "SSL"}, {**PLAIN, "sasl.mechanism": "GSSAPI"}, {"sasl.mechanism": "PLAIN"}]
)
def test_a_cluster_without_names_and_passwords_is_named(properties: dict[str, str]) -> None:
    assert why_no_logins([Target("c", "a:1", PLAIN, 1.0)]) is None
    assert "c needs security.protocol" in str(why_no_logins([Target("c", "a:1", properties, 1.0)]))


def test_a_login_that_the_properties_have_is_nobodys() -> None:
    target = Target("c", "a:1", {**PLAIN, "sasl.jaas.config": 'x required username="root" password="root";'}, 1.0)
    text = sessions._login(target, "alice", 'a"b\\c')["sasl.jaas.config"]
    assert 'username="alice" password="a\\"b\\\\c";' in text and "root" not in text
    with pytest.raises(Refusal):
        sessions._login(target, "", "")

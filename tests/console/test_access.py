"""Who may ask a console: tokens, Host, Origin, and what browsers are told."""

from __future__ import annotations

import math

import pytest

from harness.console.in_process import CHANGING, HEADERS, HOST, TOKEN, console
from kwire.base.addresses import Address
from kwire.console.access import Access, Asked
from kwire.console.failures import Refusal

NOWHERE = "127.0.0.1:1"


def asked(method: str = "GET", path: str = "/api/topics", query: str = "", **headers: str) -> Asked:
    return Asked(method, path, query, {name.replace("_", "-"): [value] for name, value in headers.items()})


def access(host: str = "127.0.0.1", port: int = 9021, **settings: object) -> Access:
    return Access(TOKEN, Address(host, port), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["127.0.0.1:9021", "localhost:9021", "LOCALHOST:9021", "[::1]:9021"])
def test_names_of_the_loopback_are_its_own(host: str) -> None:
    access().check(asked(host=host))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9021", "127.0.0.1", "127.0.0.1:80", "localhost.evil.example:9021", "", "::1"]
)
def test_another_host_is_refused(host: str) -> None:
    with pytest.raises(Refusal) as refusal:
        access().check(asked(host=host))
    assert (refusal.value.status, refusal.value.code) == (403, "foreign_host")


def test_a_request_without_host_or_with_two_is_refused() -> None:
    with pytest.raises(Refusal) as refusal:
        access().check(asked())
    assert refusal.value.status == 403
    with pytest.raises(Refusal) as refusal:
        access().check(Asked("GET", "/", "", {"host": [HOST, "evil.example"]}))
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    ("address", "allowed", "host"),
    [
        (Address("192.0.2.7", 9021), [], "192.0.2.7:9021"),
        (Address("0.0.0.0", 9021), ["console.example"], "console.example:9021"),
        (Address("0.0.0.0", 9021), ["console.example"], "console.example"),
        (Address("0.0.0.0", 9021), ["console.example:8443"], "console.example:8443"),
        (Address("127.0.0.1", 80), [], "localhost"),
    ],
)
def test_other_names_are_allowed(address: Address, allowed: list[str], host: str) -> None:
    Access(TOKEN, address, allowed_hosts=allowed).check(asked(host=host))


def test_the_address_of_all_interfaces_is_no_name() -> None:
    with pytest.raises(Refusal):
        access("0.0.0.0").check(asked(host="0.0.0.0:9021"))


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:9021", "http://127.0.0.1:3000", "http://localhost:9021"],
)
def test_another_origin_is_refused(origin: str) -> None:
    with pytest.raises(Refusal) as refusal:
        access().check(asked(host=HOST, origin=origin))
    assert (refusal.value.status, refusal.value.code) == (403, "foreign_origin")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_or_port_gets_nothing(site: str) -> None:
    with pytest.raises(Refusal):
        access().check(asked(host=HOST, sec_fetch_site=site))
    access().check(asked(path="/", host=HOST, sec_fetch_site=site))  # following a link


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "application/json"},
        {"origin": f"http://{HOST}"},
        {"origin": f"http://{HOST}", "content_type": "text/plain"},
        {"x_kwire_console": "1", "content_type": "application/x-www-form-urlencoded"},
    ],
)
def test_a_change_needs_an_origin_and_json(headers: dict[str, str]) -> None:
    with pytest.raises(Refusal) as refusal:
        access().check(asked("POST", host=HOST, **headers))
    assert refusal.value.status == 403


def test_a_change_of_a_program_is_let_through() -> None:
    access().check(asked("POST", host=HOST, x_kwire_console="1", content_type="application/json; charset=utf-8"))


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        (f"token={TOKEN}", {}),
        ("", {"authorization": f"Bearer {TOKEN}"}),
        ("", {"authorization": f"bearer  {TOKEN}"}),
        ("", {"cookie": f"other=1; kwire_console_9021={TOKEN}"}),
    ],
)
def test_the_token_lets_in(query: str, headers: dict[str, str]) -> None:
    assert access().is_allowed(asked(query=query, **headers))


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {}),
        ("token=", {}),
        ("token=wrong", {"cookie": f"kwire_console_9021={TOKEN}"}),
        ("token=%ff%00", {}),
        ("", {"authorization": "Bearer wrong"}),
        ("", {"authorization": f"Basic {TOKEN}"}),
        ("", {"cookie": "kwire_console_9021="}),
        ("", {"cookie": f"kwire_console_9999={TOKEN}"}),
        ("", {"cookie": "\x00\x01;;;="}),
    ],
)
def test_another_token_does_not(query: str, headers: dict[str, str]) -> None:
    assert not access().is_allowed(asked(query=query, **headers))


def test_a_token_expires() -> None:
    now_s = [100.0]
    expiring = access(lifetime_s=60.0, clock=lambda: now_s[0])
    assert expiring.is_valid(TOKEN)
    assert "Max-Age=60" in expiring.set_cookie(TOKEN)
    now_s[0] = 159.9
    assert expiring.is_valid(TOKEN)
    now_s[0] = 160.0
    assert not expiring.is_valid(TOKEN)
    assert "Max-Age" not in access(lifetime_s=math.inf).set_cookie(TOKEN)


def test_the_cookie_is_bound_to_this_site() -> None:
    assert access().set_cookie(TOKEN) == f"kwire_console_9021={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert access(secure=True).set_cookie(TOKEN).endswith("; Secure")


async def test_without_the_token_the_page_is_not_there() -> None:
    async with console(NOWHERE) as client:
        for target in ("/api/topics", "/api/clusters", "/api/no-such-path"):
            answer = await client.ask("GET", target, headers={"authorization": None})
            assert (answer.status, answer.json()["error"]["code"]) == (401, "unauthorized")
        page = await client.ask("GET", "/", headers={"authorization": None})
        assert page.status == 401
        assert b"kwire console" in page.content
        wrong = await client.ask("GET", "/?token=wrong", headers={"authorization": None})
        assert wrong.status == 401
        assert b"wrong" in wrong.content


async def test_an_expired_token_is_like_a_wrong_one() -> None:
    now_s = [0.0]
    async with console(NOWHERE, lifetime_s=10.0, clock=lambda: now_s[0]) as client:
        assert (await client.get("/api/clusters")).status == 200
        now_s[0] = 10.0
        assert (await client.get("/api/clusters")).status == 401
        assert (await client.get("/")).status == 401


async def test_a_link_on_another_site_is_followed_once_more_with_the_cookie() -> None:
    async with console(NOWHERE) as client:
        answer = await client.ask("GET", "/", headers={"authorization": None, "sec-fetch-site": "cross-site"})
        assert (answer.status, b"http-equiv='refresh'" in answer.content) == (401, True)
        answer = await client.ask("GET", "/", headers={"authorization": None, "sec-fetch-site": "same-origin"})
        assert (answer.status, b"http-equiv" in answer.content) == (401, False)


async def test_the_token_in_the_address_becomes_a_cookie() -> None:
    async with console(NOWHERE) as client:
        answer = await client.ask("GET", f"/?token={TOKEN}", headers={"authorization": None})
        assert answer.status == 200
        assert "SameSite=Strict" in answer.headers["set-cookie"]
        cookie = answer.headers["set-cookie"].partition(";")[0]
        assert (await client.ask("GET", "/", headers={"authorization": None, "cookie": cookie})).status == 200
        assert "set-cookie" not in (await client.get("/")).headers


async def test_every_response_binds_the_browser() -> None:
    async with console(NOWHERE) as client:
        for target in ("/", "/api/clusters", "/api/no-such-path", "/no-such-file", "/?token=wrong"):
            headers = (await client.get(target)).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
        assert (await client.get("/api/clusters")).headers["cache-control"] == "no-store"


async def test_a_foreign_host_gets_nothing_even_with_the_token() -> None:
    async with console(NOWHERE) as client:
        for target in ("/", "/api/topics", "/index.html", f"/?token={TOKEN}"):
            answer = await client.get(target, host="evil.example:9021")
            assert (answer.status, answer.json()["error"]["code"]) == (403, "foreign_host")


async def test_a_request_of_another_page_changes_nothing() -> None:
    async with console(NOWHERE, allow_changes=True) as client:
        for headers in ({"origin": "http://evil.example"}, {"origin": None}, {"content-type": "text/plain"}):
            answer = await client.ask("POST", "/api/topics", {"name": "t"}, headers)
            assert answer.status == 403, headers


async def test_a_file_outside_the_page_is_not_served() -> None:
    async with console(NOWHERE) as client:
        for target in ("/../command.py", "/%2e%2e/command.py", "/app/../../command.py", "//etc/passwd"):
            assert (await client.get(target)).status == 404
            assert (await client.get(f"/static/x{target}")).status == 404


def test_the_headers_of_the_tests_are_those_of_a_browser() -> None:
    assert HEADERS.items() <= CHANGING.items()

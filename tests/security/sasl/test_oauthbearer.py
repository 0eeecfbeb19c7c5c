"""OAUTHBEARER: the client's message, what follows a token, and that a login ends after an error."""

from __future__ import annotations

import pytest

from kwire.base.futures import NowOrLater
from kwire.security.errors import AuthenticationError, InvalidCredentials
from kwire.security.oauth.tokens import INSUFFICIENT_SCOPE, BearerToken, TokenRefused
from kwire.security.principals import ANONYMOUS, Principal
from kwire.security.sasl.oauthbearer import ClientOAuthBearer, InitialResponse, ServerOAuthBearer

FIRST = b"n,,\x01auth=Bearer good\x01\x01"


def check(token: str) -> NowOrLater[BearerToken]:
    """Accepts ``good``, and ``later`` after a while."""
    if token == "scope":
        raise TokenRefused("a scope is missing", INSUFFICIENT_SCOPE, "[a, b]")
    if token.startswith("later"):
        return check_later(token)
    if token != "good":
        raise TokenRefused("the token is bad")
    return BearerToken("alice", 123_000)


async def check_later(token: str) -> BearerToken:
    if token != "later-good":
        raise TokenRefused("the token is bad")
    return BearerToken("bob", 456_000)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (FIRST, InitialResponse("good")),
        (b"n,a=alice,\x01auth=Bearer good\x01\x01", InitialResponse("good", "alice")),
        (b"n,a=a=2Cb=3D,\x01auth=Bearer good\x01\x01", InitialResponse("good", "a=2Cb=3D")),
        (b"n,,\x01auth=bEARER   a-b_c~d+e/f.g==\x01\x01", InitialResponse("a-b_c~d+e/f.g==")),
        (b"n,,\x01a=1\x01auth=Bearer x\x01b=2 \t\r\n=\x01\x01", InitialResponse("x", "", {"a": "1", "b": "2 \t\r\n="})),
        (b"n,,\x01a=1\x01a=2\x01auth=Bearer x\x01\x01", InitialResponse("x", "", {"a": "2"})),
        (b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01", InitialResponse("y")),
        (b"n,,\x01host=h\x01port=1\x01auth=Bearer x\x01\x01", InitialResponse("x", "", {"host": "h", "port": "1"})),
    ],
)
def test_a_first_message_is_read(message: bytes, expected: InitialResponse) -> None:
    assert InitialResponse.parse(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,auth=Bearer x\x01\x01",
        b"n,\x01auth=Bearer x\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer x\x01\x01",
        b"n,a=,\x01auth=Bearer x\x01\x01",
        b"n,a=a=b,\x01auth=Bearer x\x01\x01",
        b"n,alice,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth= Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x \x01\x01",
        b"n,,\x01auth=Bearer x=y\x01\x01",
        b"n,,\x01auth=Bearer x,y\x01\x01",
        b"n,,\x01auth=Bearer\tx\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer x\x01k=\x01\x01",
        b"n,,\x01auth=Bearer x\x01k1=v\x01\x01",
        b"n,,\x01auth=Bearer x\x01k_l=v\x01\x01",
        b"n,,\x01auth=Bearer x\x01=v\x01\x01",
        b"n,,\x01auth=Bearer x\x01\x01\x01",
        b"n,,\x01auth=Bearer x\x01\x01\n",
        b"n,,\x01Auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01k=\x00\x01\x01",
        "n,a=ä,\x01auth=Bearer x\x01\x01".encode(),
        b"\xff" * 1000,
        b"n,,\x01" + b"a=b\x01" * 30_000,
        b"n,a=" + b"=" * 100_000,
        b"n,a=" + b"a" * 100_000,
        b"n,a=" + b"=2C" * 30_000,
        b"n,,\x01auth=Bearer " + b"A" * 128 * 1024 + b"\x01\x01",
    ],
)
def test_a_malformed_message_gets_the_general_text(message: bytes) -> None:
    server = ServerOAuthBearer(check)
    with pytest.raises(InvalidCredentials) as raised:
        server.respond(message)
    assert len(str(raised.value)) < 100
    assert not server.complete


def test_an_accepted_token_says_who_it_is_and_until_when() -> None:
    server = ServerOAuthBearer(check)
    assert server.respond(FIRST) == b""
    assert server.complete
    assert (server.principal, server.expires_ms, server.by_token) == (Principal("User", "alice"), 123_000, False)


def test_a_refused_token_gets_an_error_and_then_the_end() -> None:
    server, client = ServerOAuthBearer(check), ClientOAuthBearer("bad", {})
    error = server.respond(client.first())
    assert error == b'{"status":"invalid_token"}'
    assert client.respond(error) == b"\x01"
    assert not client.complete
    with pytest.raises(AuthenticationError) as raised:
        server.respond(b"\x01")
    assert not isinstance(raised.value, InvalidCredentials)
    assert str(raised.value) == '{"status":"invalid_token"}'
    assert raised.value.reason == "the token is bad"
    assert (server.complete, server.principal) == (False, ANONYMOUS)


@pytest.mark.parametrize("message", [FIRST, b"", b"\x01\x01", b"anything"])
def test_after_an_error_there_is_no_second_attempt(message: bytes) -> None:
    server = ServerOAuthBearer(check)
    server.respond(b"n,,\x01auth=Bearer bad\x01\x01")
    for _ in range(2):
        with pytest.raises(InvalidCredentials, match="the token is bad"):
            server.respond(message)
    assert not server.complete


def test_a_missing_scope_is_named() -> None:
    server = ServerOAuthBearer(check)
    assert server.respond(b"n,,\x01auth=Bearer scope\x01\x01") == b'{"status":"insufficient_scope", "scope":"[a, b]"}'


async def test_a_token_may_be_checked_later() -> None:
    server = ServerOAuthBearer(check)
    challenge = server.respond(b"n,a=bob,\x01auth=Bearer later-good\x01\x01")
    assert not isinstance(challenge, bytes)
    assert not server.complete
    assert await challenge == b""
    assert (server.complete, server.principal, server.expires_ms) == (True, Principal("User", "bob"), 456_000)


async def test_a_token_may_be_refused_later() -> None:
    server = ServerOAuthBearer(check)
    challenge = server.respond(b"n,,\x01auth=Bearer later-bad\x01\x01")
    assert not isinstance(challenge, bytes)
    assert await challenge == b'{"status":"invalid_token"}'
    with pytest.raises(AuthenticationError):
        server.respond(b"\x01")


def test_nobody_acts_as_another_user() -> None:
    assert ServerOAuthBearer(check).respond(b"n,a=alice,\x01auth=Bearer good\x01\x01") == b""
    server = ServerOAuthBearer(check)
    text = r"client requested an authorization id \(bob\) that is different from the token's principal name \(alice\)"
    with pytest.raises(AuthenticationError, match=f"(?i){text}"):
        server.respond(b"n,a=bob,\x01auth=Bearer good\x01\x01")
    assert (server.complete, server.principal) == (False, ANONYMOUS)


def test_a_client_sends_its_extensions() -> None:
    client = ClientOAuthBearer("good", {"traceId": "1", "host": "a b"})
    assert client.first() == b"n,,\x01auth=Bearer good\x01traceId=1\x01host=a b\x01\x01"
    assert InitialResponse.parse(client.first()) == InitialResponse("good", "", {"traceId": "1", "host": "a b"})
    assert client.respond(b"") == b""
    assert client.complete


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": ""}, {"a": "\x01"}, {"a": "ä"}, {"": "x"}])
def test_an_extension_that_cannot_be_sent_is_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot be a SASL extension"):
        ClientOAuthBearer("good", extensions)


def test_a_client_does_not_go_on_after_a_refusal() -> None:
    client = ClientOAuthBearer("bad", {})
    client.respond(b'{"status":"invalid_token"}')
    with pytest.raises(AuthenticationError):
        client.respond(b"")
    assert not client.complete

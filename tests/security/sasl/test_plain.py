"""PLAIN: who logs in, and what the others are told."""

from __future__ import annotations

import pytest

from kwire.security.errors import AuthenticationError
from kwire.security.principals import ANONYMOUS, Principal
from kwire.security.sasl.plain import ClientPlain, ServerPlain, users_of

USERS = {"alice": "alice-secret", "bob": "pä§,=\ud800", "": "nobody"}


def refusal(token: bytes) -> AuthenticationError:
    server = ServerPlain(USERS)
    with pytest.raises(AuthenticationError) as raised:
        server.respond(token)
    assert (server.complete, server.principal) == (False, ANONYMOUS)
    return raised.value


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0alice-secret",
        b"alice\0alice\0alice-secret",
        ClientPlain("alice", "alice-secret").first(),
    ],
)
def test_the_right_password_logs_in(token: bytes) -> None:
    server = ServerPlain(USERS)
    assert server.respond(token) == b""
    assert server.complete
    assert (server.principal, server.expires_ms, server.by_token) == (Principal("User", "alice"), None, False)


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0wrong",
        b"\0nobody\0alice-secret",
        b"\0Alice\0alice-secret",
        b"\0alice\0alice-secret ",
        b"\0\xff\0\xff",
    ],
)
def test_a_wrong_password_and_an_unknown_user_get_the_same_text(token: bytes) -> None:
    assert str(refusal(token)) == "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0\0\0\0\0\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0nobody", "Authentication failed: username not specified"),
        (b"\0\0", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
    ],
)
def test_a_malformed_token_gets_kafkas_text(token: bytes, text: str) -> None:
    assert str(refusal(token)) == text


def test_nobody_acts_as_another_user() -> None:
    text = "Authentication failed: Client requested an authorization id that is different from username"
    assert str(refusal(b"bob\0alice\0alice-secret")) == text
    assert str(refusal(b"bob\0alice\0wrong")) != text


def test_users_are_options_of_the_login_module() -> None:
    options = {"username": "broker", "password": "p", "user_alice": "a", "user_user_b": "b", "user_": "c"}
    assert users_of(options) == {"alice": "a", "user_b": "b", "": "c"}


def test_the_client_is_done_with_the_first_answer() -> None:
    client = ClientPlain("alice", "p")
    assert not client.complete
    assert client.respond(b"") == b""
    assert client.complete

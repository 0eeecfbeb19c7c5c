"""GSSAPI: the messages of a login, with contexts that stand for Kerberos."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kwire.base.futures import resolved
from kwire.security.errors import AuthenticationError, InvalidCredentials
from kwire.security.names.kerberos import parse_kerberos_rules
from kwire.security.principals import Principal
from kwire.security.sasl.gssapi import ClientGssapi, GssError, ServerGssapi

ALICE = "alice@EXAMPLE.COM"
NO_LAYER = b"\x01\0\0\0"
OFFER = b"W\x01\x01\0\0"


class Context:
    """A context of so many steps, whose wrapped messages begin with ``W``."""

    def __init__(self, replies: list[bytes], peer: str = ALICE) -> None:
        self._replies = replies
        self.peer = peer

    @property
    def complete(self) -> bool:
        return not self._replies

    def step(self, token: bytes) -> bytes:
        if token == b"forged":
            raise GssError("the checksum is wrong")
        return self._replies.pop(0)

    def wrap(self, message: bytes) -> bytes:
        return b"W" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"W"):
            raise GssError("the checksum is wrong")
        return message[1:]


async def at_once(call: Callable[[], bytes]) -> bytes:
    return call()


def server(replies: list[bytes], rules: tuple[str, ...] = ("DEFAULT",), peer: str = ALICE) -> ServerGssapi:
    run: Callable[[Callable[[], bytes]], Awaitable[bytes]] = at_once
    return ServerGssapi(lambda: Context(replies, peer), parse_kerberos_rules("EXAMPLE.COM", rules), run)


def told(exchange: ServerGssapi, *tokens: bytes) -> list[bytes | None]:
    async def tell() -> list[bytes | None]:
        return [await resolved(exchange.respond(token)) for token in tokens]

    return asyncio.run(tell())


def test_a_login_is_the_context_the_offer_and_the_choice() -> None:
    exchange = server([b"first", b"last"])
    assert told(exchange, b"a", b"b", b"", b"W" + NO_LAYER) == [b"first", b"last", OFFER, None]
    assert exchange.complete
    assert exchange.principal == Principal("User", "alice")
    assert exchange.expires_ms is None


def test_the_offer_follows_at_once_on_a_context_without_a_last_token() -> None:
    exchange = server([b""])
    assert told(exchange, b"a", b"W" + NO_LAYER) == [OFFER, None]
    assert exchange.complete


@pytest.mark.parametrize("identity", [b"", b"alice", ALICE.encode(), b"bob", b"kafka@localhost", b"\xff"])
def test_the_principal_is_the_tickets_whatever_the_authorization_id_is(identity: bytes) -> None:
    exchange = server([b""])
    told(exchange, b"a", b"W" + NO_LAYER + identity)
    assert exchange.principal == Principal("User", "alice")


@pytest.mark.parametrize(
    "tokens",
    [
        [b"forged"],
        [b"a", NO_LAYER],  # not wrapped
        [b"a", b"W\x01\0\0"],  # too short
        [b"a", b"W\x04\0\0\0"],  # encryption
        [b"a", b"W\x02\x01\0\0"],  # checksums
        [b"a", b"W\0\0\0\0"],
        [b"a", b"W"],
        [b"a", b""],
    ],
)
def test_what_is_no_login_is_refused_with_a_general_text(tokens: list[bytes]) -> None:
    exchange = server([b""])
    with pytest.raises(InvalidCredentials):
        told(exchange, *tokens)
    assert not exchange.complete


def test_a_token_after_the_context_is_refused() -> None:
    with pytest.raises(InvalidCredentials, match="after the end of the context"):
        told(server([b"last"]), b"a", b"more")


def test_the_rules_make_the_principal() -> None:
    exchange = server([b""], (r"RULE:[2:$1](kafka)s/kafka/broker/", "DEFAULT"), "kafka/b1.example.com@EXAMPLE.COM")
    told(exchange, b"a", b"W" + NO_LAYER)
    assert exchange.principal == Principal("User", "broker")


def test_a_name_without_a_rule_is_refused() -> None:
    with pytest.raises(InvalidCredentials, match=r"mallory@OTHER.COM: none of"):
        told(server([b""], peer="mallory@OTHER.COM"), b"a", b"W" + NO_LAYER)


def test_a_client_takes_the_offer_of_no_layer() -> None:
    exchange = ClientGssapi(Context([b"first", b""], "kafka/localhost@EXAMPLE.COM"))
    assert exchange.first() == b"first"
    assert exchange.respond(b"b") == b""
    assert exchange.respond(b"W\x07\x01\0\0") == b"W" + NO_LAYER
    assert not exchange.complete
    exchange.respond(b"")
    assert exchange.complete


@pytest.mark.parametrize("offer", [b"W\x06\x01\0\0", b"W\x01\0\0", b"\x01\0\0\0"])
def test_a_client_refuses_another_offer(offer: bytes) -> None:
    exchange = ClientGssapi(Context([b""]))
    exchange.first()
    with pytest.raises(AuthenticationError):
        exchange.respond(offer)

"""Tickets, with the real library and a key distribution centre of the tests' own."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from harness.processes.kerberos import SERVICE, Kerberos, missing
from kwire.security.kerberos import Acceptor, Initiator, default_realm, kerberos_login
from kwire.security.sasl.gssapi import GssContext, GssError

BROKER = f"{SERVICE}/localhost"
CHANGED_TOKENS = 2000


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with Kerberos(tmp_path_factory.mktemp("realm")) as realm, pytest.MonkeyPatch.context() as patch:
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        yield realm


def options(realm: Kerberos, keytab: str, principal: str) -> dict[str, str]:
    return {"useKeyTab": "true", "keyTab": str(realm.keytab(keytab)), "principal": realm.principal(principal)}


def acceptor(realm: Kerberos, principal: str = BROKER) -> Acceptor:
    return Acceptor(kerberos_login(options(realm, SERVICE, principal), SERVICE))


def client(realm: Kerberos, user: str = "alice", service: str = SERVICE) -> GssContext:
    return Initiator(kerberos_login(options(realm, user, user), service)).context("localhost")


def test_both_sides_know_each_other(realm: Kerberos) -> None:
    alice, broker = client(realm), acceptor(realm).context()
    assert alice.step(broker.step(alice.step(b""))) == b""
    assert (alice.complete, broker.complete) == (True, True)
    assert (alice.peer, broker.peer) == (realm.principal(BROKER), realm.principal("alice"))
    assert alice.unwrap(broker.wrap(b"message")) == b"message"
    with pytest.raises(GssError):
        alice.unwrap(broker.wrap(b"message")[:-1] + b"\0")
    assert default_realm() == "KWIRE.TEST"


def test_a_token_is_accepted_once(realm: Kerberos) -> None:
    token = client(realm).step(b"")
    acceptor(realm).context().step(token)
    with pytest.raises(GssError, match=r"^Request is a replay$"):
        acceptor(realm).context().step(token)


def test_changed_tokens_are_errors_of_the_login(realm: Kerberos) -> None:
    """Whatever a stranger sends, only `GssError` is raised, and nobody becomes another."""
    dice = random.Random(1)
    broker, token = acceptor(realm), client(realm).step(b"")
    seen: Counter[str] = Counter()
    for _ in range(CHANGED_TOKENS):
        changed = bytearray(token)
        for _ in range(dice.randint(0, 3)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        if dice.random() < 0.3:
            del changed[dice.randrange(len(changed)) :]
        context = broker.context()
        try:
            context.step(bytes(changed))
        except GssError as error:
            assert "\n" not in str(error)
            seen["refused"] += 1
        else:
            seen[context.peer if context.complete else "more"] += 1
    assert seen.keys() <= {"refused", "more", realm.principal("alice")}
    assert seen["refused"] > CHANGED_TOKENS * 0.9
    assert seen[realm.principal("alice")] <= 1  # the first that is unchanged where it counts; others are replays


@pytest.mark.parametrize("token", [b"", b"\x60", bytes(1000), bytes(range(256)) * 2000])
def test_what_is_no_token_is_an_error_of_the_login(realm: Kerberos, token: bytes) -> None:
    with pytest.raises(GssError):
        acceptor(realm).context().step(token)


def test_another_mechanism_of_the_library_is_refused(realm: Kerberos) -> None:
    import gssapi

    negotiation = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")  # SPNEGO
    credentials = gssapi.Credentials(usage="initiate", store={"ccache": f"FILE:{realm.ticket_cache('alice')}"})
    name = gssapi.Name(realm.principal(BROKER), gssapi.NameType.kerberos_principal)
    context = gssapi.SecurityContext(name=name, creds=credentials, usage="initiate", mech=negotiation)
    with pytest.raises(GssError):
        acceptor(realm).context().step(context.step())


def test_a_key_that_is_not_there_is_named(realm: Kerberos) -> None:
    with pytest.raises(GssError, match=r"^No key table entry found for kafka/other@KWIRE\.TEST$"):
        acceptor(realm, f"{SERVICE}/other")
    with pytest.raises(GssError, match=r"^Key table file '.*nobody\.keytab' not found$"):
        Acceptor(kerberos_login(options(realm, "nobody", BROKER), SERVICE))


def test_a_client_without_a_ticket_is_told_why(realm: Kerberos) -> None:
    with pytest.raises(GssError, match=r"^Server nosuch/localhost@KWIRE\.TEST not found in Kerberos database$"):
        client(realm, service="nosuch").step(b"")
    with pytest.raises(GssError):
        client(realm, "nobody")

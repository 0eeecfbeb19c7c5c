"""SCRAM against the RFC's example, an independent implementation (scramp), itself, and hostile messages."""

from __future__ import annotations

import base64
import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.security.errors import AuthenticationError, InvalidCredentials
from kwire.security.principals import ANONYMOUS, Principal
from kwire.security.sasl.scram import ClientScram, ScramLookup, ServerScram
from kwire.security.scram_credentials import (
    MECHANISMS,
    ScramCredential,
    ScramMechanism,
    make_credential,
    random_text,
)

SHA_256, SHA_512 = ScramMechanism
SECRET = b"a secret of the cluster"
USERS = {
    name: make_credential(SHA_256, f"{name}-secret", b"salt of " + name.encode(), 4096) for name in ("alice", "b,=b")
}
LOOKUP = ScramLookup(USERS.get, SECRET)


def randomness(seed: int = 0) -> Any:
    return random.Random(seed).randbytes


def server_for(mechanism: ScramMechanism = SHA_256, lookup: ScramLookup = LOOKUP, seed: int = 1) -> ServerScram:
    return ServerScram(mechanism, lookup, randomness(seed))


def login(client: ClientScram, server: ServerScram) -> None:
    client.respond(server.respond(client.respond(server.respond(client.first()))))


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize(("name", "password"), [("alice", "alice-secret"), ("b,=b", "p"), ("a=2Cb", "pä§\u0130")])
def test_both_sides_agree(mechanism: ScramMechanism, name: str, password: str) -> None:
    users = {name: make_credential(mechanism, password, b"some salt", 5000)}
    server = server_for(mechanism, ScramLookup(users.get, SECRET))
    client = ClientScram(mechanism, name, password, randomness())
    login(client, server)
    assert client.complete
    assert server.complete
    assert (server.principal, server.expires_ms, server.by_token) == (Principal("User", name), None, False)


def test_the_first_answer_has_the_form_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = {"user": make_credential(SHA_256, "pencil", salt, 4096)}
    first = server_for(lookup=ScramLookup(users.get, SECRET)).respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").decode()
    assert re.fullmatch(r"r=rOprNGfwEbeRWgbNEkqO[0-9a-z]{20,26},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", first)


@pytest.mark.parametrize("name", MECHANISMS)
def test_scramps_client_logs_in(name: str) -> None:
    scramp: Any = pytest.importorskip("scramp")
    mechanism = MECHANISMS[name]
    users = {"us,er=": make_credential(mechanism, "pencil", b"salt of 12 bytes", 4096)}
    server = server_for(mechanism, ScramLookup(users.get, SECRET))
    client = scramp.ScramClient([name], "us,er=", "pencil")
    client.set_server_first(server.respond(client.get_client_first().encode()).decode())
    client.set_server_final(server.respond(client.get_client_final().encode()).decode())
    assert server.principal == Principal("User", "us,er=")


@pytest.mark.parametrize("name", MECHANISMS)
def test_our_client_logs_in_to_scramps_server(name: str) -> None:
    scramp: Any = pytest.importorskip("scramp")
    made = scramp.ScramMechanism(name).make_auth_info("pencil", iteration_count=4096)
    server = scramp.ScramMechanism(name).make_server(lambda _: made)
    client = ClientScram(MECHANISMS[name], "user", "pencil", randomness())
    server.set_client_first(client.first().decode())
    server.set_client_final(client.respond(server.get_server_first().encode()).decode())
    client.respond(server.get_server_final().encode())
    assert client.complete


def test_credentials_are_those_of_scramp() -> None:
    scramp: Any = pytest.importorskip("scramp")
    made = scramp.ScramMechanism("SCRAM-SHA-512").make_auth_info(
        "pencil", iteration_count=8192, salt=b"salt of 12 bytes"
    )
    assert tuple(made) == (*make_credential(SHA_512, "pencil", b"salt of 12 bytes", 8192)[:3], 8192)


# -- who may not ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_an_unknown_user_fails_like_a_wrong_password(name: str) -> None:
    client, server = ClientScram(SHA_256, name, "wrong", randomness()), server_for()
    final = client.respond(server.respond(client.first()))
    with pytest.raises(InvalidCredentials) as raised:
        server.respond(final)
    assert str(raised.value) == "unknown user or wrong password"
    assert (server.complete, server.principal) == (False, ANONYMOUS)


def salt_of(name: str, lookup: ScramLookup = LOOKUP, seed: int = 1, token: bool = False) -> str:
    server = server_for(lookup=lookup, seed=seed)
    first = server.respond(f"n,,n={name},r=abc{',tokenauth=true' if token else ''}".encode()).decode()
    salt, iterations = first.split(",")[1:]
    assert iterations == "i=4096"
    return base64.b64decode(salt.removeprefix("s=")).decode()


def test_the_salt_of_an_unknown_user_is_always_the_same_and_looks_like_one() -> None:
    assert salt_of("nobody", seed=1) == salt_of("nobody", seed=2)
    assert re.fullmatch("[0-9a-z]{20,26}", salt_of("nobody"))
    other_cluster = ScramLookup(USERS.get, b"another secret")
    assert len({salt_of("nobody"), salt_of("nobody2"), salt_of("nobody", other_cluster)}) == 3


def test_the_iterations_of_unknown_users_are_those_of_the_others() -> None:
    lookup = LOOKUP._replace(iterations=(8192, 16384))

    def iterations(name: str, extension: str = "") -> str:
        first = server_for(lookup=lookup).respond(f"n,,n={name},r=abc{extension}".encode()).decode()
        return first.rpartition(",i=")[2]

    names = [f"nobody{number}" for number in range(40)]
    found = [iterations(name) for name in names]
    assert set(found) == {"8192", "16384"}
    assert found == [iterations(name) for name in names]
    assert {iterations(name, ",tokenauth=true") for name in names} == {"4096"}


def test_a_nonce_has_the_form_of_kafkas() -> None:

    texts = {random_text(randomness(seed)) for seed in range(1000)}
    assert len(texts) == 1000
    assert all(re.fullmatch("[0-9a-z]{20,26}", text) for text in texts)
    assert random_text(bytes) == "0"


def final_of(client: ClientScram, server: ServerScram) -> str:
    return client.respond(server.respond(client.first())).decode()


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"c=biws", "c=eSws"),  # y,,
        (r"c=biws", "c=" + base64.b64encode(b"n,a=alice,").decode()),
        (r"c=biws", "c="),
        (r"r=([^,]*)", r"r=\1x"),  # the right nonce and more
        (r"r=([^,]*).,", r"r=\1,"),  # a prefix of it
        (r"r=[^,]*", "r=forged"),
        (r"p=.*", "p="),
        (r"p=....", "p="),
        (r"p=(.*)", r"p=\1AAAA"),
        (r"p=....", "p=AAAA"),
        (r"p=", "x=y,p="),
        (r"^c=", "d="),
        (r"$", ",x=y"),
        (r"$", "\n"),
        (r"$", "\xff"),
    ],
)
def test_a_forged_last_message_is_refused(pattern: str, replacement: str) -> None:
    client, server = ClientScram(SHA_256, "alice", "alice-secret", randomness()), server_for()
    final = final_of(client, server)
    forged = re.sub(pattern, replacement, final, count=1)
    assert forged != final
    with pytest.raises(InvalidCredentials):
        server.respond(forged.encode("latin-1"))
    assert not server.complete


def test_a_last_message_is_not_good_for_another_login() -> None:
    client, server = ClientScram(SHA_256, "alice", "alice-secret", randomness()), server_for(seed=1)
    final = final_of(client, server)
    other = server_for(seed=2)
    other.respond(client.first())
    with pytest.raises(InvalidCredentials, match="nonce"):
        other.respond(final.encode())


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=alice",
        b"n,,n=alice,r=",
        b"n,,n=,r=abc",
        b"n,,n=al=ice,r=abc",
        b"n,,n=al=2cice,r=abc",
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=abc,",
        b"n,,n=alice,r=abc,x",
        b"n,,n=\xc3\xa9,r=abc",
        b"n,,n=al\0ice,r=abc",
        b"n,,m=must,n=alice,r=abc",
        b"y,,n=alice,r=abc",
        b"p=tls-exporter,,n=alice,r=abc",
        b"n,,r=abc,n=alice",
        b"n=alice,r=abc",
        b"\0alice\0alice-secret",
    ],
)
def test_a_malformed_first_message_is_refused(first: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        server_for().respond(first)


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_nobody_acts_as_another_user(name: str) -> None:
    with pytest.raises(AuthenticationError) as raised:
        server_for().respond(f"n,a=bob,n={name},r=abc".encode())
    assert "authorization id that is different from username" in str(raised.value)
    assert not isinstance(raised.value, InvalidCredentials)


def test_acting_as_oneself_is_allowed_and_bound_by_the_last_message() -> None:
    scramp: Any = pytest.importorskip("scramp")
    for binding, accepted in ((b"n,a=alice,", True), (b"n,,", False)):
        server = server_for()
        bare = "n=alice,r=abc"
        first = server.respond(f"n,a=alice,{bare}".encode()).decode()
        without_proof = f"c={base64.b64encode(binding).decode()},r={first.split(',')[0][2:]}"
        signed = f"{bare},{first},{without_proof}".encode()
        salted = SHA_256.salted_password("alice-secret", USERS["alice"].salt, 4096)
        key = SHA_256.hmac(salted, b"Client Key")
        proof = scramp.utils.xor(key, SHA_256.hmac(USERS["alice"].stored_key, signed))
        final = f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
        if accepted:
            server.respond(final)
        else:
            with pytest.raises(InvalidCredentials, match="channel binding"):
                server.respond(final)
        assert server.complete == accepted


def test_a_credential_with_too_few_iterations_is_of_no_use() -> None:
    weak = {"alice": make_credential(SHA_256, "p", b"salt", 4095)}
    with pytest.raises(InvalidCredentials, match="4095"):
        server_for(lookup=ScramLookup(weak.get, SECRET)).respond(b"n,,n=alice,r=abc")


# -- delegation tokens ----------------------------------------------------------------------------------------------


class Tokens:
    """One token of alice."""

    def credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential | None:
        return make_credential(mechanism, "hmac", b"salt", 4096) if token_id == "token" else None

    def owner(self, token_id: str) -> Principal | None:
        return Principal("User", "alice") if token_id == "token" else None

    def expires_ms(self, token_id: str) -> int | None:
        return 1234 if token_id == "token" else None


WITH_TOKENS = ScramLookup(USERS.get, SECRET, Tokens())


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_token_logs_in_its_owner(mechanism: ScramMechanism) -> None:
    server = server_for(mechanism, WITH_TOKENS)
    login(ClientScram(mechanism, "token", "hmac", randomness(), by_token=True), server)
    assert (server.principal, server.expires_ms, server.by_token) == (Principal("User", "alice"), 1234, True)


@pytest.mark.parametrize("lookup", [LOOKUP, WITH_TOKENS])
@pytest.mark.parametrize(
    ("name", "password", "by_token"),
    [("other", "hmac", True), ("alice", "alice-secret", True), ("token", "hmac", False)],
)
def test_tokens_are_no_users_and_users_no_tokens(lookup: ScramLookup, name: str, password: str, by_token: bool) -> None:
    server = server_for(lookup=lookup)
    with pytest.raises(InvalidCredentials, match="unknown user or wrong password"):
        login(ClientScram(SHA_256, name, password, randomness(), by_token), server)


def test_an_unknown_token_gets_a_salt_too() -> None:
    assert salt_of("unknown", WITH_TOKENS, token=True) == salt_of("unknown", WITH_TOKENS, seed=2, token=True)


@pytest.mark.parametrize(
    ("extension", "by_token"),
    [("tokenauth=TRUE", True), ("tokenauth=yes", False), ("x=tokenauth=true", False), ("x=y,tokenauth=true", True)],
)
def test_the_extension_of_tokens_is_read_as_in_java(extension: str, by_token: bool) -> None:
    server = server_for(lookup=WITH_TOKENS)
    first = server.respond(f"n,,n=token,r=abc,{extension}".encode()).decode()
    assert (f"s={base64.b64encode(b'salt').decode()}" in first) == by_token


# -- the client's side ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        ("r=forged123,s=c2FsdA==,i=4096", "nonce"),
        ("r={nonce},s=c2FsdA==,i=4096", "nonce"),
        ("r={nonce}x,s=c2FsdA==,i=4095", "iterations"),
        ("r={nonce}x,s=c2FsdA==,i=16385", "iterations"),
        ("r={nonce}x,s=c2FsdA==,i=99999999999999999999", "malformed"),
        ("r={nonce}x,s=c2Fsd,i=4096", "malformed"),
        ("r={nonce}x,s=c2FsdA==", "malformed"),
        ("", "malformed"),
    ],
)
def test_the_client_refuses_a_forged_challenge(challenge: str, reason: str) -> None:
    client = ClientScram(SHA_256, "alice", "p", randomness())
    nonce = client.first().decode().split("r=")[1]
    with pytest.raises(AuthenticationError, match=reason):
        client.respond(challenge.format(nonce=nonce).encode())


@pytest.mark.parametrize(
    ("final", "reason"),
    [(b"v=AAAA", "signature"), (b"e=other-error", "other-error"), (b"v=", "signature"), (b"", "malf")],
)
def test_the_client_does_not_trust_a_server_that_does_not_know_the_password(final: bytes, reason: str) -> None:
    client, server = ClientScram(SHA_256, "alice", "alice-secret", randomness()), server_for()
    client.respond(server.respond(client.first()))
    with pytest.raises(AuthenticationError, match=reason):
        client.respond(final)
    assert not client.complete


# -- anything at all --------------------------------------------------------------------------------------------------

PIECES = st.lists(
    st.sampled_from(
        [
            "n,,",
            "n,a=alice,",
            "n=",
            "alice",
            ",",
            "r=",
            "abc",
            "=2C",
            "=",
            "tokenauth=true",
            "c=biws",
            "p=",
            "AAAA",
            "\0",
        ]
    )
    | st.text(max_size=3),
    max_size=12,
).map(lambda pieces: "".join(pieces).encode("utf-8", "surrogatepass"))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=40) | PIECES, min_size=1, max_size=3))
def test_any_messages_are_answered_or_refused(messages: list[bytes]) -> None:
    server = server_for(lookup=WITH_TOKENS)
    try:
        for message in messages:
            server.respond(message)
    except AuthenticationError:
        pass
    assert not server.complete


def test_a_message_is_not_longer_than_16_kib() -> None:
    for length in (16_384, 16_385):
        text = "n,,n=alice,r=" + "x" * (length - len("n,,n=alice,r="))
        if length == 16_384:
            assert server_for().respond(text.encode())
        else:
            with pytest.raises(InvalidCredentials, match="16385 bytes"):
                server_for().respond(text.encode())


@pytest.mark.parametrize("text", ["n,,n=" + "=2C" * 5000, "n,,n=a,r=b" + ",a=b" * 4000 + ",", "n,," + "m=" * 8000])
def test_a_long_message_does_not_take_long(text: str) -> None:
    """Patterns do not go back and forth: that would take for ever."""
    with pytest.raises(InvalidCredentials):
        server_for().respond(text.encode())

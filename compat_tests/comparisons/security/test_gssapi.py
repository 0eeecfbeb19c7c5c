"""Logins with Kerberos tickets, token by token: the right ones, and those of a client that is wrong or hostile."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from compat_tests.comparisons.security.sasl import CLOSED, Conversation
from compat_tests.needs import need
from compat_tests.servers import running
from harness.observations import Observations
from harness.processes.kerberos import SERVICE, Kerberos, missing
from harness.processes.secured import make_secured
from kwire.codec.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kwire.codec.messages.metadata_request import MetadataRequest

with contextlib.suppress(ImportError):  # the fixture `scene` says that it is missing
    import gssapi

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
BROKER = f"{SERVICE}/localhost"
NO_LAYER = b"\1\0\0\0"
RULES = "RULE:[1:$1@$0](bob@.*)s/.*/robert/,RULE:[1:$1@$0](alice@.*)s/@.*//"
MUTUAL = "mutual_authentication"
INTEGRITY = "integrity"


class Scene(NamedTuple):
    """A realm, and the address of a broker in it."""

    realm: Kerberos
    bootstrap: str


@pytest.fixture(scope="module")
def scene(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    need(missing())
    with Kerberos(tmp_path_factory.mktemp(f"realm-{broker_kind}")) as realm, pytest.MonkeyPatch.context() as patch:
        realm.add("dora", ["dora"])
        realm.add("other", [f"{SERVICE}/other"])
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        java = [os.environ.get("JAVA_TOOL_OPTIONS", ""), *realm.java_options]
        patch.setenv("JAVA_TOOL_OPTIONS", " ".join(java).strip())
        login = f'useKeyTab=true storeKey=true keyTab="{realm.keytab(SERVICE)}" principal="{realm.principal(BROKER)}"'
        settings = {
            "sasl.enabled.mechanisms": "PLAIN,GSSAPI",
            "sasl.kerberos.service.name": SERVICE,  # Kafka wants it for PLAIN's login module, too
            "sasl.kerberos.principal.to.local.rules": RULES,
            "delegation.token.secret.key": "the secret of the tests",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": f"{MODULE} required {login};",
            "listener.name.sasl_plaintext.gssapi.connections.max.reauth.ms": "60000",
        }
        for listener in ("sasl_ssl", "reauth"):
            settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] = "PLAIN"
        broker = make_secured(broker_kind, tmp_path_factory.mktemp(f"gssapi-{broker_kind}"), settings)
        with running(broker, broker.kill):
            yield Scene(realm, broker.address("SASL_PLAINTEXT"))


class Client:
    """A client's context, with a ticket of a user."""

    def __init__(
        self, realm: Kerberos, user: str = "alice", flags: tuple[str, ...] = (MUTUAL, INTEGRITY), target: str = BROKER
    ) -> None:
        store = {"ccache": f"FILE:{realm.ticket_cache(user)}"}
        name = gssapi.Name(realm.principal(target), gssapi.NameType.kerberos_principal)
        mechanism = gssapi.MechType.kerberos
        self.credentials = gssapi.Credentials(usage="initiate", store=store)
        self.context = gssapi.SecurityContext(
            name=name,
            creds=self.credentials,
            usage="initiate",
            mech=mechanism,
            flags=[gssapi.RequirementFlag[each] for each in flags],
        )

    def first(self) -> bytes:
        return bytes(self.context.step())

    def wrapped(self, message: bytes) -> bytes:
        return bytes(self.context.wrap(message, False).message)

    def log_in(self, talk: Conversation, choice: bytes = NO_LAYER, version: int = 1) -> list[bytes]:
        """The whole login, up to the answer to the last token, which is not read after a handshake of version 0.
        Returns the client's tokens."""
        talk.handshake("GSSAPI", version)
        tokens = [self.first()]
        challenge = talk.say(tokens[-1], version)
        assert challenge is not None
        if not self.context.complete:
            assert not self.context.step(challenge)
            tokens.append(b"")
            challenge = talk.say(b"", version)
            assert challenge is not None
        offer = self.context.unwrap(challenge).message
        talk.said.append(offer)
        tokens.append(self.wrapped(choice))
        if version == 1:
            talk.authenticate(tokens[-1])
        return tokens


def who(talk: Conversation) -> None:
    """Note the user that the broker takes this client for."""
    talk.said.append(talk.call(CreateDelegationTokenRequest(max_lifetime_ms=60_000), 3))
    response = talk.said.pop()
    talk.said.pop()
    talk.said.append(CLOSED if response == CLOSED else (response.principal_type, response.principal_name))


def logged_in(user: str = "alice", choice: bytes = NO_LAYER, *flags: str) -> Callable[[Conversation, Kerberos], None]:
    def conversation(talk: Conversation, realm: Kerberos) -> None:
        Client(realm, user, flags or (MUTUAL, INTEGRITY)).log_in(talk, choice)
        who(talk)

    return conversation


def raw_tokens(talk: Conversation, realm: Kerberos) -> None:
    client = Client(realm)
    tokens = client.log_in(talk, version=0)
    talk._client.socket.sendall(len(tokens[-1]).to_bytes(4, "big") + tokens[-1])
    who(talk)


def repeated(talk: Conversation, realm: Kerberos) -> None:
    """Another login, on the same connection."""
    Client(realm).log_in(talk)
    Client(realm).log_in(talk)
    who(talk)


def repeated_by_another(talk: Conversation, realm: Kerberos) -> None:
    Client(realm).log_in(talk)
    Client(realm, "bob").log_in(talk)
    who(talk)


def first_token(change: Callable[[bytes], bytes], target: str = BROKER) -> Callable[[Conversation, Kerberos], None]:
    """A first token that is not what a client would send."""

    def conversation(talk: Conversation, realm: Kerberos) -> None:
        talk.handshake("GSSAPI")
        talk.authenticate(change(Client(realm, target=target).first()))

    return conversation


def flipped(position: int) -> Callable[[bytes], bytes]:
    return lambda token: token[:position] + bytes([token[position] ^ 1]) + token[position + 1 :]


def last_token(change: Callable[[Client], bytes]) -> Callable[[Conversation, Kerberos], None]:
    """A last token that is not what a client would send."""

    def conversation(talk: Conversation, realm: Kerberos) -> None:
        client = Client(realm)
        talk.handshake("GSSAPI")
        challenge = talk.say(client.first(), 1)
        assert challenge is not None
        client.context.step(challenge)
        challenge = talk.say(b"", 1)
        assert challenge is not None
        talk.authenticate(change(client))
        talk.call(MetadataRequest(topics=[]), 9)

    return conversation


def no_offer(talk: Conversation, realm: Kerberos) -> None:
    """The choice before the offer."""
    client = Client(realm)
    talk.handshake("GSSAPI")
    challenge = talk.say(client.first(), 1)
    assert challenge is not None
    client.context.step(challenge)
    talk.authenticate(client.wrapped(NO_LAYER))


def spnego(talk: Conversation, realm: Kerberos) -> None:
    talk.handshake("GSSAPI")
    client = Client(realm)
    mechanism = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")
    name = gssapi.Name(realm.principal(BROKER), gssapi.NameType.kerberos_principal)
    context = gssapi.SecurityContext(name=name, creds=client.credentials, usage="initiate", mech=mechanism)
    talk.authenticate(bytes(context.step()))


def a_request_between(talk: Conversation, realm: Kerberos) -> None:
    talk.handshake("GSSAPI")
    talk.say(Client(realm).first(), 1)
    talk.call(MetadataRequest(topics=[]), 9)


CONVERSATIONS: dict[str, Callable[[Conversation, Kerberos], None]] = {
    "a ticket": logged_in(),
    "a rule": logged_in("bob"),
    "without mutual authentication": logged_in("alice", NO_LAYER, INTEGRITY),
    "raw tokens": raw_tokens,
    "authorization id: oneself": logged_in(choice=NO_LAYER + b"alice"),
    "authorization id: full name": logged_in(choice=NO_LAYER + b"alice@KWIRE.TEST"),
    "authorization id: the broker, as Python's clients": logged_in(choice=NO_LAYER + b"kafka@localhost"),
    "authorization id: another": logged_in(choice=NO_LAYER + b"bob"),
    "authorization id: not UTF-8": logged_in(choice=NO_LAYER + b"\xff\xfe"),
    "a size": logged_in(choice=b"\1\xff\xff\xff"),
    "all layers": logged_in(choice=b"\7\0\0\0"),
    "reauthentication": repeated,
    "reauthentication as another": repeated_by_another,
    "no first token": first_token(lambda _: b""),
    "garbage": first_token(lambda _: bytes(range(256))),
    "half a token": first_token(lambda token: token[: len(token) // 2]),
    "a token without its end": first_token(lambda token: token[:-1]),
    "a forged ticket": first_token(flipped(300)),
    "a forged authenticator": first_token(flipped(-3)),
    "400 KiB": first_token(lambda _: bytes(400 * 1024)),
    "a ticket for another broker": first_token(lambda token: token, f"{SERVICE}/other"),
    "a ticket for a user": first_token(lambda token: token, "bob"),
    "SPNEGO": spnego,
    "no offer": no_offer,
    "layer: integrity": last_token(lambda client: client.wrapped(b"\2\0\0\0")),
    "layer: encryption": last_token(lambda client: client.wrapped(b"\4\0\0\0")),
    "layer: none at all": last_token(lambda client: client.wrapped(bytes(4))),
    "not wrapped": last_token(lambda _: NO_LAYER),
    "forged wrapping": last_token(lambda client: flipped(-1)(client.wrapped(NO_LAYER))),
    "no choice": last_token(lambda _: b""),
    "a request between tokens": a_request_between,
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation(scene: Scene, observe: Observations, name: str) -> None:
    with Conversation(scene.bootstrap) as talk:
        CONVERSATIONS[name](talk, scene.realm)
        observe(name, talk.said)


@pytest.mark.parametrize("flags", [(INTEGRITY,), (MUTUAL, INTEGRITY)])
def test_a_recorded_login_cannot_be_repeated(scene: Scene, flags: tuple[str, ...]) -> None:
    with Conversation(scene.bootstrap) as talk:
        tokens = Client(scene.realm, flags=flags).log_in(talk)
    with Conversation(scene.bootstrap) as thief:
        thief.handshake("GSSAPI")
        assert thief.say(tokens[0], 1) is None, thief.said


def test_a_user_whom_no_rule_names_is_not_let_in(scene: Scene) -> None:
    """Kafka reports success, and closes the connection at the first request."""
    with Conversation(scene.bootstrap) as talk:
        Client(scene.realm, "dora").log_in(talk)
        assert talk.call(MetadataRequest(topics=[]), 9) == CLOSED

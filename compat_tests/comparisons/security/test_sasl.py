"""The sequence of requests before, during and after a login on a SASL listener."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from compat_tests.comparisons.security.sasl import ALICE, Conversation
from compat_tests.servers import running
from harness.observations import Observations
from harness.processes.brokers import Broker
from harness.processes.secured import make_secured
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.create_topics_request import CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.security.sasl.scram import ClientScram
from kwire.security.scram_credentials import ScramMechanism

VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
UNNAMED = ApiVersionsRequest(client_software_name="", client_software_version="1")
SCRAM = "SCRAM-SHA-256"
ENDING = ScramMechanism.SHA_512
"""Its logins last a second, those of PLAIN a minute, and those of SCRAM-SHA-256 have no end."""
ENDING_S = 1.1


def header(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 7, -1)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def logged_in(talk: Conversation) -> None:
    talk.call(MetadataRequest(topics=[]), 9)


def plain(talk: Conversation) -> None:
    talk.call(VERSIONS, 3)
    talk.handshake()
    talk.authenticate()
    logged_in(talk)


def plain_v0(talk: Conversation) -> None:
    talk.handshake()
    talk.authenticate(version=0)
    logged_in(talk)


def plain_v1(talk: Conversation) -> None:
    talk.handshake()
    talk.authenticate(version=1)
    logged_in(talk)


def raw_tokens(talk: Conversation) -> None:
    talk.handshake(version=0)
    talk.token(ALICE)
    logged_in(talk)


def raw_token_refused(talk: Conversation) -> None:
    talk.handshake(version=0)
    talk.token(b"\0alice\0wrong")


def empty_raw_token(talk: Conversation) -> None:
    talk.handshake(version=0)
    talk.token(b"")


def a_request_as_raw_token(talk: Conversation) -> None:
    talk.handshake(version=0)
    talk.authenticate()


def authz(talk: Conversation) -> None:
    talk.handshake()
    talk.authenticate(b"alice\0alice\0alice-secret")
    logged_in(talk)


def other_authz(talk: Conversation) -> None:
    talk.handshake()
    talk.authenticate(b"bob\0alice\0alice-secret")
    logged_in(talk)


def token(text: bytes, version: int = 2) -> Callable[[Conversation], None]:
    def conversation(talk: Conversation) -> None:
        talk.handshake()
        talk.authenticate(text, version)
        logged_in(talk)

    return conversation


def first(*requests: tuple[object, int]) -> Callable[[Conversation], None]:
    def conversation(talk: Conversation) -> None:
        for request, version in requests:
            talk.call(request, version)  # type: ignore[arg-type] # all are messages

    return conversation


def bytes_first(data: bytes) -> Callable[[Conversation], None]:
    def conversation(talk: Conversation) -> None:
        talk.raw(data)

    return conversation


def between(request: object, version: int) -> Callable[[Conversation], None]:
    """A request between handshake and token."""

    def conversation(talk: Conversation) -> None:
        talk.handshake()
        talk.call(request, version)  # type: ignore[arg-type] # a message
        talk.authenticate()

    return conversation


def versions_twice(talk: Conversation) -> None:
    talk.call(VERSIONS, 3)
    talk.call(VERSIONS, 3)


def versions_wrong_then_right(talk: Conversation) -> None:
    talk.raw(framed(header(18, 99) + b"\0"))
    talk.call(UNNAMED, 3)
    talk.call(VERSIONS, 4)
    talk.handshake()
    talk.authenticate()
    logged_in(talk)


def unknown_mechanism(talk: Conversation) -> None:
    talk.handshake("GSSAPI")
    talk.authenticate()


def unknown_mechanism_v0(talk: Conversation) -> None:
    talk.handshake("plain", 0)
    talk.token(ALICE)


def handshake_twice(talk: Conversation) -> None:
    talk.handshake()
    talk.handshake()


def in_vain(talk: Conversation) -> None:
    """A login of a mechanism whose logins do not end is not repeated."""
    scram_login(talk)
    talk.handshake(SCRAM)
    talk.authenticate()
    logged_in(talk)


def scram_login(talk: Conversation, version: int = 1, mechanism: ScramMechanism = ScramMechanism.SHA_256) -> None:
    """What the messages contain is random, so only their success is compared."""
    client = ClientScram(mechanism, "alice", "alice-secret", random.Random(1).randbytes)
    talk.handshake(mechanism.mechanism_name, version)
    challenge = talk.say(client.first(), version)
    assert challenge is not None
    last = talk.say(client.respond(challenge), version)
    assert last is not None
    client.respond(last)


def scram_logged_in(talk: Conversation) -> None:
    scram_login(talk)
    logged_in(talk)


def scram_raw(talk: Conversation) -> None:
    scram_login(talk, 0)
    logged_in(talk)


def scram_wrong_password(talk: Conversation) -> None:
    client = ClientScram(ScramMechanism.SHA_256, "alice", "wrong", random.Random(1).randbytes)
    talk.handshake(SCRAM)
    challenge = talk.say(client.first(), 1)
    assert challenge is not None
    talk.authenticate(client.respond(challenge))


def after_the_end(talk: Conversation) -> None:
    scram_login(talk, mechanism=ENDING)
    time.sleep(ENDING_S)
    logged_in(talk)


def again_after_the_end(talk: Conversation) -> None:
    scram_login(talk, mechanism=ENDING)
    time.sleep(ENDING_S)
    scram_login(talk, mechanism=ENDING)


def reauthenticate(talk: Conversation) -> None:
    talk.handshake()
    talk.authenticate()
    talk.handshake()
    talk.authenticate()
    logged_in(talk)


def reauthenticate_as(mechanism: str, text: bytes) -> Callable[[Conversation], None]:
    def conversation(talk: Conversation) -> None:
        talk.handshake()
        talk.authenticate()
        talk.handshake(mechanism)
        talk.authenticate(text)
        logged_in(talk)

    return conversation


def request_in_reauthentication(talk: Conversation) -> None:
    talk.handshake()
    talk.authenticate()
    talk.handshake()
    logged_in(talk)
    talk.authenticate()


def raw_reauthentication(talk: Conversation) -> None:
    talk.handshake()
    talk.authenticate()
    talk.handshake(version=0)
    talk.token(ALICE)
    logged_in(talk)


def scram(text: bytes) -> Callable[[Conversation], None]:
    def conversation(talk: Conversation) -> None:
        talk.handshake(SCRAM)
        talk.authenticate(text)

    return conversation


ALONE = {
    "SaslHandshake": lambda talk: (talk.handshake(version=0), talk.handshake(), None)[2],
    "SaslAuthenticate": lambda talk: (talk.authenticate(version=0), talk.authenticate(), None)[2],
}
"""Requests to a listener without SASL."""

TOPIC = [MetadataRequestTopic(name="topic")]
CONVERSATIONS = {
    "plain": plain,
    "plain, version 0": plain_v0,
    "plain, version 1": plain_v1,
    "raw tokens": raw_tokens,
    "raw token refused": raw_token_refused,
    "empty raw token": empty_raw_token,
    "a request as raw token": a_request_as_raw_token,
    "acting as oneself": authz,
    "acting as another": other_authz,
    "wrong password": token(b"\0alice\0wrong"),
    "wrong password, version 0": token(b"\0alice\0wrong", 0),
    "unknown user": token(b"\0nobody\0alice-secret"),
    "no user": token(b"\0\0alice-secret"),
    "no password": token(b"\0alice\0"),
    "empty token": token(b""),
    "a token without separators": token(b"alice"),
    "a fourth field": token(ALICE + b"\0more"),
    "metadata first": first((MetadataRequest(), 9)),
    "metadata after versions": first((VERSIONS, 3), (MetadataRequest(), 9)),
    "authenticate first": lambda talk: (talk.authenticate(), None)[1],
    "versions 0 first": first((VERSIONS, 0), (VERSIONS, 0)),
    "versions twice": versions_twice,
    "versions, wrong then right": versions_wrong_then_right,
    "handshake 2": bytes_first(framed(header(17, 2) + b"\0\0")),
    "unknown key": bytes_first(framed(header(999, 0))),
    "half a header": bytes_first(framed(b"\0\x12\0")),
    "an empty frame": bytes_first(framed(b"")),
    "a negative size": bytes_first(struct.pack(">i", -1)),
    "a large size": bytes_first(struct.pack(">i", 524_289)),
    "HTTP": bytes_first(b"GET / HTTP/1.1\r\n\r\n"),
    "TLS": bytes_first(bytes.fromhex("160301020001") + bytes(100)),
    "GSSAPI without a handshake": bytes_first(framed(b"\x60\x82\x02\x00" + bytes(60))),
    "malformed handshake": bytes_first(framed(header(17, 1) + b"\x7f\xff")),
    "unknown mechanism": unknown_mechanism,
    "unknown mechanism, version 0": unknown_mechanism_v0,
    "handshake twice": handshake_twice,
    "metadata between": between(MetadataRequest(topics=TOPIC), 9),
    "versions between": between(VERSIONS, 3),
    "find coordinator between": between(FindCoordinatorRequest(coordinator_keys=["a", "b"]), 4),
    "heartbeat between": between(HeartbeatRequest(group_id="g", member_id="m"), 4),
    "list groups between": between(ListGroupsRequest(), 4),
    "create topics between": between(CreateTopicsRequest(), 7),
    "fetch between": between(FetchRequest(), 4),
    "authenticate 3": lambda talk: (talk.handshake(), talk.raw(framed(header(36, 3) + b"\0\0\0")), None)[2],
    "malformed authenticate": lambda talk: (talk.handshake(), talk.raw(framed(header(36, 1) + b"\x7f\xff")), None)[2],
    "scram, malformed": scram(b"n,,n=nobody,r=abc\0"),
    "scram, empty": scram(b""),
    "scram, channel binding": scram(b"p=tls-unique,,n=nobody,r=abc"),
    "scram": scram_logged_in,
    "scram, raw tokens": scram_raw,
    "scram, wrong password": scram_wrong_password,
    "handshake after a login without an end": in_vain,
    "a request after the end": after_the_end,
    "reauthentication after the end": again_after_the_end,
    "reauthentication": reauthenticate,
    "reauthentication as another": reauthenticate_as("PLAIN", b"\0bob\0bob-secret"),
    "reauthentication with a wrong password": reauthenticate_as("PLAIN", b"\0alice\0wrong"),
    "reauthentication without a password": reauthenticate_as("PLAIN", b"\0alice\0"),
    "reauthentication with another mechanism": reauthenticate_as(SCRAM, b"n,,n=alice,r=abc"),
    "reauthentication with an unknown mechanism": reauthenticate_as("OTHER", b""),
    "a request in a reauthentication": request_in_reauthentication,
    "raw reauthentication": raw_reauthentication,
}


@pytest.fixture(scope="module")
def sasl_listener(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a SASL_PLAINTEXT listener whose logins end as `ENDING` says."""
    settings = {
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "60000",
        "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": "1000",
    }
    broker = make_secured(broker_kind, tmp_path_factory.mktemp(f"sasl-{broker_kind}"), settings)
    with running(broker, broker.kill):
        yield broker.address("SASL_PLAINTEXT")


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation(sasl_listener: str, observe: Observations, name: str) -> None:
    with Conversation(sasl_listener) as talk:
        CONVERSATIONS[name](talk)
        observe(name, talk.said)


@pytest.mark.parametrize("name", ALONE)
def test_a_listener_without_sasl(broker: Broker, observe: Observations, name: str) -> None:
    with Conversation(broker.bootstrap) as talk:
        ALONE[name](talk)
        observe(name, talk.said)

"""Strangers at the listeners with SASL: what each gets is stated here, for both brokers.

Where kwire deliberately answers otherwise than Apache Kafka, the test says so and why. The sequences of a login that
both brokers answer alike are compared in `test_sasl`.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator

import pytest

from compat_tests.comparisons.security.stranger import CLIENT_NONCE, CLOSED, ForgedScram, ServerFirst, Stranger
from harness.processes.secured import ITERATIONS, MECHANISMS, SCRAM, SESSION_MS, USERS, SecuredBroker
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.codec.protocol import ApiKey

UNSUPPORTED_MECHANISM = 33
ILLEGAL_STATE = 34
FAILED = 58
RECEIVE_MAX = 524_288  # sasl.server.max.receive.size
ALICE = b"\0alice\0alice-secret"
METADATA = MetadataRequest(topics=[])
VERSIONS = ApiVersionsRequest(client_software_name="stranger", client_software_version="1")
LISTENERS = ["SASL_PLAINTEXT", "SASL_SSL"]
AUTHORIZATION = "Authentication failed: Client requested an authorization id that is different from username"


def invalid(mechanism: str) -> str:
    """The text for an unknown user, a wrong password and everything else that must not be told apart."""
    return f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture(params=LISTENERS)
def stranger(request: pytest.FixtureRequest, secured: SecuredBroker) -> Iterator[Stranger]:
    """A connection to each listener with SASL."""
    with Stranger.at(secured, request.param) as one:
        yield one


def test_before_a_login_every_api_but_two_closes_the_connection(secured: SecuredBroker) -> None:
    served = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}
    connections = {key: Stranger.at(secured, "SASL_PLAINTEXT") for key in ApiKey if key not in served}
    for key, each in connections.items():
        each.send(struct.pack(">ihhih8s", 18, key, 0, 1, 8, b"stranger"))
    answered = [key.name for key, each in connections.items() if not each.is_closed()]
    for each in connections.values():
        each.socket.close()
    assert answered == []


def test_a_request_between_handshake_and_token_is_refused_and_nothing_is_told(stranger: Stranger) -> None:
    stranger.handshake("PLAIN")
    answer = stranger.call(MetadataRequest(topics=None), 9)
    assert (answer.brokers, answer.topics, answer.cluster_id) == ([], [], None)
    assert stranger.is_closed()


def test_what_is_sent_behind_a_wrong_password_is_not_served(stranger: Stranger) -> None:
    handshake, token = SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
    sent = [stranger.post(handshake, 1), stranger.post(token, 2), stranger.post(METADATA, 9)]
    assert stranger.answer(handshake, 1, sent[0]).error_code == 0
    assert stranger.answer(token, 2, sent[1]).error_code == FAILED
    assert stranger.is_closed()


def test_what_is_sent_behind_a_right_password_is_served(stranger: Stranger) -> None:
    handshake, token = SaslHandshakeRequest(mechanism="PLAIN"), SaslAuthenticateRequest(auth_bytes=ALICE)
    sent = [stranger.post(handshake, 1), stranger.post(token, 2), stranger.post(METADATA, 9)]
    assert stranger.answer(handshake, 1, sent[0]).error_code == 0
    assert stranger.answer(token, 2, sent[1]).error_code == 0
    assert stranger.answer(METADATA, 9, sent[2]).brokers


def test_a_login_may_come_byte_by_byte(secured: SecuredBroker) -> None:
    with Stranger.without_tls(secured, "SASL_PLAINTEXT") as slow:
        handshake = struct.pack(">ihhih8sh5s", 25, ApiKey.SASL_HANDSHAKE, 1, 1, 8, b"stranger", 5, b"PLAIN")
        for index in range(len(handshake)):
            slow.send(handshake[index : index + 1])
        assert slow.frame() is not None
        assert slow.authenticate(ALICE).error_code == 0


@pytest.mark.parametrize(
    "data",
    [struct.pack(">i", size) for size in (-1, -(2**31), RECEIVE_MAX + 1, 600 * 1024, 2**31 - 1)]
    + [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes.fromhex("1603010200010001fc0303") + b"\x55" * 300],
    ids=["negative", "least", "over the limit", "600 KiB", "most", "HTTP", "TLS"],
)
def test_a_size_outside_the_limits_closes_the_connection_before_the_frame_is_read(
    stranger: Stranger, data: bytes
) -> None:
    stranger.send(data)
    assert stranger.is_closed()


def test_a_token_within_the_limit_is_read_and_a_larger_one_is_not(secured: SecuredBroker) -> None:
    for size, expected in ((RECEIVE_MAX - 40, FAILED), (RECEIVE_MAX, None), (600 * 1024, None)):
        with Stranger.at(secured, "SASL_SSL") as one:
            one.handshake("PLAIN")
            answer = one.authenticate(b"x" * size)
            assert (None if answer == CLOSED else answer.error_code) == expected
            assert one.is_closed()


@pytest.mark.parametrize("mechanism", ["", "plain", "SCRAM-SHA-1", "GSSAPI", "ANONYMOUS", "x" * 30_000])
def test_an_unknown_mechanism_is_told_the_known_ones_once(stranger: Stranger, mechanism: str) -> None:
    answer = stranger.handshake(mechanism)
    assert (answer.error_code, sorted(answer.mechanisms)) == (UNSUPPORTED_MECHANISM, sorted(MECHANISMS))
    assert stranger.is_closed()


def test_a_listener_without_sasl_takes_no_handshake_and_goes_on(secured: SecuredBroker) -> None:
    for listener in ("PLAINTEXT", "SSL", "MTLS"):
        with Stranger.at(secured, listener) as one:
            assert one.handshake("PLAIN").error_code == ILLEGAL_STATE
            assert one.call(METADATA, 9).brokers


PLAIN_TOKENS = {
    b"bob\0alice\0alice-secret": AUTHORIZATION,
    b"\0bob\0alice-secret": "Authentication failed: Invalid username or password",
    b"\0nobody\0alice-secret": "Authentication failed: Invalid username or password",
    b"\0alice\0Alice-secret": "Authentication failed: Invalid username or password",
    b"\0alice\0": "Authentication failed: password not specified",
    b"\0\0alice-secret": "Authentication failed: username not specified",
    b"\0\xff\xfe\0alice-secret": "Authentication failed: Invalid username or password",
    b"": "Invalid SASL/PLAIN response: expected 3 tokens, got 1",
    b"alice": "Invalid SASL/PLAIN response: expected 3 tokens, got 1",
    ALICE + b"\0more": "Invalid SASL/PLAIN response: expected 3 tokens, got 4",
}


@pytest.mark.parametrize("token", PLAIN_TOKENS)
def test_a_wrong_plain_token_is_refused(secured: SecuredBroker, token: bytes) -> None:
    with Stranger.at(secured, "SASL_SSL") as one:
        one.handshake("PLAIN")
        answer = one.authenticate(token)
        assert (answer.error_code, answer.error_message) == (FAILED, PLAIN_TOKENS[token])
        assert one.is_closed()


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize("header", ["n,,", "n,a=alice,"])
def test_a_right_scram_login_is_let_in(stranger: Stranger, mechanism: str, header: str) -> None:
    answer = ForgedScram(mechanism, header=header).log_in(stranger)
    assert (answer.error_code, bytes(answer.auth_bytes)[:2]) == (0, b"v=")
    assert stranger.call(METADATA, 9).brokers


FORGERIES = {
    "a wrong password": ForgedScram(password="Alice-secret"),
    "another's password": ForgedScram(password=USERS["bob"]),
    "an unknown user": ForgedScram(user="nobody"),
    "no user": ForgedScram(user=""),
    "a user with a bad escape": ForgedScram(user="al=69ce"),
    "the client's nonce alone": ForgedScram(nonce=lambda _: CLIENT_NONCE),
    "the server's nonce alone": ForgedScram(nonce=lambda nonce: nonce.removeprefix(CLIENT_NONCE)),
    # librdkafka before 2.6.1 did this, and Kafka let it in before 3.8.1 (CVE-2024-56128).
    "a nonce with a prefix": ForgedScram(nonce=lambda nonce: CLIENT_NONCE + nonce),
    "a nonce that is longer": ForgedScram(nonce=lambda nonce: nonce + "x"),
    "a nonce that is shorter": ForgedScram(nonce=lambda nonce: nonce[:-1]),
    "a proof of zeros": ForgedScram(proof=lambda proof: bytes(len(proof))),
    "no proof": ForgedScram(last=lambda message: message.partition(",p=")[0]),
    "something behind the proof": ForgedScram(last=lambda message: f"{message},x=1"),
    "a final message that is none": ForgedScram(last=lambda _: "forged"),
    "a binding that is not base64": ForgedScram(binding=lambda _: "%%%"),
    "a header that could bind": ForgedScram(header="y,,"),
    "a header that binds": ForgedScram(header="p=tls-unique,,"),
    "an extension that must be known": ForgedScram(extension="m=must,"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_scram_login_is_refused_without_saying_why(stranger: Stranger, name: str) -> None:
    answer = FORGERIES[name].log_in(stranger)
    assert (answer.error_code, answer.error_message) == (FAILED, invalid("SCRAM-SHA-256"))
    assert stranger.is_closed()


def test_scram_with_the_authorization_id_of_another_is_refused(stranger: Stranger) -> None:
    answer = ForgedScram(header="n,a=bob,").log_in(stranger)
    assert (answer.error_code, answer.error_message) == (FAILED, AUTHORIZATION)
    assert stranger.is_closed()


@pytest.mark.parametrize("header", ["y,,", "n,a=bob,", ""])
def test_a_channel_binding_other_than_the_header_is_refused_by_kwire(
    secured: SecuredBroker, stranger: Stranger, header: str
) -> None:
    """RFC 5802 has the server check it; Apache Kafka 4.3 does not and lets the client in."""
    answer = ForgedScram(binding=lambda _: encoded(header)).log_in(stranger)
    assert answer.error_code == {"kafka": 0, "kwire": FAILED}[secured.kind]


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_proof_of_another_size_is_refused(secured: SecuredBroker, stranger: Stranger, size: int) -> None:
    """Apache Kafka meets an unexpected exception and closes the connection without an answer."""
    answer = ForgedScram(proof=lambda proof: (proof + b"x")[:size]).log_in(stranger)
    expected = {"kafka": CLOSED, "kwire": (FAILED, invalid("SCRAM-SHA-256"))}
    assert (answer if answer == CLOSED else (answer.error_code, answer.error_message)) == expected[secured.kind]
    assert stranger.is_closed()


def test_the_first_answer_of_scram_does_not_tell_who_exists(secured: SecuredBroker, stranger: Stranger) -> None:
    """kwire invents a salt for an unknown user, the same each time; Apache Kafka refuses at once."""
    stranger.handshake("SCRAM-SHA-256")
    answer = stranger.authenticate(ForgedScram(user="nobody").first())
    assert answer.error_code == {"kafka": FAILED, "kwire": 0}[secured.kind]
    if secured.kind == "kwire":
        first = ServerFirst.parse(answer.auth_bytes)
        with Stranger.at(secured, "SASL_PLAINTEXT") as another:
            another.handshake("SCRAM-SHA-256")
            again = ServerFirst.parse(another.authenticate(ForgedScram(user="nobody").first()).auth_bytes)
        assert (again.salt, again.iterations) == (first.salt, ITERATIONS)
        assert again.nonce != first.nonce


def test_a_recorded_scram_login_cannot_be_replayed(secured: SecuredBroker) -> None:
    right = ForgedScram()
    with Stranger.at(secured, "SASL_PLAINTEXT") as one:
        one.handshake(right.mechanism)
        server = ServerFirst.parse(one.authenticate(right.first()).auth_bytes)
        recorded = right.final(server)
        assert one.authenticate(recorded).error_code == 0
    with Stranger.at(secured, "SASL_PLAINTEXT") as another:
        another.handshake(right.mechanism)
        fresh = ServerFirst.parse(another.authenticate(right.first()).auth_bytes)
        assert fresh.nonce.startswith(CLIENT_NONCE)
        assert fresh.nonce != server.nonce
        answer = another.authenticate(recorded)
        assert (answer.error_code, answer.error_message) == (FAILED, invalid(right.mechanism))


def test_a_login_can_be_repeated_but_not_as_another(secured: SecuredBroker) -> None:
    with Stranger.at(secured, "REAUTH") as one:
        one.handshake("PLAIN")
        assert one.authenticate(ALICE).session_lifetime_ms == SESSION_MS
        assert one.handshake("PLAIN").error_code == 0
        answer = one.authenticate(b"\0bob\0bob-secret")
        expected = "Cannot change principals during re-authentication from User.alice: User.bob"
        assert (answer.error_code, answer.error_message) == (FAILED, expected)
        assert one.is_closed()


def test_a_login_cannot_be_repeated_by_another_mechanism(secured: SecuredBroker) -> None:
    with Stranger.at(secured, "REAUTH") as one:
        one.handshake("PLAIN")
        assert one.authenticate(ALICE).error_code == 0
        assert one.handshake("SCRAM-SHA-256").error_code == 0
        assert one.authenticate(ForgedScram().first()) == CLOSED

"""A login, frame by frame. What Apache Kafka does with the same frames: compat_tests/comparisons/security."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.base.errors import ErrorCode
from kwire.base.futures import is_later
from kwire.codec.messages.create_topics_request import CreateTopicsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.produce_request import ProduceRequest
from kwire.codec.protocol import ApiKey
from kwire.net.connection import InvalidFrame
from kwire.security.errors import AuthenticationError
from kwire.security.principals import Principal
from kwire.security.sasl.scram import ClientScram
from kwire.security.scram_credentials import ScramMechanism
from kwire.server.authentication.login import Login, LoginRules, Reply, Session, Step
from kwire.server.authentication.settings import LoginSettings, Mechanism
from tests.server.authentication.frames import (
    ALICE,
    BOB,
    REGISTRY,
    SOFTWARE,
    Time,
    authenticate,
    frame_of,
    handshake,
    login_settings,
    response_in,
    services_on,
)

GENERAL = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
ALICES = Principal("User", "alice")


def rules(settings: LoginSettings | None = None, time: Time | None = None) -> LoginRules:
    time = time or Time()
    return LoginRules(settings or login_settings(), services_on(time), REGISTRY, time.clock)


def now(reply: Any) -> Reply:
    assert not is_later(reply)
    assert isinstance(reply, Reply)
    return reply


def replies(login: Login, *frames: memoryview) -> Reply:
    """The last reply; the others must ask for more."""
    *before, last = [now(login.receive(frame)) for frame in frames]
    assert all(reply.step is Step.MORE for reply in before)
    return last


def authenticated(reply: Reply, version: int = 2) -> Any:
    return response_in(reply.frame, ApiKey.SASL_AUTHENTICATE, version)


def session_of(*, max_reauth_ms: int = 0, time: Time | None = None) -> Session:
    login = Login(rules(login_settings(max_reauth_ms), time))
    assert replies(login, handshake(), authenticate()).step is Step.COMPLETE
    assert login.session is not None
    return login.session


# -- in order ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_logs_in(version: int) -> None:
    login = Login(rules())
    reply = replies(login, frame_of(SOFTWARE, 3), handshake(), authenticate(version=version))
    response = authenticated(reply, version)
    assert (response.error_code, response.auth_bytes, response.session_lifetime_ms) == (0, b"", 0)
    assert reply.step is Step.COMPLETE
    assert login.session == Session(ALICES, "PLAIN", by_token=False, ends_s=None, can_repeat=version >= 1)
    assert login.software == ("test", "1.2")


def test_a_client_logs_in_with_tokens_that_are_frames() -> None:
    login = Login(rules())
    assert now(login.receive(handshake(version=0))).step is Step.MORE
    assert login.takes_empty_frames
    assert now(login.receive(memoryview(ALICE))) == Reply(b"\0\0\0\0", Step.COMPLETE)
    assert login.session == Session(ALICES, "PLAIN", by_token=False, ends_s=None, can_repeat=False)


@pytest.mark.parametrize("version", [0, 1])
def test_scram_takes_two_tokens(version: int) -> None:
    login = Login(rules())
    client = ClientScram(ScramMechanism.SHA_256, "alice", "alice-secret", bytes)
    replies(login, handshake("SCRAM-SHA-256", version))

    def exchange(token: bytes) -> tuple[bytes, Step]:
        if version == 0:
            reply = now(login.receive(memoryview(token)))
            assert reply.frame is not None
            return reply.frame[4:], reply.step
        reply = now(login.receive(authenticate(token)))
        return authenticated(reply).auth_bytes, reply.step

    challenge, step = exchange(client.first())
    assert step is Step.MORE
    final, step = exchange(client.respond(challenge))
    assert step is Step.COMPLETE
    client.respond(final)
    assert client.complete


def test_the_handshake_lists_the_mechanisms() -> None:
    reply = replies(Login(rules()), handshake())
    response = response_in(reply.frame, ApiKey.SASL_HANDSHAKE, 1)
    assert (response.error_code, response.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256"])


def test_api_versions_may_fail_before_it_is_answered_once() -> None:
    login = Login(rules())
    unknown_version = memoryview(struct.pack(">hhih", 18, 99, 7, -1))
    first = replies(login, unknown_version)
    assert response_in(first.frame, ApiKey.API_VERSIONS, 0).error_code == ErrorCode.UNSUPPORTED_VERSION
    unnamed = replies(login, frame_of(type(SOFTWARE)(), 3))
    assert response_in(unnamed.frame, ApiKey.API_VERSIONS, 3).error_code == ErrorCode.INVALID_REQUEST
    assert login.software is None
    answered = replies(login, frame_of(SOFTWARE, 4))
    assert len(response_in(answered.frame, ApiKey.API_VERSIONS, 4).api_keys) > 40
    with pytest.raises(InvalidFrame, match="before the SASL handshake"):
        login.receive(frame_of(SOFTWARE, 4))


# -- out of order -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(MetadataRequest(), 9),
        authenticate(),
        struct.pack(">hhih", 17, 2, 7, -1) + b"\0\0",
        struct.pack(">hhih", 999, 0, 7, -1),
        struct.pack(">hhih", -1, 0, 7, -1),
        struct.pack(">hhih", 17, 1, 7, -1) + b"\x7f\xff",
        struct.pack(">hhih", 17, 1, 7, 100),
        struct.pack(">hhih", 18, 3, 7, -1),
        b"\0\x12\0",
        b"\x60\x82\x02\x00" + bytes(60),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_anything_else_at_first_closes_the_connection(frame: bytes | memoryview) -> None:
    for frames in ((), (frame_of(SOFTWARE, 3),)):
        login = Login(rules())
        if frames:
            replies(login, *frames)
        with pytest.raises(InvalidFrame):
            login.receive(memoryview(frame))


@pytest.mark.parametrize("version", [0, 1])
def test_an_unknown_mechanism_gets_the_list_of_the_others(version: int) -> None:
    reply = replies(Login(rules()), handshake("GSSAPI", version))
    response = response_in(reply.frame, ApiKey.SASL_HANDSHAKE, version)
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert reply.step is Step.FAILED


def test_other_requests_between_handshake_and_token_are_refused() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    reply = replies(Login(rules()), handshake(), frame_of(request, 9))
    (topic,) = response_in(reply.frame, ApiKey.METADATA, 9).topics
    assert (topic.name, topic.error_code) == ("t", ErrorCode.ILLEGAL_SASL_STATE)
    assert (reply.step, reply.reason) == (Step.FAILED, "Metadata instead of SaslAuthenticate")
    again = replies(Login(rules()), handshake(), handshake())
    assert response_in(again.frame, ApiKey.SASL_HANDSHAKE, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert again.step is Step.FAILED


def test_every_api_is_refused_between_handshake_and_token() -> None:
    for api in REGISTRY:
        if api.key == ApiKey.SASL_AUTHENTICATE:
            continue
        from kwire.codec.protocol import request_class

        login = Login(rules())
        replies(login, handshake())
        reply = now(login.receive(frame_of(request_class(api.key)(), api.served[1])))
        assert (reply.step, login.session) == (Step.FAILED, None)


def test_a_request_of_many_elements_is_not_even_refused() -> None:
    for count, refused in ((200, True), (1000, False)):
        request = frame_of(MetadataRequest(topics=[MetadataRequestTopic(name="t")] * count), 9)
        login = Login(rules())
        replies(login, handshake())
        if refused:
            assert now(login.receive(request)).step is Step.FAILED
        else:
            with pytest.raises(InvalidFrame):
                login.receive(request)


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", 36, 3, 7, -1) + b"\0\0\0",
        struct.pack(">hhih", 36, 1, 7, -1) + b"\x7f\xff",
        struct.pack(">hhih", 3, 99, 7, -1),
        b"",
        b"\0",
        ALICE,
    ],
)
def test_a_malformed_request_instead_of_a_token_closes_the_connection(frame: bytes) -> None:
    login = Login(rules())
    replies(login, handshake())
    with pytest.raises(InvalidFrame):
        login.receive(memoryview(frame))


# -- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "token", "text"),
    [
        ("PLAIN", b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        ("PLAIN", b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        ("SCRAM-SHA-256", b"n,,n=alice", GENERAL),
    ],
)
def test_a_refused_login_gets_the_mechanisms_text_or_a_general_one(mechanism: str, token: bytes, text: str) -> None:
    login = Login(rules())
    reply = replies(login, handshake(mechanism), authenticate(token))
    response = authenticated(reply)
    assert (response.error_code, response.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert (reply.step, login.session) == (Step.FAILED, None)


def test_a_refused_token_that_is_a_frame_gets_no_answer() -> None:
    reply = replies(Login(rules()), handshake(version=0), memoryview(b"\0alice\0wrong"))
    assert (reply.frame, reply.step) == (None, Step.FAILED)


def test_reasons_repeat_no_password() -> None:
    for token in (b"\0alice\0wrong-secret", b"\0alice\0wrong-secret\0", b"wrong-secret", b"n,,n=wrong-secret"):
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            reply = replies(Login(rules()), handshake(mechanism), authenticate(token))
            assert "wrong-secret" not in reply.reason
            assert b"wrong-secret" not in (reply.frame or b"")


# -- later ------------------------------------------------------------------------------------------------------------


class Asking:
    """A mechanism that has to ask somewhere."""

    complete = False
    principal = ALICES
    expires_ms: int | None = None
    by_token = False

    async def respond(self, token: bytes) -> bytes:
        await asyncio.sleep(0)
        if token == b"no":
            raise AuthenticationError("no")
        self.complete = True
        return b"yes"


async def test_a_mechanism_may_take_its_time() -> None:
    asking = login_settings(mechanisms={"ASKING": Mechanism(Asking)})
    for token, code, step in ((b"hello", 0, Step.COMPLETE), (b"no", 58, Step.FAILED)):
        login = Login(rules(asking))
        replies(login, handshake("ASKING"))
        reply = login.receive(authenticate(token))
        assert is_later(reply)
        reply = await reply
        assert (authenticated(reply).error_code, reply.step) == (code, step)
        assert (login.session is not None) == (step is Step.COMPLETE)


@pytest.mark.parametrize(("version", "has_answer"), [(0, False), (1, True)])
def test_a_mechanism_without_a_last_challenge_ends_a_login_of_raw_tokens_in_silence(
    version: int, has_answer: bool
) -> None:
    class Silent(Asking):
        def respond(self, token: bytes) -> None:  # type: ignore[override] # at once
            self.complete = True

    login = Login(rules(login_settings(mechanisms={"SILENT": Mechanism(Silent)})))
    token = memoryview(b"token") if version == 0 else authenticate(b"token")
    reply = replies(login, handshake("SILENT", version), token)
    assert (reply.step, reply.frame is not None) == (Step.COMPLETE, has_answer)
    if has_answer:
        assert authenticated(reply).auth_bytes == b""


# -- the end of a login -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_in_ms", "lifetime_ms"),
    [
        (0, None, None),
        (5000, None, 5000),
        (0, 700, 700),
        (5000, 700, 700),
        (500, 700, 500),
        (0, -5, 0),
        (500, -5, 0),
        (-1, None, None),
    ],
)
def test_a_login_lasts_as_long_as_the_shorter_of_its_limits(
    max_reauth_ms: int, expires_in_ms: int | None, lifetime_ms: int | None
) -> None:
    time = Time()

    class Expiring(Asking):
        expires_ms = None if expires_in_ms is None else time.now_ms + expires_in_ms

        def respond(self, token: bytes) -> bytes:  # type: ignore[override] # at once
            self.complete = True
            return b""

    login = Login(rules(login_settings(mechanisms={"X": Mechanism(Expiring, max_reauth_ms)}), time))
    response = authenticated(replies(login, handshake("X"), authenticate()))
    assert response.session_lifetime_ms == (lifetime_ms or 0)
    assert login.session is not None
    assert login.session.ends_s == (None if lifetime_ms is None else (time.now_ms + lifetime_ms) / 1000)


def test_a_client_logs_in_again() -> None:
    time = Time()
    before = session_of(max_reauth_ms=5000, time=time)
    time.now_ms += 1000
    login = Login(rules(login_settings(5000), time), before)
    assert replies(login, handshake(), authenticate()).step is Step.COMPLETE
    assert login.session is not None
    assert login.session.ends_s == time.now_ms / 1000 + 5


def test_nobody_logs_in_again_as_another() -> None:
    login = Login(rules(), session_of())
    response = authenticated(replies(login, handshake(), authenticate(BOB)))
    text = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert (response.error_code, response.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert login.session is None


def test_nobody_logs_in_again_with_another_mechanism() -> None:
    login = Login(rules(), session_of())
    reply = replies(login, handshake("SCRAM-SHA-256"), authenticate(b"n,,n=alice,r=abc"))
    assert (reply.frame, reply.step) == (None, Step.FAILED)
    with pytest.raises(InvalidFrame):
        Login(rules(), session_of()).receive(handshake("GSSAPI"))


def test_the_general_text_names_a_reauthentication() -> None:
    before = session_of()._replace(mechanism="SCRAM-SHA-256")
    reply = replies(Login(rules(), before), handshake("SCRAM-SHA-256"), authenticate(b"n,,n=alice"))
    assert authenticated(reply).error_message == GENERAL.replace("during auth", "during re-auth")


# -- anything at all --------------------------------------------------------------------------------------------------

FRAMES = st.sampled_from(
    [
        bytes(frame)
        for frame in (
            frame_of(SOFTWARE, 3),
            frame_of(SOFTWARE, 0),
            frame_of(MetadataRequest(), 12),
            frame_of(CreateTopicsRequest(), 5),
            frame_of(ProduceRequest(), 9),
            *(handshake(name, version) for name in ("PLAIN", "SCRAM-SHA-256", "OTHER") for version in (0, 1)),
            *(authenticate(token, version) for token in (BOB, b"", b"\0alice\0no") for version in (0, 1, 2)),
            authenticate(b"n,,n=alice,r=abc"),
            authenticate(b"c=biws,r=abc,p=AAAA"),
        )
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A frame of a login, perhaps with some bytes changed, cut or added."""
    frame = bytearray(draw(FRAMES))
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, max(len(frame) - 1, 0)))
        frame[position : position + draw(st.integers(0, 3))] = draw(st.binary(max_size=4))
    return bytes(frame)


@settings(max_examples=400, deadline=None)
@given(st.lists(damaged() | FRAMES | st.binary(max_size=30), min_size=1, max_size=5), st.booleans())
def test_any_frames_are_answered_or_close_the_connection(frames: list[bytes], again: bool) -> None:
    """Nobody becomes alice without her password; nothing but `InvalidFrame` is raised."""
    login = Login(rules(), session_of() if again else None)
    for frame in frames:
        try:
            reply = now(login.receive(memoryview(bytearray(frame))))
        except InvalidFrame:
            break
        assert (reply.step is Step.COMPLETE) == (login.session is not None)
        if reply.step is not Step.MORE:
            break
    assert login.session is None or (login.session.principal == Principal("User", "bob") and not again)

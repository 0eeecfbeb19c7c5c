"""What logins do to connections: who dispatches, when a connection ends, what is counted."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.raw_client import RawClient
from harness.waiting import PATIENCE_S
from kwire.base.config import Endpoint
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode
from kwire.base.logging import get_logger
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.heartbeat_response import HeartbeatResponse
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import ConnectionSecurity, RequestContext
from kwire.net.connection import InvalidFrame, ListenerSetup
from kwire.net.listener import BoundSocket
from kwire.net.server import NetServer
from kwire.net.settings import NetSettings
from kwire.security.principals import ANONYMOUS, Principal
from kwire.server.authentication.settings import LoginSettings, Mechanism
from kwire.server.authentication.stage import Authentication, SaslClient, Sessions
from kwire.server.broker import Broker
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
from tests.server.conftest import Brokers, closed, serve

REQUEST_MAX_BYTES = 1_000_000
PRODUCE = frozenset({0})


class Main:
    """The broker's dispatcher: it keeps what it gets."""

    pipelined_keys = PRODUCE

    def __init__(self, time: Time) -> None:
        self.services = services_on(time)
        self.registry = REGISTRY
        self.frames: list[bytes] = []
        self.appended = 0

    def append_all(self) -> None:
        self.appended += 1

    def client_of(self, connection: Any, kind: Any) -> Any:
        return kind(ANONYMOUS, "127.0.0.1", ("localhost", 9092))

    def dispatch(self, connection: Any, frame: memoryview) -> None:
        self.frames.append(bytes(frame))


class FakeConnection:
    """As much of a connection as a dispatcher sees."""

    id, listener = "connection", "SASL"

    def __init__(self, dispatcher: Any) -> None:
        self.dispatcher = dispatcher
        self.request_max_bytes = 0
        self.request_min_bytes = 1
        self.context: Any = None
        self.sent: list[bytes] = []
        self.ended_after_ms: int | None = None
        self.closed = False

    def receive(self, frame: bytes | memoryview) -> bytes | None:
        """Pass a frame to the dispatcher; its answer."""
        self.sent.clear()
        self.dispatcher.dispatch(self, memoryview(frame))
        return self.sent[0] if self.sent else None

    def send(self, parts: list[bytes], size: int) -> None:
        self.sent.append(b"".join(parts))
        assert len(self.sent[-1]) == size

    def use(self, dispatcher: Any, request_max_bytes: int) -> None:
        self.dispatcher, self.request_max_bytes, self.request_min_bytes = dispatcher, request_max_bytes, 1

    def defer(self, pipelined: bool) -> Any:
        def answer(parts: list[bytes] | None, size: int = 0) -> None:
            if parts is not None:
                self.send(parts, size)

        return SimpleNamespace(answer=answer, cancel=None)

    def close_after(self, delay_ms: int, slot: Any, parts: list[bytes], size: int) -> None:
        self.ended_after_ms = delay_ms
        slot.answer(parts, size)

    def close(self) -> None:
        self.closed = True


class Listener:
    """A listener without sockets."""

    def __init__(self, settings: LoginSettings) -> None:
        self.time = Time()
        self.main = Main(self.time)
        self.authentication = Authentication(self.main, "SASL", settings, REQUEST_MAX_BYTES)  # type: ignore[arg-type]

    def connect(self) -> FakeConnection:
        return FakeConnection(self.authentication)

    def logged_in(self, token: bytes = ALICE) -> FakeConnection:
        connection = self.connect()
        connection.receive(frame_of(SOFTWARE, 3))
        connection.receive(handshake())
        connection.receive(authenticate(token))
        return connection

    def count(self, name: str) -> int:
        return int(self.metric(name))

    def metric(self, name: str) -> float:
        snapshot = self.main.services.metrics.snapshot()
        number: float = snapshot[f"kafka.server:type=socket-server-metrics,listener=SASL,name={name}"]
        return number


REQUEST = bytes(frame_of(MetadataRequest(), 9))


def test_after_the_login_requests_go_to_the_broker() -> None:
    listener = Listener(login_settings())
    connection = listener.connect()
    connection.receive(frame_of(SOFTWARE, 3))
    assert connection.context.principal == ANONYMOUS
    connection.receive(handshake())
    connection.receive(authenticate())
    client: SaslClient = connection.context
    assert connection.dispatcher is listener.main
    assert connection.request_max_bytes == REQUEST_MAX_BYTES
    assert client.principal == Principal("User", "alice")
    assert client.security == ConnectionSecurity("SASL_PLAINTEXT", token_authenticated=False)
    assert (client.software_name, client.software_version) == ("test", "1.2")
    connection.receive(REQUEST)
    assert listener.main.frames == [REQUEST]
    counts = [listener.count(f"{name}-total") for name in ("successful-authentication", "failed-authentication")]
    assert counts == [1, 0]


def test_a_failed_login_is_answered_late_and_ends_the_connection() -> None:
    listener = Listener(login_settings(failed_delay_ms=1234))
    connection = listener.logged_in(b"\0alice\0wrong")
    (sent,) = connection.sent
    assert response_in(sent, ApiKey.SASL_AUTHENTICATE, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert connection.ended_after_ms == 1234
    assert connection.context.principal == ANONYMOUS
    assert listener.count("failed-authentication-total") == 1


def test_a_failed_login_without_an_answer_ends_the_connection_too() -> None:
    connection = Listener(login_settings()).connect()
    connection.receive(handshake(version=0))
    assert connection.receive(b"\0alice\0wrong") == b""
    assert connection.ended_after_ms == 100


def test_frames_may_be_empty_only_while_they_are_tokens() -> None:
    connection = Listener(login_settings()).connect()
    for version, least in ((1, 1), (0, 0)):
        connection = Listener(login_settings()).connect()
        assert connection.request_min_bytes == 1
        connection.receive(handshake(version=version))
        assert connection.request_min_bytes == least
    connection.receive(ALICE)
    assert connection.request_min_bytes == 1


def test_clients_that_cannot_log_in_again_are_counted() -> None:
    listener = Listener(login_settings())
    for version in (0, 1):
        connection = listener.connect()
        connection.receive(handshake())
        connection.receive(authenticate(version=version))
    assert listener.count("successful-authentication-total") == 2
    assert listener.count("successful-authentication-no-reauth-total") == 1


# -- logins that end --------------------------------------------------------------------------------------------------


def test_a_login_that_ends_is_served_until_then() -> None:
    listener = Listener(login_settings(5000))
    connection = listener.logged_in()
    assert isinstance(connection.dispatcher, Sessions)
    assert connection.dispatcher.pipelined_keys == PRODUCE
    assert connection.request_max_bytes == REQUEST_MAX_BYTES
    listener.time.now_ms += 5000
    connection.receive(REQUEST)
    assert listener.main.frames == [REQUEST]
    listener.time.now_ms += 1
    with pytest.raises(InvalidFrame, match="after the end of the login"):
        connection.receive(REQUEST)
    assert listener.main.frames == [REQUEST]
    assert listener.count("expired-connections-killed-count") == 1


@pytest.mark.parametrize("late_ms", [0, 4000, 60_000])
def test_a_client_logs_in_again_before_and_after_the_end(late_ms: int) -> None:
    listener = Listener(login_settings(5000))
    connection = listener.logged_in()
    client = connection.context
    listener.time.now_ms += late_ms
    connection.receive(handshake())
    assert connection.dispatcher is listener.authentication
    assert listener.main.appended == 1  # the responses to earlier requests come first
    assert connection.request_max_bytes == 512 * 1024
    connection.receive(authenticate())
    assert connection.context is client
    assert (client.software_name, str(client.principal)) == ("test", "User:alice")
    listener.time.now_ms += 4999
    connection.receive(REQUEST)
    assert listener.main.frames == [REQUEST]
    assert [
        listener.count(f"{name}-total") for name in ("successful-authentication", "successful-reauthentication")
    ] == [
        1,
        1,
    ]


def test_the_latency_of_logging_in_again_is_measured_from_the_handshake() -> None:
    listener = Listener(login_settings(5000))
    connection = listener.logged_in()
    assert [listener.metric(f"reauthentication-latency-{name}") for name in ("avg", "max")] == [0, 0]
    for latency_ms in (20, 100):
        listener.time.now_ms += 1000
        connection.receive(handshake())
        listener.time.now_ms += latency_ms
        connection.receive(authenticate())
    assert [listener.metric(f"reauthentication-latency-{name}") for name in ("avg", "max")] == [60, 100]


def test_logins_have_rates() -> None:
    listener = Listener(login_settings(5000))
    names = [
        f"{result}-{kind}" for kind in ("authentication", "reauthentication") for result in ("successful", "failed")
    ]

    def rates() -> list[float]:
        return [round(30 * listener.metric(f"{name}-rate"), 6) for name in names]

    assert rates() == [0, 0, 0, 0]
    first, second, _ = (listener.logged_in() for _ in range(3))
    for _ in range(2):
        listener.logged_in(b"\0alice\0wrong")
    for connection, token in ((first, ALICE), (second, BOB)):
        connection.receive(handshake())
        connection.receive(authenticate(token))
    listener.time.now_ms += 30_000
    assert rates() == [3, 2, 1, 1]
    listener.time.now_ms += 30_000
    assert rates() == [0, 0, 0, 0]


def test_a_request_while_a_client_logs_in_again_is_refused() -> None:
    listener = Listener(login_settings(5000))
    connection = listener.logged_in()
    connection.receive(handshake())
    connection.receive(REQUEST)
    assert not listener.main.frames
    assert connection.ended_after_ms == 100
    assert listener.count("failed-reauthentication-total") == 1
    assert listener.count("failed-authentication-total") == 0


def test_another_user_who_logs_in_again_ends_the_connection() -> None:
    listener = Listener(login_settings(5000))
    connection = listener.logged_in()
    connection.receive(handshake())
    connection.receive(authenticate(BOB))
    assert connection.ended_after_ms == 100
    assert str(connection.context.principal) == "User:alice"


def test_within_a_second_a_handshake_is_an_ordinary_request() -> None:
    listener = Listener(login_settings(5000))
    connection = listener.logged_in()

    def log_in_again() -> bool:
        connection.receive(handshake())
        return connection.dispatcher is listener.authentication

    assert log_in_again()
    connection.receive(authenticate())
    listener.time.now_ms += 999
    assert not log_in_again()
    assert listener.main.frames == [bytes(handshake())]
    listener.time.now_ms += 1
    assert log_in_again()


def test_without_an_end_a_handshake_is_an_ordinary_request() -> None:
    listener = Listener(login_settings())
    listener.logged_in().receive(handshake())
    assert listener.main.frames == [bytes(handshake())]


def test_changed_settings_hold_for_the_next_login() -> None:
    listener = Listener(login_settings())
    begun = listener.connect()
    begun.receive(handshake())
    listener.authentication.settings = login_settings(5000, mechanisms={})
    begun.receive(authenticate())
    assert begun.dispatcher is listener.main
    refused = response_in(listener.connect().receive(handshake()), ApiKey.SASL_HANDSHAKE, 1)
    assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM


# -- with sockets -----------------------------------------------------------------------------------------------------


class Asking:
    """A mechanism that asks somewhere, and gets its answer from the test."""

    complete = False
    principal = Principal("User", "alice")
    expires_ms: int | None = None
    by_token = False

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def respond(self, token: bytes) -> bytes:
        self.asked.set()
        challenge = await self.answer
        self.complete = True
        return challenge


class Served:
    """A broker with a listener whose clients log in."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.asking: list[Asking] = []
        self.net: NetServer | None = None
        self.clients: list[RawClient] = []

    def listen(self, settings: LoginSettings) -> None:
        doors, limits = Doors(), NetSettings()
        more = {"ASKING": Mechanism(self._begin)}
        settings = settings._replace(mechanisms={**settings.mechanisms, **more})
        authentication = Authentication(self.broker.dispatcher, "SASL", settings, REQUEST_MAX_BYTES)
        setup = ListenerSetup(authentication, settings.receive_max_bytes, login=True)
        bound = BoundSocket.bind(doors, limits, Endpoint("SASL", "127.0.0.1", 0, "SASL_PLAINTEXT"))
        self.net = NetServer(doors, limits, bound, {"SASL": setup}, get_logger("tests.net"))
        self.net.start()

    def _begin(self) -> Asking:
        self.asking.append(Asking())
        return self.asking[-1]

    async def connect(self) -> RawClient:
        assert self.net is not None
        client = await RawClient.connect(Doors(), *self.net.listeners[0].address, "test")
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.close()
        if self.net is not None:
            self.net.close()


@pytest.fixture
async def served(brokers: Brokers) -> AsyncIterator[Callable[..., Served]]:
    made = Served(await brokers.start())

    def listen(**settings: Any) -> Served:
        made.listen(login_settings(**settings))
        return made

    yield listen
    made.close()


async def test_handlers_see_who_has_logged_in(served: Callable[..., Served]) -> None:
    seen: list[RequestContext] = []

    def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        seen.append(context)
        return HeartbeatResponse()

    listener = served()
    serve(listener.broker, Api(ApiKey.HEARTBEAT, served=(0, 4), handle=handle))
    client = await listener.connect()
    requests = [
        client.call(SOFTWARE, 3),
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1),
        client.call(SaslAuthenticateRequest(auth_bytes=ALICE), 2),
        client.call(HeartbeatRequest(group_id="g" * 30_000), 3),
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1),
        client.call(SaslAuthenticateRequest(auth_bytes=ALICE), 2),
    ]  # all at once: each is dispatched by whoever is in charge then
    answers = await asyncio.gather(*requests)
    assert [answer.error_code for answer in answers] == [0, 0, 0, 0, 34, 34]
    assert answers[-1].error_message == "SaslAuthenticate request received after successful authentication"
    (context,) = seen
    assert (str(context.principal), context.listener, context.software_name) == ("User:alice", "SASL", "test")
    assert context.security == ConnectionSecurity("SASL_PLAINTEXT")
    assert context.client_id == "test"


async def test_a_failed_login_ends_the_connection_after_the_answer(
    served: Callable[..., Served], capsys: pytest.CaptureFixture[str]
) -> None:
    client = await served(failed_delay_ms=1).connect()
    await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    refused = asyncio.ensure_future(client.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2))
    await asyncio.sleep(0)
    client.send_only(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
    assert (await refused).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert await closed(client)
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "login failed" in each]
    assert "PLAIN" in line


async def test_a_frame_that_is_too_large_before_the_login_ends_the_connection(served: Callable[..., Served]) -> None:
    client = await served(receive_max_bytes=1000).connect()
    await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.send_only(SaslAuthenticateRequest(auth_bytes=bytes(1000)), 2)
    assert await closed(client)


async def test_empty_tokens_are_frames(served: Callable[..., Served]) -> None:
    listener = served()
    client = await listener.connect()
    await client.call(SaslHandshakeRequest(mechanism="ASKING"), 0)
    client.send_bytes(b"\0\0")
    client.send_bytes(b"\0\0")
    (asking,) = listener.asking
    async with asyncio.timeout(PATIENCE_S):
        await asking.asked.wait()


async def test_nothing_is_served_while_a_mechanism_takes_its_time(served: Callable[..., Served]) -> None:
    listener = served()
    client = await listener.connect()
    await client.call(SaslHandshakeRequest(mechanism="ASKING"), 1)
    login = asyncio.ensure_future(client.call(SaslAuthenticateRequest(auth_bytes=b""), 2))
    request = asyncio.ensure_future(client.call(MetadataRequest(topics=[]), 9))
    (asking,) = listener.asking
    async with asyncio.timeout(PATIENCE_S):
        await asking.asked.wait()
        assert not request.done()
        asking.answer.set_result(b"yes")
        assert (await login).auth_bytes == b"yes"
        assert (await request).controller_id == 1


async def test_a_client_that_leaves_while_a_mechanism_takes_its_time_is_forgotten(
    served: Callable[..., Served],
) -> None:
    listener = served()
    client = await listener.connect()
    await client.call(SaslHandshakeRequest(mechanism="ASKING"), 1)
    client.send_only(SaslAuthenticateRequest(auth_bytes=b""), 2)
    (asking,) = listener.asking
    async with asyncio.timeout(PATIENCE_S):
        await asking.asked.wait()
        client.close()
        while not asking.answer.cancelled():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_a_mechanism_that_breaks_closes_the_connection(
    served: Callable[..., Served], capsys: pytest.CaptureFixture[str]
) -> None:
    listener = served()
    client = await listener.connect()
    await client.call(SaslHandshakeRequest(mechanism="ASKING"), 1)
    client.send_only(SaslAuthenticateRequest(auth_bytes=b""), 2)
    (asking,) = listener.asking
    async with asyncio.timeout(PATIENCE_S):
        await asking.asked.wait()
    asking.answer.set_exception(RuntimeError("on purpose"))
    assert await closed(client)
    assert capsys.readouterr().err.count("closing connection: login failed") == 1


async def test_any_bytes_are_answered_or_close_the_connection(
    served: Callable[..., Served], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whole and damaged frames in pieces of any size; the log has no failure, and honest clients are served."""
    listener = served(failed_delay_ms=0, receive_max_bytes=2000)
    chance = random.Random(16)
    frames = [
        bytes(frame) for frame in (frame_of(SOFTWARE, 3), handshake(), handshake(version=0), authenticate(), ALICE)
    ]
    for _ in range(100):
        client = await listener.connect()
        for _ in range(chance.randint(1, 4)):
            frame = bytearray(chance.choice(frames))
            if chance.random() < 0.5:
                frame[chance.randrange(len(frame))] = chance.randrange(256)
            size = chance.choice((len(frame), len(frame), len(frame), 0, -1, 2001, chance.randrange(100)))
            data = struct.pack(">i", size) + frame
            cut = chance.randrange(len(data))
            for piece in (data[:cut], data[cut:]):
                if not client.closed:
                    client.send_bytes(piece)
                    await asyncio.sleep(0)
        client.close()
    honest = await listener.connect()
    assert (await honest.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)).error_code == 0
    assert (await honest.call(SaslAuthenticateRequest(auth_bytes=ALICE), 2)).error_code == 0
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert '"ERROR"' not in shown

"""Handshakes cost others little, are limited in time and memory, and survive any bytes."""

from __future__ import annotations

import asyncio
import itertools
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.simulation.network import SimulatedSocket
from harness.simulation.world import Machine, Simulation
from harness.tls_peer import Peer
from kwire.base.config import Endpoint
from kwire.base.doors import Clock, Doors, Sockets
from kwire.base.file_range import FileRange
from kwire.base.logging import get_logger
from kwire.net.connection import ListenerSetup
from kwire.net.handshake_records import (
    CLIENT_HELLO_MAX,
    HANDSHAKE_MAX,
    HEADER,
    RECORD_MAX,
    SHORT_RECORD_MAX,
    HandshakeRecords,
    InvalidHandshake,
)
from kwire.net.handshakes import STEPS_PER_TURN, STEPS_S
from kwire.net.listener import BoundSocket
from kwire.net.server import NetServer
from kwire.net.settings import RECEIVE_BYTES, SETUP_MAX_MS, NetSettings
from kwire.net.tls import RECORD_BYTES, TAKEN_MAX, UNSENT_LIMIT, RecordBuffers, TlsSocket
from kwire.net.tls_connection import ALERT_TIME_S, TlsConnection
from kwire.net.wire import Wire
from tests.net.conftest import OTHER_KEY, REQUEST_MAX_BYTES, Answers, Certificates, frame, request
from tests.net.test_connection_properties import Answers as CheckedAnswers
from tests.net.test_connection_properties import Loop, Socket, requests, steps
from tests.net.test_file_ranges import Owner
from tests.net.test_login import LOGIN, Login

# -- on virtual time --------------------------------------------------------------------------------------------------


class Client:
    """A TLS client in the simulation."""

    def __init__(self, sock: SimulatedSocket, context: ssl.SSLContext) -> None:
        self.socket = sock
        self.peer = Peer(context, "host")

    def received(self) -> bytes | None:
        """What has arrived; None: the end."""
        buffer = bytearray(1 << 16)
        try:
            count = self.socket.recv_into(memoryview(buffer))
        except BlockingIOError:
            return b""
        return bytes(buffer[:count]) if count else None

    async def handshake(self) -> None:
        self.socket.send(self.peer.handshake())
        while not self.peer.is_established():
            await asyncio.sleep(0.01)
            if answer := self.peer.handshake(self.received() or b""):
                self.socket.send(answer)

    async def receive(self) -> bytes:
        data = b""
        while not data:
            await asyncio.sleep(0.01)
            data = self.peer.decrypt(self.received() or b"")
        return data


class Scene:
    """A server with TLS in the simulation."""

    def __init__(self, machine: Machine, server: NetServer, answers: Answers, certificates: Certificates) -> None:
        self.server = server
        self.answers = answers
        self._machine = machine
        self._certificates = certificates

    async def connect(self) -> Client:
        sock = await self._machine.doors.sockets.connect("host", self.server.listeners[0].address[1])
        return Client(sock, self._certificates.client_context())


def simulated(
    certificates: Certificates, scenario: Callable[[Scene], Awaitable[None]], login: bool = False, **limits: Any
) -> None:
    simulation = Simulation(1)

    async def main() -> None:
        machine = simulation.machine("host")
        answers = Login(Answers()) if login else Answers()
        chosen = NetSettings(**limits)
        bound = BoundSocket.bind(machine.doors, chosen, Endpoint("SSL", "", 0, "SSL"))
        context = certificates.server_context()
        setups = {"SSL": ListenerSetup(answers, REQUEST_MAX_BYTES, lambda: context, login)}
        server = NetServer(machine.doors, chosen, bound, setups, get_logger("tests.net"))
        server.start()
        await scenario(Scene(machine, server, answers, certificates))
        server.close()

    simulation.run(main())


LIMIT_S = SETUP_MAX_MS / 1000


def test_a_broker_with_tls_runs_in_the_simulation(certificates: Certificates) -> None:
    async def scenario(scene: Scene) -> None:
        client = await scene.connect()
        await client.handshake()
        client.socket.send(client.peer.encrypt(request(OTHER_KEY, b"simulated")))
        assert await client.receive() == frame(b"\0\x01simulated")
        await asyncio.sleep(2 * LIMIT_S)
        assert len(scene.server.connections) == 1  # the limit is that of the handshake

    simulated(certificates, scenario)


@pytest.mark.parametrize("sent", ["nothing", "a byte a second", "half a hello", "a hello"])
def test_a_handshake_that_takes_too_long_is_ended(certificates: Certificates, sent: str) -> None:
    async def scenario(scene: Scene) -> None:
        client = await scene.connect()
        hello = client.peer.handshake()
        if sent == "a hello":
            client.socket.send(hello)
        elif sent == "half a hello":
            client.socket.send(hello[:100])
        for second in range(int(LIMIT_S) - 1):
            if sent == "a byte a second":
                client.socket.send(hello[second : second + 1])
            await asyncio.sleep(1)
        assert scene.server.connections
        await asyncio.sleep(2)
        assert not scene.server.connections

    simulated(certificates, scenario)


def test_the_time_for_the_login_includes_the_handshake(certificates: Certificates) -> None:
    async def scenario(scene: Scene) -> None:
        early, late = await scene.connect(), await scene.connect()
        await asyncio.sleep(LIMIT_S / 2)
        await early.handshake()
        await late.handshake()
        early.socket.send(early.peer.encrypt(request(OTHER_KEY, LOGIN)))
        assert await early.receive()
        await asyncio.sleep(LIMIT_S / 2)
        assert len(scene.server.connections) == 1
        late.peer.decrypt(late.received() or b"")
        assert late.received() is None

    simulated(certificates, scenario, login=True)


def test_a_login_over_tls_of_a_byte_a_second_is_ended(certificates: Certificates) -> None:
    async def scenario(scene: Scene) -> None:
        client = await scene.connect()
        await client.handshake()
        data = request(OTHER_KEY, b"." * 90)
        for second in range(int(LIMIT_S) - 2):
            client.socket.send(client.peer.encrypt(data[second : second + 1]))
            await asyncio.sleep(1)
        assert scene.server.connections
        await asyncio.sleep(3)
        assert not scene.server.connections

    simulated(certificates, scenario, login=True)


def test_after_the_alert_the_connection_stays_open_for_a_moment(certificates: Certificates) -> None:
    async def scenario(scene: Scene) -> None:
        client = await scene.connect()
        client.socket.send(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.sleep(ALERT_TIME_S / 2)
        assert scene.server.connections
        assert (client.received() or b"")[:1] == b"\x15"
        client.socket.send(b"more")
        await asyncio.sleep(ALERT_TIME_S)
        assert not scene.server.connections

    simulated(certificates, scenario)


def test_the_broker_can_stop_while_an_alert_is_read(certificates: Certificates) -> None:
    async def scenario(scene: Scene) -> None:
        client = await scene.connect()
        client.socket.send(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.sleep(ALERT_TIME_S / 2)
        await scene.server.drain(10)
        assert not scene.server.connections

    simulated(certificates, scenario)


# -- on a loop that the test turns ------------------------------------------------------------------------------------


class TurnedLoop(Loop):
    """Callbacks of the next turn, and timers that never come."""

    def time(self) -> float:
        return 0

    def call_later(self, delay_s: float, callback: Any, *args: Any) -> Any:
        return self

    def cancel(self) -> None:
        """Of a timer."""

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class ManySockets(Socket):
    """One of several sockets."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self.room = 1 << 30
        self.closed = False

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        self.closed = True


def new_wire(loop: TurnedLoop, perf_counter: Callable[[], float] = lambda: 0.0) -> Wire:
    sockets = Sockets()
    sockets.epoll = None  # the loop has the readers
    return Wire(
        loop=cast(Any, loop),
        doors=Doors(clock=Clock(perf_counter=perf_counter), sockets=sockets),
        settings=NetSettings(),
        log=get_logger("tests.net"),
        on_close=lambda _: None,
    )


@pytest.mark.parametrize("login", [False, True])
def test_the_end_of_a_handshake_is_reported(certificates: Certificates, login: bool) -> None:
    ends: list[bool] = []
    loop, context = TurnedLoop(), certificates.server_context()
    setup = ListenerSetup(Answers(), REQUEST_MAX_BYTES, lambda: context, login, ends.append)

    def connect() -> ManySockets:
        sock = ManySockets(5)
        TlsConnection(new_wire(loop), sock, setup, "SSL", ("a", 1), ("b", 2)).start()
        return sock

    connect().incoming += b"GET / HTTP/1.1\r\n\r\n"
    run(loop)
    assert ends == [False]
    established(loop, connect(), certificates.client_context())
    run(loop)
    run(loop)
    assert ends == ([False] if login else [False, True])  # after a login, its dispatcher knows


@pytest.mark.parametrize(("step_s", "steps"), [(0.0, STEPS_PER_TURN), (STEPS_S / 4, 4), (STEPS_S, 1)])
def test_a_turn_of_the_loop_has_few_steps_of_handshakes(certificates: Certificates, step_s: float, steps: int) -> None:
    loop = TurnedLoop()
    seconds = itertools.count(0, step_s)
    wire = new_wire(loop, lambda: next(seconds))
    context = certificates.server_context()
    setup = ListenerSetup(Answers(), REQUEST_MAX_BYTES, lambda: context)
    sockets = [ManySockets(fd) for fd in range(20)]
    for sock in sockets:
        connection = TlsConnection(wire, sock, setup, "SSL", ("a", 1), ("b", 2))
        connection.start()
        sock.incoming += Peer(certificates.client_context()).handshake()
    for reader in list(loop.readers.values()):
        reader()
    for sock, reader in zip(sockets, list(loop.readers.values()), strict=True):
        sock.incoming += b"more"
        reader()
    assert not loop.readers  # nothing more is read before their turn
    assert all(sock.incoming == b"more" for sock in sockets)
    for turn in range(1, 21):
        loop.turn()
        assert sum(bool(sock.sent) for sock in sockets) == min(turn * steps, 20)
    assert len(loop.readers) == 20
    assert not loop.soon


def test_a_handshake_that_fails_unexpectedly_does_not_stop_the_others(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = TurnedLoop()
    wire = new_wire(loop)
    context = certificates.server_context()
    setup = ListenerSetup(Answers(), REQUEST_MAX_BYTES, lambda: context)
    sockets = [ManySockets(fd) for fd in range(3)]
    connections = [TlsConnection(wire, sock, setup, "SSL", ("a", 1), ("b", 2)) for sock in sockets]

    def handshake(tls: TlsSocket) -> bool:
        if tls is connections[0].tls:
            raise MemoryError
        return original(tls)

    original = TlsSocket.handshake
    monkeypatch.setattr(TlsSocket, "handshake", handshake)
    for connection, sock in zip(connections, sockets, strict=True):
        connection.start()
        sock.incoming += Peer(certificates.client_context()).handshake()
    for reader in list(loop.readers.values()):
        reader()
    loop.turn()
    loop.turn()
    assert sockets[0].closed
    assert all(sock.sent for sock in sockets[1:])
    assert "MemoryError" in capsys.readouterr().err


@pytest.mark.parametrize("part", [2 * TAKEN_MAX, TAKEN_MAX * 3 // 4, TAKEN_MAX // 2])
def test_a_turn_of_the_loop_sends_a_part_of_large_ranges(certificates: Certificates, tmp_path: Path, part: int) -> None:
    size = 4 * part
    (tmp_path / "segment").write_bytes(bytes(size))
    fd = os.open(tmp_path / "segment", os.O_RDONLY)
    loop, sock = TurnedLoop(), ManySockets(5)
    setup = ListenerSetup(Answers(), REQUEST_MAX_BYTES, certificates.server_context)
    connection = TlsConnection(new_wire(loop), sock, setup, "SSL", ("a", 1), ("b", 2))
    connection.start()
    peer = established(loop, sock, certificates.client_context())
    ranges = [FileRange(fd, 0, part, Owner()) for _ in range(4)]
    run(loop)
    connection.send([frame(bytes(size))[:4], *ranges], size + 4)
    received = sent = 0
    while received < size + 4:
        sent = len(sock.sent)
        received += len(peer.decrypt(bytes(sock.sent)))
        sock.sent.clear()
        assert 0 < sent < TAKEN_MAX + 3 * RECORD_BYTES
        run(loop)
    os.close(fd)
    assert connection.idle
    assert not loop.writers


# -- any order of events ----------------------------------------------------------------------------------------------

CERTIFICATES = Certificates()


@settings(max_examples=60, deadline=None)
@given(
    requests=requests(200_000, 40), steps=steps(80), at_once=st.lists(st.booleans(), max_size=40), version=st.booleans()
)
def test_order_and_bounds_hold_over_tls(
    requests: list[tuple[int, int]], steps: list[tuple[str, int]], at_once: list[bool], version: bool
) -> None:
    loop, sock, answers = TurnedLoop(), ManySockets(5), CheckedAnswers()
    answers.at_once = list(at_once)
    context = CERTIFICATES.server_context(ssl.TLSVersion.TLSv1_3 if version else ssl.TLSVersion.TLSv1_2)
    setup = ListenerSetup(answers, REQUEST_MAX_BYTES, lambda: context)
    connection = TlsConnection(new_wire(loop), sock, setup, "SSL", ("a", 1), ("b", 2))
    connection.start()
    peer = established(loop, sock, CERTIFICATES.client_context())
    received = b""
    sock.room = 1000  # of the server's part of the handshake, something may be left
    bodies = [key.to_bytes(2, "big") + n.to_bytes(4, "big") + b"." * size for n, (key, size) in enumerate(requests)]
    stream = b"".join(peer.encrypt(request(body[1], body[2:])) for body in bodies)
    finish = [("bytes", len(stream) + 1), *[("answer", 0), ("room", 1 << 30), ("turn", 0)] * (len(bodies) * 3 + 20)]
    for kind, number in [*steps, *finish]:
        if kind == "bytes":
            sock.incoming += stream[:number]
            stream = stream[number:]
        elif kind == "answer" and answers.pending:
            slot, body = answers.pending.pop(number % len(answers.pending))
            slot.answer([frame(body)], len(body) + 4)
        elif kind == "room":
            sock.room += number
        else:
            run(loop)
        assert connection.tls.unsent <= UNSENT_LIMIT
        received += peer.decrypt(bytes(sock.sent))
        sock.sent.clear()
    assert answers.started == bodies
    assert received == b"".join(frame(body) for body in bodies)
    assert connection.idle
    assert not sock.closed


def socket_and_peer(buffers: RecordBuffers) -> tuple[TlsSocket, Peer, ManySockets]:
    """A server's TLS socket after the handshake, its client, and what is between them."""
    sock = ManySockets(5)
    tls = TlsSocket(sock, CERTIFICATES.server_context(), buffers, server_side=True)
    peer = Peer(CERTIFICATES.client_context())
    sock.incoming += peer.handshake()
    complete = False
    while not complete:
        tls.receive()
        complete = tls.handshake()
        sock.incoming += peer.handshake(bytes(sock.sent))
        sock.sent.clear()
    return tls, peer, sock


def established(loop: TurnedLoop, sock: Socket, context: ssl.SSLContext) -> Peer:
    """A client whose part of the handshake is done; its last bytes are not read yet."""
    peer = Peer(context)
    sock.incoming += peer.handshake()
    while not peer.is_established():
        run(loop)
        sock.incoming += peer.handshake(bytes(sock.sent))
        sock.sent.clear()
    return peer


def run(loop: TurnedLoop) -> None:
    """One turn: what is ready, then what was scheduled."""
    for callbacks in (loop.readers, loop.writers):
        for callback in list(callbacks.values()):
            callback()
    loop.turn()


@settings(max_examples=100, deadline=None)
@given(
    records=st.lists(st.one_of(st.integers(1, 40), st.integers(1, RECORD_BYTES), st.just(RECORD_BYTES)), max_size=30),
    rooms=st.lists(st.one_of(st.integers(1, 100), st.sampled_from((RECORD_BYTES, 2 * RECORD_BYTES, RECEIVE_BYTES)))),
    arrivals=st.lists(st.integers(1, 200_000), max_size=10),
)
def test_nothing_is_left_when_neither_the_socket_nor_openssl_has_more(
    records: list[int], rooms: list[int], arrivals: list[int]
) -> None:
    tls, peer, sock = socket_and_peer(RecordBuffers())
    sent = [os.urandom(size) for size in records]
    stream = b"".join(map(peer.encrypt, sent))
    received = b""
    for arrival in [*arrivals, len(stream)]:
        sock.incoming += stream[:arrival]
        stream = stream[arrival:]
        while sock.incoming or tls.pending:
            buffer = memoryview(bytearray(rooms.pop() if rooms else RECEIVE_BYTES))
            try:
                received += buffer[: tls.recv_into(buffer)]
            except BlockingIOError:
                assert not tls.pending
    assert received == b"".join(sent)


# -- any bytes --------------------------------------------------------------------------------------------------------

mutations = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=6)


@settings(max_examples=150, deadline=None)
@given(
    garbage=st.binary(max_size=600),
    keep=st.integers(0, 600),
    mutations=mutations,
    pieces=st.lists(st.integers(1, 300), max_size=30),
)
def test_any_bytes_end_in_a_connection_that_is_open_or_closed(
    garbage: bytes, keep: int, mutations: list[tuple[int, int]], pieces: list[int]
) -> None:
    loop, sock, answers = TurnedLoop(), ManySockets(5), Answers()
    context = CERTIFICATES.server_context()
    setup = ListenerSetup(answers, REQUEST_MAX_BYTES, lambda: context)
    connection = TlsConnection(new_wire(loop), sock, setup, "SSL", ("a", 1), ("b", 2))
    connection.start()
    stream = bytearray(Peer(CERTIFICATES.client_context()).handshake()[:keep] + garbage)
    for position, value in mutations:
        if stream:
            stream[position % len(stream)] = value
    for piece in [*pieces, len(stream)]:
        sock.incoming += stream[:piece]
        del stream[:piece]
        run(loop)
        run(loop)
    assert not answers.frames
    assert not loop.soon
    if not sock.incoming:
        assert connection.closing or loop.readers


@settings(max_examples=60, deadline=None)
@given(mutations=mutations, cut=st.integers(0, 5000), version=st.booleans())
def test_changed_records_after_the_handshake_close_the_connection_or_are_ignored(
    mutations: list[tuple[int, int]], cut: int, version: bool
) -> None:
    loop, sock, answers = TurnedLoop(), ManySockets(5), Answers()
    context = CERTIFICATES.server_context(ssl.TLSVersion.TLSv1_3 if version else ssl.TLSVersion.TLSv1_2)
    setup = ListenerSetup(answers, REQUEST_MAX_BYTES, lambda: context)
    connection = TlsConnection(new_wire(loop), sock, setup, "SSL", ("a", 1), ("b", 2))
    connection.start()
    peer = established(loop, sock, CERTIFICATES.client_context())
    sent = [request(OTHER_KEY, b"%d" % n * 50) for n in range(20)]
    stream = bytearray(b"".join(map(peer.encrypt, sent)))
    for position, value in mutations:
        stream[position % len(stream)] = value
    sock.incoming += stream[cut % len(stream) :] if cut % 3 == 0 else stream
    for _ in range(40):
        run(loop)
    assert [frame(body) for body in answers.bodies] == sent[: len(answers.bodies)]  # nothing is made up
    assert connection.closed or len(answers.bodies) == 20 or loop.readers


# -- records before OpenSSL gets them ---------------------------------------------------------------------------------


def record(kind: int, payload: bytes) -> bytes:
    return bytes((kind, 3, 3)) + len(payload).to_bytes(2, "big") + payload


HELLO = record(22, b"\x01\x00\x00\x50" + bytes(0x50))


@given(cuts=st.lists(st.integers(1, 40), max_size=60))
def test_only_whole_records_are_passed_on(cuts: list[int]) -> None:
    records = HandshakeRecords(long_records=False)
    stream = HELLO + record(20, b"\x01") + record(22, bytes(70)) + record(23, bytes(SHORT_RECORD_MAX))
    given_on = b""
    for cut in [*cuts, len(stream)]:
        has_whole = records.add(memoryview(stream[:cut]))
        stream = stream[cut:]
        if has_whole:
            whole = records.take_whole()
            assert whole
            given_on += whole
        else:
            assert records.take_whole() == b""
    assert given_on.startswith(HELLO)
    assert records.take_rest() == b""


@pytest.mark.parametrize("size", [CLIENT_HELLO_MAX + 1, 131_396, 0xFFFFFF])
def test_a_hello_that_announces_more_than_is_usual_is_refused_at_once(size: int) -> None:
    records = HandshakeRecords(long_records=True)
    with pytest.raises(InvalidHandshake, match=str(size)):
        records.add(memoryview(b"\x16\x03\x01\x01\x00\x01" + size.to_bytes(3, "big")))


@pytest.mark.parametrize(("long", "most"), [(False, SHORT_RECORD_MAX), (True, RECORD_MAX)])
def test_records_of_certificates_may_be_long(long: bool, most: int) -> None:
    records = HandshakeRecords(long)
    records.add(memoryview(HELLO))
    records.take_whole()
    records.add(memoryview(record(22, bytes(most))))
    assert len(records.take_whole()) == most + HEADER
    with pytest.raises(InvalidHandshake, match=str(most + 1)):
        records.add(memoryview(b"\x16\x03\x03" + (most + 1).to_bytes(2, "big")))


def test_a_handshake_without_end_is_refused() -> None:
    records = HandshakeRecords(long_records=True)
    records.add(memoryview(HELLO))
    for _ in range(HANDSHAKE_MAX // RECORD_BYTES):
        records.take_whole()
        records.check()
        records.add(memoryview(record(22, bytes(RECORD_BYTES))))
    assert records.received > HANDSHAKE_MAX
    records.take_whole()
    with pytest.raises(InvalidHandshake, match=str(HANDSHAKE_MAX)):
        records.check()


@pytest.mark.parametrize("header", [b"\x00\x03\x03\x00\x01", b"\x18\x03\x03\x00\x01", b"\x16\x02\x03\x00\x01"])
def test_an_invalid_header_in_the_middle_is_refused(header: bytes) -> None:
    records = HandshakeRecords(long_records=False)
    records.add(memoryview(HELLO))
    records.take_whole()
    with pytest.raises(InvalidHandshake, match="invalid header"):
        records.add(memoryview(header))


def test_what_follows_the_handshake_may_be_long() -> None:
    records = HandshakeRecords(long_records=False)
    records.add(memoryview(HELLO))
    records.take_whole()
    finished, data = record(23, bytes(60)), record(23, bytes(RECORD_MAX))[:5000]
    records.add(memoryview(finished + data))
    assert records.take_whole() == finished
    assert records.take_rest() == data

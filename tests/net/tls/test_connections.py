"""What only TLS connections do: handshakes, records, alerts. What all connections do is tested over TLS as well."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.tls_peer import Peer
from harness.waiting import PATIENCE_S
from kwire.base.doors import Doors, Sockets
from kwire.base.file_range import FileRange
from kwire.net.connection import Connection
from kwire.net.handshake_records import CLIENT_HELLO_MAX, RECORD_MAX, SHORT_RECORD_MAX
from kwire.net.settings import OUTGOING_LIMIT, SMALL_RANGE
from kwire.net.tls import HEADER_BYTES, PIECE_BYTES, RECORD_BYTES, SEND_BYTES
from tests.net.conftest import OTHER_KEY, Certificates, Client, Network, frame, request
from tests.net.test_file_ranges import ColdFiles, Owner, answer_with

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
ALERT = 21


@pytest.fixture(params=VERSIONS, ids=["tls12", "tls13"])
async def network(request: pytest.FixtureRequest, certificates: Certificates) -> AsyncIterator[Network]:
    network = Network(certificates.server_context(request.param), certificates.client_context())
    yield network
    await network.close()


class RawClient:
    """A client whose records the test makes."""

    def __init__(self, network: Network, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert network.client_tls is not None
        self.peer = Peer(network.client_tls)
        self.reader = reader
        self.writer = writer
        self.received = b""

    @classmethod
    async def connect(cls, network: Network, **settings: Any) -> RawClient:
        server = network.servers[0] if network.servers else network.serve(**settings)
        reader, writer = await asyncio.open_connection(*server.listeners[0].address)
        network.clients.append(Client(reader, writer))
        return cls(network, reader, writer)

    async def send(self, data: bytes, piece: int = 0) -> None:
        for position in range(0, len(data), piece or len(data)):
            self.writer.write(data[position : position + (piece or len(data))])
            await self.writer.drain()
            if piece:
                await asyncio.sleep(0)

    async def handshake(self, piece: int = 0) -> None:
        await self.send(self.peer.handshake(), piece)
        while not self.peer.is_established():
            answer = self.peer.handshake(await self._read())
            if answer:
                await self.send(answer, piece)

    async def _read(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.reader.read(1 << 16)

    async def receive(self) -> bytes:
        """The body of the next frame."""
        while len(self.received) < 4 or len(self.received) < 4 + struct.unpack_from(">i", self.received)[0]:
            data = await self._read()
            assert data, "the server closed the connection"
            self.received += self.peer.decrypt(data)
        end = 4 + struct.unpack_from(">i", self.received)[0]
        body, self.received = self.received[4:end], self.received[end:]
        return body

    async def rest(self) -> bytes:
        """Everything until the server closes the connection."""
        data = b""
        try:
            while piece := await self._read():
                data += piece
        except ConnectionError:
            pass
        return data


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "segment").write_bytes(bytes(range(256)) * 20_000)
    fd = os.open(tmp_path / "segment", os.O_RDONLY)
    yield fd
    os.close(fd)


# -- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", [1, 7])
async def test_bytes_may_come_one_at_a_time(network: Network, piece: int) -> None:
    client = await RawClient.connect(network)
    await client.handshake(piece)
    await client.send(client.peer.encrypt(request(OTHER_KEY, b"slow") + request(OTHER_KEY, b"slower")), piece)
    assert [await client.receive() for _ in range(2)] == [b"\0\x01slow", b"\0\x01slower"]


async def test_a_frame_may_be_in_records_of_one_byte(network: Network) -> None:
    client = await RawClient.connect(network)
    await client.handshake()
    frames = request(OTHER_KEY, b"x" * 300) * 3
    await client.send(b"".join(client.peer.encrypt(frames[at : at + 1]) for at in range(len(frames))))
    assert [len(await client.receive()) for _ in range(3)] == [302] * 3


async def test_many_requests_may_be_in_one_record(network: Network) -> None:
    client = await RawClient.connect(network)
    await client.handshake()
    frames = b"".join(request(OTHER_KEY, b"%d" % n) for n in range(1000))
    assert len(frames) < RECORD_BYTES
    await client.send(client.peer.encrypt(frames))
    assert [await client.receive() for _ in range(1000)] == [b"\0\x01%d" % n for n in range(1000)]


async def test_requests_that_openssl_holds_are_started_when_those_before_them_are_answered(network: Network) -> None:
    network.answers.defer = True
    client = await RawClient.connect(network)
    await client.handshake()
    await client.send(client.peer.encrypt(request(OTHER_KEY, b"y" * 60_000) * 20))
    for number in range(20):
        await network.answers.count(number + 1)
        assert len(network.answers.frames) == number + 1
        network.answers.slots[number].answer([frame(b"%d" % number)], len(frame(b"%d" % number)))
    assert [await client.receive() for _ in range(20)] == [b"%d" % n for n in range(20)]


async def test_requests_may_follow_the_handshake_at_once(network: Network) -> None:
    client = await RawClient.connect(network)
    await client.send(client.peer.handshake())
    established = False
    while not established:
        answer = client.peer.handshake(await client._read())
        established = client.peer.is_established()
        if established:
            answer += client.peer.encrypt(request(OTHER_KEY, b"z" * 200_000) + request(OTHER_KEY, b"early"))
        await client.send(answer)
    assert len(await client.receive()) == 200_002
    assert await client.receive() == b"\0\x01early"


@pytest.mark.parametrize("record", [RECORD_BYTES, 1000, 40])
async def test_records_may_end_anywhere_in_what_is_received(network: Network, record: int) -> None:
    client = await RawClient.connect(network)
    await client.handshake()
    frames = b"".join(request(OTHER_KEY, bytes([n]) * 30_000) for n in range(10))
    pieces = [frames[at : at + record] for at in range(0, len(frames), record)]
    records, sent = b"".join(client.peer.encrypt(piece) for piece in pieces), 0
    for end in (70_003, 70_008, 120_000, 120_001, len(records)):
        await client.send(records[sent:end])
        await asyncio.sleep(0.01)  # so that the server receives it by itself, usually
        sent = end
    assert [await client.receive() for _ in range(10)] == [b"\0\x01" + bytes([n]) * 30_000 for n in range(10)]


@pytest.mark.parametrize("kept", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1])
async def test_the_begin_of_a_record_waits_for_its_end_and_holds_nothing_up(network: Network, kept: int) -> None:
    client = await RawClient.connect(network)
    await client.handshake()
    first, second = (client.peer.encrypt(request(OTHER_KEY, body)) for body in (b"first", b"second"))
    await client.send(first + second[:kept])
    assert await client.receive() == b"\0\x01first"
    await client.send(second[kept:])
    assert await client.receive() == b"\0\x01second"


async def test_a_record_of_forbidden_length_behind_a_valid_one_is_refused_at_once(network: Network) -> None:
    client = await RawClient.connect(network)
    await client.handshake()
    await client.send(client.peer.encrypt(request(OTHER_KEY, b"valid")) + b"\x17\x03\x03\xff\xff")
    with pytest.raises(ssl.SSLError, match=r"(?i)record.overflow"):
        client.peer.decrypt(await client.rest())


async def test_a_large_request_and_a_large_response_pass(network: Network) -> None:
    server = network.serve(send_buffer_bytes=50_000)
    client = await network.connect(server)
    body = os.urandom(9_000_000)
    await client.send(request(OTHER_KEY, body))
    async with asyncio.timeout(30):
        assert (await client.receive())[2:] == body


async def test_file_ranges_are_encrypted_and_never_given_to_sendfile(network: Network, file: int) -> None:
    def sendfile(*_: int) -> int:
        raise AssertionError("this would send plaintext")

    sockets = Sockets()
    sockets.sendfile = sendfile
    owner = Owner()
    ranges = [
        FileRange(file, at, size, owner) for at, size in ((3, 4_000_000), (9, SMALL_RANGE + 1), (9, 10), (0, 70_000))
    ]
    size = sum(part.size for part in ranges) + 4

    def answer(connection: Connection, body: memoryview) -> None:
        connection.send([struct.pack(">i", size), b"head", *ranges], size + 4)

    network.answers.answer = answer
    server = network.serve(doors=Doors(sockets=sockets), send_buffer_bytes=50_000)
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    content = bytes(range(256)) * 20_000
    expected = b"head" + b"".join(content[part.position : part.position + part.size] for part in ranges)
    assert await client.receive() == expected
    assert (owner.users, owner.releases) == (0, 4)


async def test_while_a_thread_reads_a_range_nothing_waits_for_the_socket(network: Network, file: int) -> None:
    files, owner = ColdFiles(), Owner()
    files.RWF_NOWAIT = 8
    network.answers.answer = answer_with(b"ab", FileRange(file, 100, 300_000, owner))
    client = await RawClient.connect(network, doors=Doors(files=files))
    await client.handshake()
    await client.send(client.peer.encrypt(request(OTHER_KEY)))
    await network.answers.count(1)
    (connection,) = network.servers[0].connections
    head = b""
    while not head:  # it is sent meanwhile
        head = client.peer.decrypt(await client._read())
    assert not connection._out._waiting
    files.may_read.set()
    client.received = head
    assert len(await client.receive()) == 300_002


async def test_unsent_ciphertext_is_bounded_and_counted(network: Network, file: int) -> None:
    size = 4_000_000
    owner = Owner()

    def answer(connection: Connection, body: memoryview) -> None:
        connection.send([struct.pack(">i", size), FileRange(file, 0, size, owner)], size + 4)

    network.answers.answer = answer
    client = await RawClient.connect(network, send_buffer_bytes=20_000)
    await client.handshake()
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(client.peer.encrypt(request(OTHER_KEY) * 3))
    await network.answers.count(1)
    (connection,) = network.servers[0].connections
    tls = connection.tls
    assert tls is not None
    for _ in range(20):
        await asyncio.sleep(0.001)
        assert tls.unsent <= SEND_BYTES + PIECE_BYTES + 2 * RECORD_BYTES
    assert tls.unsent
    assert connection._out.size
    assert len(network.answers.frames) == 1
    assert connection._out.size > OUTGOING_LIMIT
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(3):
        assert len(await client.receive()) == size
    assert not connection._out.size


async def test_a_request_that_is_held_back_starts_if_the_socket_takes_all_at_the_end_of_a_read(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What OpenSSL has to say is sent then, and what was to be sent before it with it."""
    size = OUTGOING_LIMIT + 1

    def answer(connection: Connection, body: memoryview) -> None:
        response = frame(bytes(size if body[2:] else 1))
        connection.send([response], len(response))

    network.answers.answer = answer
    client = await RawClient.connect(network, send_buffer_bytes=4_000_000)
    await client.handshake()
    await client.send(client.peer.encrypt(request(OTHER_KEY)))
    assert len(await client.receive()) == 1  # what is read next is answered at once
    (connection,) = network.servers[0].connections
    tls = connection.tls
    assert tls is not None
    sendmsg, read = tls._socket_sendmsg, Connection._readable
    accepts = False

    def limited(*arguments: Any) -> int:
        if not accepts:
            raise BlockingIOError
        return int(sendmsg(*arguments))

    def until_held(connection: Connection) -> None:
        nonlocal accepts
        read(connection)
        if connection._held is not None:
            assert connection._out.size > OUTGOING_LIMIT
            accepts = True

    tls._socket_sendmsg = limited
    monkeypatch.setattr(Connection, "_readable", until_held)
    await client.send(client.peer.encrypt(request(OTHER_KEY, b"large") * 2))
    for _ in range(2):
        assert len(await client.receive()) == size
    assert accepts


# -- the end ----------------------------------------------------------------------------------------------------------


async def test_the_server_ends_with_close_notify(network: Network) -> None:
    client = await RawClient.connect(network)
    await client.handshake()
    await client.send(client.peer.encrypt(request(OTHER_KEY, b"last")))
    assert await client.receive() == b"\0\x01last"
    network.servers[0].close_connections()
    client.peer.decrypt(await client.rest())
    assert client.peer.ended


@pytest.mark.parametrize("with_notify", [True, False])
async def test_the_end_of_the_stream_closes_the_connection_with_and_without_close_notify(
    network: Network, with_notify: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    client = await RawClient.connect(network)
    await client.handshake()
    await client.send(client.peer.encrypt(request(OTHER_KEY, b"last")) + (client.peer.end() if with_notify else b""))
    if not with_notify:
        client.writer.write_eof()
    await network.answers.count(1)
    await network.until_left(network.servers[0])
    assert "closing" not in capsys.readouterr().err


async def test_a_draining_server_sends_what_is_pending(network: Network) -> None:
    network.answers.defer = True
    client = await RawClient.connect(network)
    await client.handshake()
    await client.send(client.peer.encrypt(request(OTHER_KEY)))
    await network.answers.count(1)
    draining = asyncio.ensure_future(network.servers[0].drain(5))
    await asyncio.sleep(0)
    body = b"x" * 1_000_000
    network.answers.slots[0].answer([frame(body)], len(body) + 4)
    assert await client.receive() == body
    await draining


async def test_a_server_drains_while_a_handshake_is_half_done(network: Network) -> None:
    client = await RawClient.connect(network)
    await client.send(client.peer.handshake())
    await client._read()
    await network.servers[0].drain(5)
    assert not network.servers[0].connections


async def test_a_forged_record_closes_the_connection(network: Network, capsys: pytest.CaptureFixture[str]) -> None:
    client = await RawClient.connect(network)
    await client.handshake()
    good = client.peer.encrypt(request(OTHER_KEY, b"good"))
    forged = bytearray(client.peer.encrypt(request(OTHER_KEY, b"bad")))
    forged[-1] ^= 1
    await client.send(good)
    assert await client.receive() == b"\0\x01good"
    await client.send(bytes(forged))
    with pytest.raises(ssl.SSLError, match=r"(?i)bad.record.mac"):
        client.peer.decrypt(await client.rest())
    assert network.answers.bodies == [b"\0\x01good"]
    lines = capsys.readouterr().err.splitlines()
    assert [line.count("bad record mac") for line in lines if "closing" in line] == [1]


# -- what is no handshake ---------------------------------------------------------------------------------------------

METADATA = bytes.fromhex("0000001a0003000c0000000100056b77697265") + bytes(11)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        METADATA,
        b"\x80\x2e\x01\x03\x01" + bytes(50),  # SSLv2's ClientHello
        b"\x16\x03\x01\x00\x02\x01\x00",  # a record without room for a ClientHello
        b"\x16\x03\x01\x02\x00\x02\x00\x01\xfc" + bytes(508),  # a ServerHello
        b"\x16\x03\x01\x40\x00\x01\x00\x80\x00" + bytes(100),  # a ClientHello of 32 KiB
        b"\x15\x03\x03\x00\x02\x01\x00",  # an alert
        b"\x00",
    ],
    ids=["http", "kafka", "sslv2", "short", "server_hello", "huge", "alert", "byte"],
)
async def test_garbage_instead_of_a_handshake_gets_an_alert_and_one_line(
    network: Network, garbage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    client = await RawClient.connect(network)
    await client.send(garbage)
    assert (await client.rest())[:3] == bytes((ALERT, 3, 3))
    await network.until_left(network.servers[0])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "closing" in line]
    assert "TLS handshake failed" in line
    assert "Traceback" not in line


async def test_a_valid_begin_of_a_hello_with_nonsense_in_it_gets_an_alert(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    client = await RawClient.connect(network)
    await client.send(b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc" + b"\xff" * 252)
    assert (await client.rest())[:1] == bytes((ALERT,))
    assert capsys.readouterr().err.count("TLS handshake failed") == 1


async def test_a_long_record_before_the_end_of_the_handshake_is_refused(network: Network) -> None:
    client = await RawClient.connect(network)
    await client.send(client.peer.handshake())
    await client._read()
    await client.send(b"\x17\x03\x03" + struct.pack(">H", SHORT_RECORD_MAX + 1) + b"x")
    assert (await client.rest())[-7:-1] == bytes((ALERT, 3, 3, 0, 2, 2))


def test_limits_are_in_order() -> None:
    assert SHORT_RECORD_MAX < CLIENT_HELLO_MAX <= RECORD_MAX


async def test_a_client_that_leaves_during_the_handshake_is_no_trouble(
    network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    for sent in (b"", b"\x16\x03", None):
        client = await RawClient.connect(network)
        hello = client.peer.handshake()
        client.writer.write(hello if sent is None else sent)
        if sent is None:
            await client._read()
        client.writer.close()
        while not network.servers[0].accepted:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await network.until_left(network.servers[0])
    assert "closing" not in capsys.readouterr().err


async def test_a_client_that_resets_its_connection_during_the_handshake_is_no_trouble(network: Network) -> None:
    client = await RawClient.connect(network)
    sock: socket.socket = client.writer.get_extra_info("socket")
    await client.send(client.peer.handshake()[:50])
    while not network.servers[0].connections:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()
    await network.until_left(network.servers[0])


async def test_no_common_protocol_version_is_a_failed_handshake(
    certificates: Certificates, capsys: pytest.CaptureFixture[str]
) -> None:
    client_tls = certificates.client_context()
    client_tls.maximum_version = ssl.TLSVersion.TLSv1_2
    network = Network(certificates.server_context(), client_tls)
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
        await network.connect(network.serve())
    assert "unsupported protocol" in capsys.readouterr().err
    await network.close()


# -- certificates of clients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_certificate_of_a_client_is_known(certificates: Certificates, version: ssl.TLSVersion) -> None:
    network = Network(
        certificates.server_context(version, ssl.CERT_REQUIRED), certificates.client_context(certificate=True)
    )
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    await client.receive()
    (connection,) = server.connections
    assert connection.tls is not None
    presented = ssl.PEM_cert_to_DER_cert(certificates.client.cert_chain_pems[0].bytes().decode())
    assert connection.tls.peer_certificate_der() == presented
    assert connection.tls.version == version.name.replace("_", ".")
    assert connection.tls.cipher
    await network.close()


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_missing_certificate_is_an_alert_that_arrives(
    certificates: Certificates, version: ssl.TLSVersion, capsys: pytest.CaptureFixture[str]
) -> None:
    network = Network(certificates.server_context(version, ssl.CERT_REQUIRED), certificates.client_context())
    client = await RawClient.connect(network)
    with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
        await client.handshake()
        await client.send(client.peer.encrypt(request(OTHER_KEY)))  # with TLS 1.3, the client does not know yet
        client.peer.decrypt(await client.rest())
    assert not network.answers.frames
    assert "peer did not return a certificate" in capsys.readouterr().err
    await network.close()


async def test_without_client_authentication_there_is_no_certificate(network: Network) -> None:
    server = network.serve()
    client = await network.connect(server)
    await client.send(request(OTHER_KEY))
    await client.receive()
    (connection,) = server.connections
    assert connection.tls is not None
    assert connection.tls.peer_certificate_der() is None


async def test_a_plaintext_connection_has_no_tls(plain_network: Network) -> None:
    server = plain_network.serve()
    await plain_network.connect(server)
    while not server.connections:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert next(iter(server.connections)).tls is None

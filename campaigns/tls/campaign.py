"""Hostile byte streams against the TLS of a SASL_SSL listener, from somebody who has no password and forges no record.

    .venv/bin/python -m campaigns.tls --count 10000 --seed 1 --jobs 2

A seed is 1,000 streams of these kinds (`KINDS`):

- noise: no TLS, or records that are none; the connection ends before OpenSSL computes anything;
- hello: ClientHellos of real clients, damaged, some with corrected lengths, some split into many records;
- flight: a real handshake whose later flights are damaged, left out, repeated or mixed up;
- data: a finished handshake, then records that are damaged;
- inner: a finished handshake, then correctly encrypted records that no client sends: renegotiation, key updates,
  alerts, empty records, handshake messages, in TLS 1.2 and 1.3;
- honest: an undamaged login of bob, which must succeed.

Every stream arrives in pieces, split anywhere, with or without the end of the stream or a reset among them, and the
server may be unable to send. The connection is the broker's own (`kwire.net.tls_connection`, the login behind it).
Whatever comes:

- no exception leaves the connection, and nothing is logged as an error;
- what the server sends consists of TLS records;
- the frames that reach the login are those that the client encrypted, in order; nobody is logged in but bob;
- at rest a connection holds at most a record during the handshake, and little later; it sends a few times what it got;
- it comes to rest after every piece, and is closed at the latest when the time for a login is over, once.
"""

from __future__ import annotations

import atexit
import random
import shutil
import ssl
import struct
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from campaigns.logins import PASSWORDS, PLAIN, frame, handshake
from campaigns.seeds import Found, main, run_all
from campaigns.tls.line import BrokenRule, Line, Stage, plain_frame
from campaigns.tls.record_keys import Encryptor12, Encryptor13, secrets
from harness.processes.certificates import SERVER, Certificates
from harness.processor.cpu_time import CpuTime
from harness.tls_peer import Peer
from kwire.base.doors import Doors
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.net.handshake_records import HEADER, RECORD_MAX
from kwire.net.tls import FEED_BYTES, SEND_BYTES, UNSENT_LIMIT
from kwire.security.principals import ANONYMOUS, Principal
from kwire.security.sasl.plain import ServerPlain
from kwire.security.tls.contexts import server_context
from kwire.security.tls.settings import TlsSettings
from kwire.server.authentication.settings import LoginSettings, Mechanism

STREAMS: Final = 1000
TIME_MAX_S: Final = 0.5
SENT_BYTES: Final = 64 * 1024
SENT_FACTOR: Final = 64
FRAME_MAX: Final = 512 * 1024 + 4
KINDS: Final = {"noise": 52.7, "hello": 43, "flight": 2, "data": 1.2, "inner": 0.6, "honest": 0.5}
"""Kinds of streams with their shares in per cent."""

BOB: Final = Principal("User", "bob")
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23
LOGIN: Final = (
    frame(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3),
    handshake(PLAIN, 1),
    frame(SaslAuthenticateRequest(auth_bytes=b"\0bob\0bob-secret"), 2),
)
REFUSED: Final = (handshake("NONE", 1), *LOGIN[:2], frame(SaslAuthenticateRequest(auth_bytes=b"\0bob\0x"), 2))


class Bench:
    """What the streams of a process share: certificates, contexts and ClientHellos."""

    def __init__(self, folder: Path) -> None:
        found = Certificates.make(folder)
        self.servers = [self._server(found, client_auth) for client_auth in ("none", "required")]
        self.key_log = folder / "keys"
        self._ca, self._identity = found.ca, found.client
        both = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
        self.clients = [self._client(low, high) for low, high in (both, both[:1] * 2, both[1:] * 2)]
        self.logged = [self._client(each, each, logged=True) for each in both]
        self.hellos = [Peer(context, SERVER).handshake() for context in self.clients for _ in range(4)]
        self.stage = Stage(LoginSettings({PLAIN: Mechanism(lambda: ServerPlain(PASSWORDS))}, "SASL_SSL"))

    @staticmethod
    def _server(found: Certificates, client_auth: str) -> ssl.SSLContext:
        settings = TlsSettings(
            keystore_type="PEM",
            keystore_location=str(found.server.pem),
            truststore_type="PEM",
            truststore_location=str(found.ca),
            client_auth=client_auth,
        )
        return server_context(settings, Doors().files)

    def _client(self, low: ssl.TLSVersion, high: ssl.TLSVersion, logged: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self._ca)
        context.load_cert_chain(self._identity.pem)
        context.minimum_version, context.maximum_version = low, high
        if logged:
            context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
            context.keylog_filename = str(self.key_log)
        return context


@cache
def bench() -> Bench:
    """The bench of this process."""
    folder = tempfile.mkdtemp(prefix="campaigns-tls-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Bench(Path(folder))


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Bytes with one change."""
    changed = bytearray(data)
    at = chance.randrange(len(changed) + 1)
    kind = chance.randrange(7)
    if kind == 0 and at < len(changed):
        changed[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del changed[at : at + chance.randrange(1, 9)]
    elif kind == 2:
        changed[at : at + 2] = chance.choice((b"\0\0", b"\xff\xff", b"\x40\0", b"\x3f\xff", b"\0\x01"))
    elif kind == 3:
        changed[at : at + 4] = chance.randbytes(4)
    elif kind == 4:
        changed[at:at] = chance.randbytes(chance.choice((1, 2, 60, 3000, 20000)))
    elif kind == 5:
        del changed[at:]
    else:
        other = chance.randrange(len(changed) + 1)
        changed[at:at] = changed[other : other + chance.randrange(1, 200)]
    return bytes(changed)


def record(kind: int, content: bytes, version: bytes = b"\x03\x03") -> bytes:
    """A plaintext record."""
    return bytes((kind,)) + version + struct.pack(">H", len(content) & 0xFFFF) + content


# -- streams ----------------------------------------------------------------------------------------------------------


class Attack:
    """One stream against one connection."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._bench = bench()
        self._context = chance.choice(self._bench.servers)
        self.line = Line(self._context, self._bench.stage)
        self.plaintext = bytearray()
        """What the client has encrypted as data."""
        self.received = 0
        self._is_over = False
        if chance.random() < 0.1:
            self.line.socket.room = chance.randrange(300)

    def send(self, data: bytes) -> None:
        """Let bytes arrive in pieces."""
        chance, line = self._chance, self.line
        if self._is_over:
            return
        self.received += len(data)
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 5))))
        if len(data) < 300 and chance.random() < 0.02:
            cuts = list(range(1, len(data)))
        start = 0
        for end in (*cuts, len(data)):
            line.deliver(data[start:end])
            self.check_rest()
            start = end
            if line.socket.room < 1 << 20 and chance.random() < 0.5:
                line.socket.room += chance.choice((1, 100, 5000, 1 << 30))
                line.run()
        if chance.random() < 0.02:
            line.loop.now_s += chance.choice((0.05, 1.0))

    def end(self) -> None:
        """Perhaps close the client's side."""
        kind = self._chance.randrange(4)
        if kind and not self._is_over:
            self._is_over = True
            self.line.end(reset=kind == 1)

    def noise(self) -> None:
        """No TLS."""
        chance = self._chance
        hello = chance.choice(self._bench.hellos)
        kind = chance.choice((20, 21, 22, 22, 22, 23, 24, 0, 128))
        random_record = record(kind, chance.randbytes(chance.choice((0, 1, 3, 40, 500))))
        size = chance.choice((0, 1, 3, 4, 5, 511, 16384, 16385, 65535))
        begun = bytes((22, 3, chance.randrange(5))) + struct.pack(">H", size)
        begun += b"\x01" + chance.choice((0, 4, 500, 16380, 1 << 23)).to_bytes(3, "big")
        data = chance.choice(
            (
                chance.randbytes(chance.choice((1, 5, 9, 100, 2000))),
                b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
                plain_frame(chance.choice(LOGIN)),
                b"\x80\x2e\x01\x03\x01" + chance.randbytes(44),  # SSL 2
                random_record,
                random_record + hello,
                begun,
                begun + bytes(size),
                begun + chance.randbytes(chance.choice((10, 700, 70_000))),
                hello[: chance.randrange(len(hello))],
                record(ALERT, b"\x02\x28"),
                record(ALERT, b"\x01\0") * 50,
                record(HANDSHAKE, b"") * 20 + hello,
                damaged(chance, hello[:9]) + hello[9:],
            )
        )
        self.send(data)

    def hello(self) -> None:
        """A damaged ClientHello, and something after it."""
        chance = self._chance
        body = chance.choice(self._bench.hellos)[HEADER:]
        for _ in range(chance.randint(1, 3)):
            body = damaged(chance, body)
        if chance.random() < 0.6:
            body = b"\x01" + (max(len(body) - 4, 0) & 0xFFFFFF).to_bytes(3, "big") + body[4:]
        step = chance.choice((1 << 14, 1 << 14, 1 << 14, 500, 100, 17))
        if len(body) > step * 300:
            step = 1 << 14
        data = b"".join(record(HANDSHAKE, body[at : at + step], b"\x03\x01") for at in range(0, len(body), step))
        self.send(data)
        if chance.random() < 0.3:
            self.end()
            self.send(
                chance.choice((data, record(ALERT, b"\x02\x28"), record(CHANGE_CIPHER_SPEC, b"\x01"), b"\0" * 99))
            )

    def flight(self) -> None:
        """A handshake, damaged somewhere after the ClientHello."""
        chance = self._chance
        client = Peer(chance.choice(self._bench.clients), SERVER)
        data = client.handshake()
        for _ in range(4):
            self.send(data)
            try:
                data = client.handshake(self.line.take())
            except ssl.SSLError:
                return
            if chance.random() < 0.7:
                data = self._other_flight(data)
            if chance.random() < 0.1:
                self.end()
        self.send(data)

    def _other_flight(self, data: bytes) -> bytes:
        chance = self._chance
        records = cut_at_records(data)
        kind = chance.randrange(6)
        if kind == 0 and records:
            del records[chance.randrange(len(records))]
        elif kind == 1 and records:
            records.insert(chance.randrange(len(records) + 1), chance.choice(records))
        elif kind == 2:
            chance.shuffle(records)
        elif kind == 3:
            found = chance.choice((20, 21, 22, 22, 23))
            content = chance.choice((b"\x01", b"\x01\0", b"\x02\0", b"\x18\0\0\x01\x01", b"\x14\0\0\x0c" + bytes(12)))
            records.insert(chance.randrange(len(records) + 1), record(found, content) * chance.choice((1, 1, 40)))
        else:
            return damaged(chance, data)
        return b"".join(records)

    def _shake_hands(self, context: ssl.SSLContext) -> Peer | None:
        """A whole handshake; None if the server could not send."""
        client = Peer(context, SERVER)
        data = client.handshake()
        for _ in range(3):
            self.send(data)
            if client.is_established():
                return client
            data = client.handshake(self.line.take())
            if client.is_established() and self._chance.random() < 0.6:  # data together with the last flight
                break
        if not client.is_established():
            return None
        self._late = data
        return client

    _late = b""

    def _encrypted(self, client: Peer, frames: tuple[bytes, ...]) -> bytes:
        data = b""
        for each in frames:
            whole = plain_frame(each)
            self.plaintext += whole
            data += client.encrypt(whole)
        return data

    def data(self) -> None:
        """Damaged records after the handshake."""
        chance = self._chance
        self.line.socket.room = 1 << 30
        client = self._shake_hands(chance.choice(self._bench.clients))
        if client is None:
            return
        data = self._late + self._encrypted(client, chance.choice((LOGIN, REFUSED, REFUSED[:1])))
        for _ in range(chance.randint(1, 2)):
            data = self._other_flight(data)
        self.send(data)

    def inner(self) -> None:
        """Records that are encrypted correctly, and that no client sends."""
        chance, shared = self._chance, self._bench
        self.line.socket.room = 1 << 30
        shared.key_log.write_bytes(b"")
        newest = chance.randrange(2)
        client = Peer(shared.logged[newest], SERVER)
        hello = client.handshake()
        self.send(hello)
        received = self.line.take()
        flight = client.handshake(received)
        if not client.is_established():  # TLS 1.2: the server's Finished is still to come
            self.send(flight)
            client.handshake(self.line.take())
            flight = b""
        found = secrets(shared.key_log.read_text())
        key = Encryptor13(found) if newest else Encryptor12(found, hello[11:43], received[11:43])
        data = flight
        for _ in range(chance.randint(1, 4)):
            data += self._inner_records(key)
        self.send(data)
        self.line.socket.room += chance.choice((0, 1 << 20))

    def _inner_records(self, key: Encryptor13 | Encryptor12) -> bytes:
        chance = self._chance
        hello = chance.choice(self._bench.hellos)[HEADER:]
        kind = chance.randrange(10)
        if kind < 3:
            whole = plain_frame(chance.choice((*LOGIN, *REFUSED)))
            self.plaintext += whole
            return key.record(DATA, whole, padding=chance.choice((0, 0, 1, 300)))
        contents = {
            3: (HANDSHAKE, hello, (1, 3, 200)),
            4: (HANDSHAKE, b"\x18\0\0\x01" + bytes((chance.randrange(3),)), (1, 2, 33, 500)),
            5: (
                ALERT,
                chance.choice((b"\x01\0", b"\x01\x5a", b"\x01\x64", b"\x02\x28", b"\x01", b"\x05\x05")),
                (1, 6, 50),
            ),
            6: (DATA, b"", (1, 31, 33, 500)),
            7: (
                HANDSHAKE,
                chance.choice((b"\0\0\0\0", b"\x04\0\0\0", b"\x0d\0\0\0", b"\x14\0\0\0", b"\x01\xff\xff\xff", b"")),
                (1, 40),
            ),
            8: (chance.choice((CHANGE_CIPHER_SPEC, 24, 0, 255)), chance.randbytes(chance.randrange(9)), (1, 5)),
            9: (HANDSHAKE, chance.randbytes(chance.choice((1, 4, 100, 16000))), (1,)),
        }
        content_type, content, repeats = contents[kind]
        return b"".join(key.record(content_type, content) for _ in range(chance.choice(repeats)))

    def honest(self) -> None:
        """Bob logs in, whatever the pieces."""
        self.line.socket.room = 1 << 30
        client = self._shake_hands(self._chance.choice(self._bench.clients))
        if client is None:
            raise BrokenRule("the handshake did not end")
        frames = (*LOGIN, handshake(PLAIN, 1))
        self.send(self._late + self._encrypted(client, frames))
        if self.line.stage.frames != list(frames):
            raise BrokenRule(f"{len(self.line.stage.frames)} of {len(frames)} frames were dispatched")
        answers = client.decrypt(self.line.take())
        if not answers.endswith(plain_frame(b"answer")):
            raise BrokenRule("the answers are not complete")

    # -- rules --------------------------------------------------------------------------------------------------------

    def check_rest(self) -> None:
        """The rules when the server has done all it can do."""
        line, connection = self.line, self.line.connection
        if line.log.errors:
            raise BrokenRule(line.log.errors[0])
        if line.socket.sent and (held := len(connection._records._bytes)) > RECORD_MAX + HEADER:
            raise BrokenRule(f"{held} bytes are held")
        if not connection.closed:
            self._check_open()
        if len(line.socket.sent) > SENT_BYTES + SENT_FACTOR * self.received:
            raise BrokenRule(f"{len(line.socket.sent)} bytes are sent for {self.received}")

    def _check_open(self) -> None:
        line, connection = self.line, self.line.connection
        tls = connection.tls
        if len(connection._records._bytes) > RECORD_MAX + HEADER:
            raise BrokenRule(f"{len(connection._records._bytes)} bytes are held")
        if tls.unsent > UNSENT_LIMIT + SEND_BYTES or tls._incoming.pending > 2 * FEED_BYTES:
            raise BrokenRule(f"{tls.unsent} bytes are unsent, {tls._incoming.pending} not read")
        if connection._partial is not None and len(connection._partial) > FRAME_MAX:
            raise BrokenRule("a frame that is too large")
        if line.loop.reader is None and line.loop.writer is None and not line.loop.timers:
            raise BrokenRule("the connection waits for nothing")

    def check_end(self) -> str:
        """The rules of a stream that is over. Returns how it went."""
        line = self.line
        at_end = "closed" if line.connection.closed else "refused" if line.connection.closing else "open"
        self.check_rest()
        line.socket.room = 1 << 30
        line.run()
        is_bob = getattr(line.connection.context, "principal", ANONYMOUS) != ANONYMOUS
        dispatched = b"".join(map(plain_frame, line.stage.frames))
        if dispatched != self.plaintext[: len(dispatched)]:
            raise BrokenRule("a frame that nobody has encrypted")
        if is_bob and (line.connection.context.principal != BOB or plain_frame(LOGIN[2]) not in self.plaintext):
            raise BrokenRule(f"somebody is {line.connection.context.principal}")
        if not is_bob:
            line.wait()
            if not line.connection.closed:
                raise BrokenRule("the connection is never closed")
        else:
            line.end(reset=False)
        if (line.closings, line.loop.reader, line.loop.writer) != (1, None, None):
            raise BrokenRule(f"closed {line.closings} times, or still in the loop")
        if line.log.errors:
            raise BrokenRule(line.log.errors[0])
        check_records(bytes(line.socket.sent))
        return "logged in" if is_bob else "frames" if dispatched else at_end


def cut_at_records(data: bytes) -> list[bytes]:
    """A client's flight in its records, as far as it has any."""
    found, at = [], 0
    while at < len(data):
        size = HEADER + int.from_bytes(data[at + 3 : at + 5], "big")
        found.append(data[at : at + size])
        at += size
    return found


def check_records(sent: bytes) -> None:
    """Check that the server has sent TLS records only; the last one may be cut. `BrokenRule`."""
    for each in cut_at_records(sent):
        if each[0] == ALERT and each[3:HEADER] in (b"\0\2", b"\0", b""):
            continue  # in the version of the client's record, whatever that is
        if each[0] not in (CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, DATA) or each[1:2] not in (b"\x03", b""):
            raise BrokenRule(f"no TLS record: {each[:8].hex()}")
        if len(each) > RECORD_MAX + HEADER:
            raise BrokenRule(f"a record of {len(each)} bytes")


def run_stream(chance: random.Random) -> str:
    """Send one stream. Returns its kind and how it went; `BrokenRule`."""
    kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
    with CpuTime() as spent:
        attack = Attack(chance)
        send: Callable[[], None] = getattr(attack, kind)
        send()
        if kind != "honest":
            attack.end()
        how = attack.check_end()
    if spent.seconds > TIME_MAX_S:
        raise BrokenRule(f"a stream of {attack.received} bytes took {spent.seconds:.2f} s")
    return f"{kind}, {how}"


def run_seed(seed: int) -> tuple[Counter[str], str | None]:
    """1,000 streams: how they went, and what was wrong."""
    happened: Counter[str] = Counter()
    for number in range(STREAMS):
        try:
            happened[run_stream(random.Random(seed * STREAMS + number))] += 1
        except BrokenRule as error:
            return happened, f"seed {seed}, stream {number}: {error}"
        except Exception as error:
            return happened, f"seed {seed}, stream {number}: {error!r}"
    return happened, None


def run_seeds(first: int, count: int) -> Found:
    """Run some seeds; see `campaigns.seeds`."""
    return run_all(range(first, first + count), run_seed, "seeds")


def command() -> int:
    """The command line."""
    return main("tls", "tls", __doc__, run_seeds, count=10_000)

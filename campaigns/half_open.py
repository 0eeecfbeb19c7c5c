"""Half-open TLS handshakes and logins: what each costs a broker, and how long other clients wait meanwhile.

    .venv/bin/python -m campaigns.half_open [--count 10000] [--kind hello ...]

A process opens ``--count`` connections of one kind and leaves each unfinished (`kinds`), as fast as the broker accepts
them. Then it sends one more byte on each, and at last it ends, which closes all of them at once. Meanwhile another
client, which has connected before, sends Metadata requests over TLS one after the other. Printed is a line of JSON per
kind: by how many KiB per connection the broker's resident memory has grown once all are open, how long the client
waited for a response at most (milliseconds, and the broker's processor time meanwhile; beside it without any
connections), how many connections the broker has closed by itself, and the seconds that it took to open all. Where the
system allows it, the client has real-time priority: the time until it is scheduled again would count as the broker's.

The broker and the process that attacks it need a descriptor per connection: the limit is raised as far as the system
allows. All connections must be open within the broker's time limit of a handshake (30 s).
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import socket
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final, NamedTuple

from campaigns.command_line import campaign_parser
from harness.inspection.process_usage import cpu_s, resident_mb
from harness.processes.secured import SecuredBroker, make_secured
from harness.waiting import PATIENCE_S
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.testing.frames import request_frame

CONNECTING: Final = 200
"""Connections that are opened at a time, fewer than fit into the backlog."""

SETTINGS: Final = {"socket.listen.backlog.size": "4096"}

STEP_S: Final = 0.001
"""Seconds between two requests of the other client."""

PHASE_S: Final = 3.0
"""Seconds that the other client is measured before the connections are opened, and after they are closed."""
ATTACKER_NICE: Final = 10
"""The attacker stands for other machines: it takes what processor time the broker leaves."""
SPARE_DESCRIPTORS: Final = 500
KIB_MAX: Final = 64
WAIT_MAX_MS: Final = 20


class Kind(NamedTuple):
    """A kind of unfinished connection. ``first`` is sent at once, ``second`` when the broker has sent something."""

    listener: str
    first: bytes
    second: bytes = b""
    answered: bool = False
    """Whether the broker sends something after ``first``."""


def client_hello(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """A ClientHello as OpenSSL sends it."""
    context = ssl.create_default_context()
    context.maximum_version = version
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def _record(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHH", kind, 0x0303, len(payload)) + payload


def _message(kind: int, size: int) -> bytes:
    """A TLS message that announces a size, with zeros."""
    return bytes((kind,)) + size.to_bytes(3, "big") + bytes(size)


def _records_of(message: bytes) -> bytes:
    return b"".join(_record(22, message[at : at + 16384]) for at in range(0, len(message), 16384))


def kinds() -> dict[str, Kind]:
    """All kinds, by name."""
    hello, hello_12 = client_hello(), client_hello(ssl.TLSVersion.TLSv1_2)
    large_hello = _record(22, _message(1, 16380))
    login = request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "x")
    return {
        "nothing": Kind("SSL", b""),
        "half a hello": Kind("SSL", hello[: len(hello) // 2]),
        "almost a hello of 16 KiB": Kind("SSL", large_hello[:-1]),
        "a hello": Kind("SSL", hello, answered=True),
        "a hello where a certificate is required": Kind("MTLS", hello, answered=True),
        "almost a certificate of 16 KiB": Kind("MTLS", hello, _record(23, bytes(16384))[:-1], answered=True),
        "almost certificates of 24 KiB, TLS 1.2": Kind(
            "MTLS", hello_12, _records_of(_message(11, 24 * 1024))[:-1], answered=True
        ),
        "almost certificates of 96 KiB, TLS 1.2": Kind(
            "MTLS", hello_12, _records_of(_message(11, 96 * 1024))[:-1], answered=True
        ),
        "no login": Kind("SASL_PLAINTEXT", b""),
        "half a login": Kind("SASL_PLAINTEXT", login, struct.pack(">i", 500_000) + bytes(400), answered=True),
        "most of a login of 500 KB": Kind("SASL_PLAINTEXT", login, struct.pack(">i", 500_000) + bytes(480_000), True),
    }


class Wait(NamedTuple):
    """The longest wait for a response, in milliseconds."""

    ms: float
    busy_ms: float
    """The most processor time that the broker used between a request and its response. It does not depend on what else
    the machine does."""


class Outcome(NamedTuple):
    """What ``count`` connections of a kind cost."""

    kind: str
    connections: int
    kib_each: float
    idle: Wait
    """The longest wait of the other client before."""
    opening: Wait
    """While the connections are opened."""
    sending: Wait
    """While a byte is sent on each."""
    closing: Wait
    """While they are closed."""
    refused: int
    """Connections that the broker has closed by itself."""
    took_s: float

    @property
    def busy_ms(self) -> float:
        """The longest time that the broker worked before the response to the other client."""
        return max(self.opening.busy_ms, self.sending.busy_ms, self.closing.busy_ms)


# -- the process that attacks -----------------------------------------------------------------------------------------


class _Unfinished:
    """One connection: ``data`` is what is still to be sent."""

    def __init__(self, kind: Kind, address: tuple[str, int]) -> None:
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex(address)
        self.data = memoryview(kind.first)
        self._kind = kind
        self._awaits = kind.answered
        self.done = False
        self.closed = False

    @property
    def wanted(self) -> int:
        """The event that it waits for."""
        return selectors.EVENT_READ if self._awaits and not self.data else selectors.EVENT_WRITE

    def go_on(self) -> None:
        """Do what is possible now."""
        try:
            if self.data:
                self.data = self.data[self.socket.send(self.data) :]
            elif self._awaits:
                if not self.socket.recv(65536):
                    raise ConnectionResetError
                self._awaits, self.data = False, memoryview(self._kind.second)
            self.done = not self.data and not self._awaits
        except BlockingIOError:
            return
        except OSError:
            self.done = self.closed = True


def attack(kind: Kind, address: tuple[str, int], count: int, pipe: Pipe) -> None:
    """Open the connections. When something is received, send a byte on each, and then how many of them the broker has
    closed. Ends when something is received again."""
    raise_file_limit()
    give_way()
    connections: list[_Unfinished] = []
    selector = selectors.DefaultSelector()
    pending = 0
    while len(connections) < count or pending:
        while len(connections) < count and pending < CONNECTING:
            one = _Unfinished(kind, address)
            connections.append(one)
            selector.register(one.socket, one.wanted, one)
            pending += 1
        for key, _ in selector.select(PATIENCE_S):
            one = key.data
            one.go_on()
            if one.done:
                selector.unregister(one.socket)
                pending -= 1
            else:
                selector.modify(one.socket, one.wanted, one)
    pipe.send(None)
    pipe.recv()
    for one in connections:
        with suppress(OSError):
            one.socket.send(b"\0")
    pipe.send(sum(map(_is_closed, connections)))
    pipe.recv()


def _is_closed(one: _Unfinished) -> bool:
    try:
        while one.socket.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def raise_file_limit() -> int:
    """Allow this process, and those that it starts, as many descriptors as the system lets it. Returns the limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return limit


def give_way() -> None:
    """Have the system run other processes before this one."""
    os.nice(ATTACKER_NICE)
    with suppress(OSError):
        # Linux shares processors between sessions first (autogroup), and the broker is a session of its own.
        Path("/proc/self/autogroup").write_text(str(ATTACKER_NICE))


@contextmanager
def real_time_priority() -> Iterator[None]:
    """Have the system run this process before others, if it is allowed to."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


# -- the measurement --------------------------------------------------------------------------------------------------


class Other:
    """A client over TLS that has connected before."""

    def __init__(self, broker: SecuredBroker) -> None:
        context = ssl.create_default_context(cafile=broker.certificates.ca)
        sock = socket.create_connection((broker.host, broker.ports["SSL"]), PATIENCE_S)
        self._socket = context.wrap_socket(sock, server_hostname=broker.host)
        self._pid = broker.pid
        self._request = request_frame(MetadataRequest(topics=[]), 9, 1, "other")

    def longest_wait(self, over: Callable[[], bool]) -> Wait:
        """Send request after request until ``over``. The longest time until a response."""
        longest = longest_cpu = 0.0
        with real_time_priority():
            while not over():
                began_cpu, began = cpu_s(self._pid), time.monotonic()
                self.ask()
                longest = max(longest, time.monotonic() - began)  # without what it takes to look into /proc
                longest_cpu = max(longest_cpu, cpu_s(self._pid) - began_cpu)
                time.sleep(STEP_S)
        return Wait(round(longest * 1000, 1), round(longest_cpu * 1000, 1))

    def ask(self) -> None:
        """One request and its response."""
        self._socket.sendall(self._request)
        (size,) = struct.unpack(">i", self._read(4))
        self._read(size)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError("the broker closed the connection of another client")
            data += part
        return data

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def measure(broker: SecuredBroker, name: str, kind: Kind, count: int, phase_s: float) -> Outcome:
    """Open ``count`` connections of a kind on a broker that runs."""
    other = Other(broker)
    for _ in range(200):  # what the first requests load is not counted
        other.ask()
    ours, theirs = get_context("spawn").Pipe()
    address = (broker.host, broker.ports[kind.listener])
    process = get_context("spawn").Process(target=attack, args=(kind, address, count, theirs))
    before_kib = _resident_kib(broker)
    idle = other.longest_wait(_times_up(phase_s))
    process.start()
    began = time.monotonic()
    try:
        opening = other.longest_wait(ours.poll)
        took_s = time.monotonic() - began
        ours.recv()
        kib = _resident_kib(broker) - before_kib
        ours.send(None)
        sending = other.longest_wait(ours.poll)
        refused = ours.recv()
        process.kill()
        closing = other.longest_wait(_times_up(phase_s))
    finally:
        other.close()
        process.kill()
        process.join()
    kib_each = round(kib / count, 1)
    return Outcome(name, count, kib_each, idle, opening, sending, closing, refused, round(took_s, 1))


def _resident_kib(broker: SecuredBroker) -> float:
    return resident_mb(broker.pid) * 1e6 / 1024


def _times_up(phase_s: float) -> Callable[[], bool]:
    end = time.monotonic() + phase_s
    return lambda: time.monotonic() > end


def run(count: int, names: list[str], phase_s: float = PHASE_S) -> list[Outcome]:
    """Measure kinds one after the other, each with a new broker."""
    available = raise_file_limit()
    if available < count + SPARE_DESCRIPTORS:
        raise SystemExit(f"{count} connections need {count + SPARE_DESCRIPTORS} descriptors; ulimit -Hn is {available}")
    known = kinds()
    outcomes = []
    for name in names or list(known):
        with tempfile.TemporaryDirectory() as home:
            broker = make_secured("kwire", Path(home), SETTINGS)
            broker.start()
            try:
                outcomes.append(measure(broker, name, known[name], count, phase_s))
            finally:
                broker.kill()
        print(json.dumps(outcomes[-1]._asdict()), flush=True)
    return outcomes


def main() -> int:
    """The command line; the exit status."""
    parser = campaign_parser("half_open", __doc__)
    parser.add_argument("--count", type=int, default=10_000, help="connections of each kind")
    parser.add_argument("--kind", action="append", default=[], choices=list(kinds()), help="only these kinds")
    arguments = parser.parse_args()
    outcomes = run(arguments.count, arguments.kind)
    return max(each.kib_each > KIB_MAX or each.busy_ms > WAIT_MAX_MS for each in outcomes)


if __name__ == "__main__":
    sys.exit(main())

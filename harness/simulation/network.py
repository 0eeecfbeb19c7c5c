"""A simulated network: sockets whose bytes arrive later, in pieces, as a seed decides.

Order within a connection is kept, as with TCP; the delay and the size of each piece are random. Send windows are
finite, so there is back-pressure.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import Context
from ipaddress import ip_address
from random import Random
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from kwire.base.doors import Sockets

if TYPE_CHECKING:
    from harness.simulation.disk import Disk
    from harness.simulation.loop import VirtualLoop
    from harness.simulation.trace import Trace

WINDOW: Final = 256 * 1024
"""Bytes that may be on the way or unread in one direction."""

DELAY_S: Final = (50e-6, 2e-3)
WIRE: Final = Context()
"""The `Life` of callbacks that belong to no process."""

PIECE_MIN: Final = 512
"""The smallest piece; with shorter ones large frames would take for ever."""


def address_of(host: str) -> str:
    """The IP address from which a host connects to others: it depends on nothing but the host's name."""
    with suppress(ValueError):
        return str(ip_address(host))
    return str(ip_address(0x0A000000 | crc32(host.encode()) & 0xFFFFFF))


class Network:
    """All sockets of a simulation."""

    def __init__(self, loop: VirtualLoop, trace: Trace, random: Random) -> None:
        self.loop = loop
        self.trace = trace
        self.random = random
        self.listeners: dict[tuple[str, int], ListeningSocket] = {}
        self.sockets: dict[SimulatedSocket, str] = {}  # the host of each
        self._cut: dict[frozenset[str], list[Callable[[], None]]] = {}
        self._next_port = 30_000

    # -- faults -----------------------------------------------------------------------------------------------------

    def cut(self, one: str, other: str) -> None:
        """Let nothing pass between two hosts until `heal`. Data in flight arrives then, as with TCP."""
        self._cut.setdefault(frozenset((one, other)), [])

    def heal(self, one: str, other: str) -> None:
        """Let everything pass again."""
        for go_on in self._cut.pop(frozenset((one, other)), ()):
            go_on()

    def heal_all(self) -> None:
        """Let everything pass everywhere."""
        for pair in list(self._cut):
            for go_on in self._cut.pop(pair):
                go_on()

    def pass_or_wait(self, one: str, other: str, go_on: Callable[[], None]) -> None:
        """Go on at once, or when the two hosts reach each other again."""
        waiting = self._cut.get(frozenset((one, other))) if self._cut else None
        if waiting is None:
            go_on()
        else:
            waiting.append(go_on)

    def close_all(self, host: str) -> None:
        """Close all sockets of a host's process, which has ended."""
        for listener in [each for each in self.listeners.values() if each.host == host]:
            listener.close()
        for sock in [each for each, its_host in self.sockets.items() if its_host == host]:
            sock.close()

    def free_port(self) -> int:
        """A port that was never used before."""
        self._next_port += 1
        return self._next_port

    def delay(self) -> float:
        """The delay of the next piece, in seconds."""
        return self.random.uniform(*DELAY_S)

    def find(self, host: str, port: int) -> ListeningSocket | None:
        """The listener at an address."""
        return self.listeners.get((host, port)) or self.listeners.get(("", port))


class ListeningSocket:
    """A listening socket: accepts the connections of `SimulatedSockets.connect`."""

    def __init__(self, network: Network, host: str, port: int) -> None:
        self.host = host
        self._network = network
        self._key = (host, port)
        self._backlog: deque[SimulatedSocket] = deque()
        self._fd = network.loop.register(self)
        self.address = (host or "0.0.0.0", port)
        network.listeners[self._key] = self

    def readable(self) -> bool:
        """Whether a connection waits to be accepted."""
        return bool(self._backlog)

    def writable(self) -> bool:
        """Always False: nothing is written to a listening socket."""
        return False

    def enqueue(self, sock: SimulatedSocket) -> None:
        """A connection arrives."""
        if self._fd < 0:
            sock.close()
        else:
            self._backlog.append(sock)
            self._network.loop.touch(self._fd)

    def accept(self) -> tuple[SimulatedSocket, tuple[str, int]]:
        """See `socket.socket`."""
        if not self._backlog:
            raise BlockingIOError(errno.EAGAIN, "nobody connects")
        sock = self._backlog.popleft()
        self._network.trace.record("accept", self.address, sock.peer)
        return sock, sock.peer

    def getsockname(self) -> tuple[str, int]:
        """See `socket.socket`."""
        return self.address

    def fileno(self) -> int:
        """See `socket.socket`."""
        return self._fd

    def close(self) -> None:
        """See `socket.socket`."""
        if self._fd >= 0:
            self._network.loop.unregister(self._fd)
            self._fd = -1
            del self._network.listeners[self._key]
            for sock in self._backlog:
                sock.close()


class SimulatedSocket:
    """One end of a connection, with the socket methods that `kwire.net` and the raw client use."""

    def __init__(self, network: Network, address: tuple[str, int], peer: tuple[str, int], host: str = "") -> None:
        self._network = network
        self._loop = network.loop
        self.host = host or address[0]
        network.sockets[self] = self.host
        self._input = bytearray()
        self._ended = False  # the peer will send nothing more
        self._broken = False  # the peer is gone
        self._arrives_at = 0.0  # when the last piece that was sent is due
        self._on_the_way = 0
        self._fd = self._loop.register(self)
        self.address = address
        self.peer = peer
        self.other: SimulatedSocket = self

    def readable(self) -> bool:
        """Whether there are bytes to receive, or the end of the stream."""
        return bool(self._input) or self._ended

    def writable(self) -> bool:
        """Whether the send window has room, or `send` raises at once because the connection is gone."""
        return self._broken or self._room() > 0

    def _room(self) -> int:
        return WINDOW - self._on_the_way - len(self.other._input)

    # -- what kwire.net calls ---------------------------------------------------------------------------------------

    def recv_into(self, buffer: memoryview) -> int:
        """See `socket.socket`."""
        if not self._input:
            if self._ended:
                return 0
            raise BlockingIOError(errno.EAGAIN, "nothing to read")
        count = min(len(buffer), len(self._input))
        buffer[:count] = self._input[:count]
        del self._input[:count]
        return count

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """See `socket.socket`."""
        if self._broken or self._fd < 0:
            raise BrokenPipeError(errno.EPIPE, "the connection is gone")
        room = self._room()
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "the window is full")
        piece = bytes(data[:room])
        self._network.trace.record("send", self.address, self.peer, data=piece)
        self._on_the_way += len(piece)
        self._send_in_pieces(piece)
        return len(piece)

    def _send_in_pieces(self, data: bytes) -> None:
        random = self._network.random
        while data:
            cut = len(data)
            if random.random() < 0.2:
                cut = min(
                    cut, random.randrange(1, max(cut, 2)) if cut <= PIECE_MIN else random.randrange(PIECE_MIN, cut)
                )
            self._deliver_later(data[:cut])
            data = data[cut:]

    def _deliver_later(self, piece: bytes) -> None:
        """In order: nothing overtakes what was sent before (timers of the same moment have no order)."""
        self._arrives_at = max(self._arrives_at + 1e-6, self._loop.time() + self._network.delay())
        self._loop.call_at(self._arrives_at, self._arrive, piece, context=WIRE)

    def _arrive(self, piece: bytes) -> None:
        self._network.pass_or_wait(self.host, self.other.host, lambda: self._deliver(piece))

    def _deliver(self, piece: bytes) -> None:
        self._on_the_way -= len(piece)
        if self.other._fd < 0:
            self._broken = True  # what is sent to a closed socket is answered by a reset
        elif piece:
            self._network.trace.record("deliver", self.address, self.peer, data=piece)
            self.other._input += piece
            self._loop.touch(self.other._fd)
        else:
            self.other._ended = True
            self._loop.touch(self.other._fd)

    def sendmsg(self, buffers: Iterable[Any], _ancillary: object = (), _flags: int = 0) -> int:
        """See `socket.socket`."""
        return self.send(b"".join(buffers))

    def getsockname(self) -> tuple[str, int]:
        """See `socket.socket`."""
        return self.address

    def fileno(self) -> int:
        """See `socket.socket`."""
        return self._fd

    def close(self) -> None:
        """See `socket.socket`."""
        if self._fd < 0:
            return
        self._network.trace.record("close", self.address, self.peer)
        self._loop.unregister(self._fd)
        self._fd = -1
        self._network.sockets.pop(self, None)
        if not self._loop.is_closed():
            self._deliver_later(b"")


class SimulatedSockets(Sockets):
    """The sockets door of one machine."""

    MSG_MORE = 0
    epoll = None

    def __init__(self, network: Network, host: str, disk: Disk) -> None:
        self._network = network
        self._host = host
        self._disk = disk
        self.sendfile = self._sendfile

    def bindable_hosts(self, host: str) -> tuple[str, ...]:
        """See `kwire.base.doors.Sockets`. A simulated host has one address."""
        return (host,)

    def listen(self, host: str, port: int, backlog: int, receive_buffer_bytes: int) -> ListeningSocket:
        """See `kwire.base.doors.Sockets`."""
        network = self._network
        host = self._host if host in ("", "0.0.0.0", "::", "localhost") else host
        port = port or network.free_port()
        if (host, port) in network.listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        network.trace.record("listen", host, port)
        return ListeningSocket(network, host, port)

    def accept(self, listening: Any) -> tuple[SimulatedSocket, tuple[str, int]]:
        """See `kwire.base.doors.Sockets`."""
        accepted: tuple[SimulatedSocket, tuple[str, int]] = listening.accept()
        return accepted

    async def connect(self, host: str, port: int) -> SimulatedSocket:
        """See `kwire.base.doors.Sockets`."""
        network = self._network
        arrived = network.loop.create_future()

        def arrive() -> None:
            if not arrived.done():
                arrived.set_result(None)

        network.loop.call_later(network.delay(), network.pass_or_wait, self._host, host, arrive, context=WIRE)
        await arrived
        there = network.find(host, port)
        if there is None or there.fileno() < 0:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        local_port = network.free_port()
        mine = (address_of(self._host), local_port)
        here = SimulatedSocket(network, mine, (host, port), self._host)
        here.other = SimulatedSocket(network, (host, port), mine)
        here.other.other = here
        network.trace.record("connect", (self._host, local_port), (host, port))
        there.enqueue(here.other)
        return here

    def prepare(self, sock: Any, send_buffer_bytes: int) -> None:
        """Simulated sockets are what they should be."""

    def _sendfile(self, socket_fd: int, file_fd: int, offset: int, count: int) -> int:
        sock: SimulatedSocket = self._network.loop.pollable(socket_fd)
        data = self._disk.pread(file_fd, min(count, WINDOW), offset)
        return sock.send(data) if data else 0

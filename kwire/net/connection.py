"""One connection: bytes in, frames to the dispatcher, responses out in the order of the requests.

The rules of this file:

- A frame is passed on as a writable view of memory that nothing else writes to, so that the record batches in it can be
  patched in place and written to disk without another copy.
- Responses are sent in the order of the requests. A request starts while earlier ones are pending only if all of them
  are pipelined (Produce, unless its handler requires exclusive execution). A request that may not start yet is held
  back, and nothing more is read until it has started.
- Memory is bounded: an unfinished frame takes as much as has been received of it (`large_frames`: a few times as much),
  never the size that it announces. Nothing is read from a client that does not read its responses. A connection whose
  requests are held back holds at most one piece of `RECEIVE_BYTES` besides the unfinished frame. A pending request
  keeps a whole receive buffer from being used only if its frame has `LENT_BYTES`.
- Responses that become ready in a turn of the loop are sent at its end, one connection after the other: the first
  response wakes the client's process, and the others find it awake, which costs less (`Wire.flush_soon`). Two cases are
  sent at once: requests that took long (`LONG_BYTES`), and a connection that is the only active one.
- A dispatcher may put work off until then (`Connection.put_off`). It is done before any of these responses is sent. The
  dispatcher does it before it answers a later request that did not put off work of its own.
- Every part with a `release` (a `FileRange`) is released exactly once: when it is sent, or when the connection closes.
- An exception in this module closes the connection; otherwise the client would wait for ever.

What lives elsewhere: what connections share (`wire`), sending the parts (`outgoing`), accepting (`listener`), what the
frames mean (`kwire.server.dispatch`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kwire.base.doors import WOULD_BLOCK
from kwire.net.large_frames import LARGE_BYTES, LargeFrame
from kwire.net.outgoing import Outgoing, release_parts
from kwire.net.settings import (
    FRAMES_PER_TURN,
    LENT_BYTES,
    LONG_BYTES,
    OUTGOING_LIMIT,
    PIPELINE_DEPTH,
    Part,
)
from kwire.net.wire import Wire

if TYPE_CHECKING:
    from ssl import SSLContext

    from kwire.net.newcomers import Newcomers
    from kwire.net.tls import TlsSocket

_read_size = Struct(">i").unpack_from
_read_key = Struct(">h").unpack_from

_COPIED: Final = 1 << 31
"""A size above that of all frames."""


class InvalidFrame(Exception):
    """The received bytes are not a valid request. The connection is closed, as in Kafka."""


class Dispatcher(Protocol):
    """Handles the frames: calls `Connection.send` with the response, or `Connection.defer` for a later one."""

    pipelined_keys: frozenset[int]

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Start a request. Raises `InvalidFrame`."""


def _ignore(_: bool) -> None:
    pass


class ListenerSetup(NamedTuple):
    """How the connections of a listener begin."""

    dispatcher: Dispatcher
    request_max_bytes: int
    """The largest frame, as long as no other limit is set by `Connection.use`."""
    tls: Callable[[], SSLContext] | None = None
    """The context for the next TLS connection; None: plaintext."""
    login: bool = False
    """Whether clients have to log in: the dispatcher then calls `Connection.use` within `NetSettings.setup_max_ms`,
    or the connection is closed."""
    on_handshake: Callable[[bool], None] = _ignore
    """Called with False after a failed TLS handshake, and with True after a complete one that no login follows. Not
    called if the client closes the connection during the handshake, or takes too long."""


class Slot:
    """The place of a pending response in the order of its connection."""

    __slots__ = ("_connection", "cancel", "done", "parts", "pipelined", "size", "wake_early")

    def __init__(self, connection: Connection, pipelined: bool) -> None:
        self._connection = connection
        self.pipelined = pipelined
        self.done = False
        self.parts: list[Part] | None = None
        self.size = 0
        self.cancel: Callable[[], object] | None = None
        self.wake_early: Callable[[], object] | None = None
        """Called when the client has sent another request, which waits behind this one."""

    def answer(self, parts: list[Part] | None, size: int = 0) -> None:
        """Complete the slot with the parts of a response and their size, or None for no response. Harmless when the
        connection is closed."""
        self.done = True
        self.cancel = self.wake_early = None
        self.parts = parts
        self.size = size
        self._connection.slot_done(self)

    def discard(self) -> None:
        """Drop the response, if there is one: the connection is closed."""
        release_parts(self.parts or ())
        self.parts = None


class Connection:
    """A client's connection. ``peer`` and ``local`` are (host, port); ``context`` is for the dispatcher.
    ``request_max_bytes``: the largest frame. ``request_min_bytes``: the smallest one; `use` makes it 1 again.
    ``tls``: the record layer, with what is known of the client's certificate; None on a plaintext listener."""

    __slots__ = (
        "_at_once",
        "_fd",
        "_held",
        "_large",
        "_muted",
        "_need",
        "_newcomers",
        "_out",
        "_partial",
        "_readers",
        "_reading",
        "_recv_into",
        "_slots",
        "_socket",
        "_taking",
        "_wire",
        "_yielding",
        "active_tick",
        "closed",
        "closing",
        "context",
        "dispatcher",
        "id",
        "is_alone",
        "listener",
        "local",
        "peer",
        "request_max_bytes",
        "request_min_bytes",
        "tls",
    )

    def __init__(
        self,
        wire: Wire,
        sock: Any,
        setup: ListenerSetup,
        listener: str,
        peer: tuple[str, int],
        local: tuple[str, int],
    ) -> None:
        self._wire = wire
        self._socket = sock
        self._fd: int = sock.fileno()
        self._recv_into = sock.recv_into
        self._out = self._send_queue(sock)
        self._slots: deque[Slot] = deque()
        self._partial: bytearray | None = None  # an unfinished frame with its size field
        self._large: LargeFrame | None = None  # an unfinished one that is received in place
        self._need = 0  # the length `_partial` will have; 0 while its size field is incomplete
        self._held: memoryview | None = None  # requests that may not start yet, in memory of their own
        self._taking = False  # requests are being started further up the stack
        self._yielding = False  # a turn of the loop is awaited
        self._muted: asyncio.TimerHandle | None = None
        self._reading = False
        self._at_once = False  # the responses of this turn are not sent together with those of other connections
        self.is_alone = False  # no other request is known that comes in the same turn as the one that is dispatched
        self.closing = False  # no more requests are started
        self.closed = False
        self.dispatcher = setup.dispatcher
        self.request_max_bytes = setup.request_max_bytes
        self.request_min_bytes = 1
        self.listener = listener
        self.peer = peer
        self.local = local
        self.id = f"{local[0]}:{local[1]}-{peer[0]}:{peer[1]}"
        self.active_tick = wire.tick
        self.context: Any = None
        self.tls: TlsSocket | None = None
        self._newcomers: Newcomers | None = None
        self._readers: asyncio.AbstractEventLoop | Newcomers = wire.loop
        if setup.login:
            self._limit_setup()

    def _send_queue(self, sock: Any) -> Outgoing:
        return Outgoing(self._wire.loop, self._wire.doors, sock, self._writable)

    def use(self, dispatcher: Dispatcher, request_max_bytes: int) -> None:
        """Pass the following requests to another dispatcher, with another limit of their size: the client has logged
        in."""
        self.dispatcher = dispatcher
        self.request_max_bytes = request_max_bytes
        self.request_min_bytes = 1
        self._setup_done()

    def start(self) -> None:
        """Begin to read."""
        self._reading = True
        self._readers.add_reader(self._fd, self._readable)

    # -- in ---------------------------------------------------------------------------------------------------------

    def _readable(self) -> None:
        large = self._large
        try:
            room = (self._wire.scratch or self._wire.receive_buffer()) if large is None else large.room()
            received = self._recv_into(room)
        except WOULD_BLOCK:
            return
        except OSError:
            received = 0
        except MemoryError as error:
            self._out_of_memory(error)
            return
        if not received:
            self.close()
            return
        wire = self._wire
        self.active_tick = wire.tick
        if large is not None:
            large.have += received
            if large.have < large.need:
                self._keep(large.have)
                return
        self._at_once = at_once = wire.last_read is self or large is not None or received >= LONG_BYTES
        wire.last_read = self
        if not at_once:
            wire.flush_soon(self)  # before anything else is begun that others wait for
        if large is None:
            if received >= LONG_BYTES and self._newcomers is None:
                wire.scratch = None
                self._take(room[:received], LENT_BYTES)
            else:
                self._take(room[:received])
        else:
            room.release()
            self._take_large(large)
        if at_once:
            self.turn_over()

    def turn_over(self) -> None:
        """All connections with bytes have been read: send the responses."""
        if self._wire.work is not None:
            self._wire.do_work()
        if self._out.size or self._held is not None or self.closing:
            if self._reading:
                self._flush()
            else:
                self._advance()

    def _out_of_memory(self, error: MemoryError) -> None:
        """A request needs more memory than there is: its client may try again, and the others go on."""
        reason = f"no memory for its request: {error}".rstrip(": ")
        self._wire.lines.info("closing connection", listener=self.listener, connection=self.id, reason=reason)
        self.close()

    def _take_large(self, large: LargeFrame) -> None:
        """Start the request in a large frame that is whole, or hold it back."""
        self._large = None
        frame = large.whole()
        if not self._may_start(frame, 4):
            self._hold(frame, owned=True, yielding=False)
            return
        self._take(frame, 0)
        del frame  # a buffer with a view of it is not reused
        large.done()

    def _take(self, data: memoryview, copied_below: int = _COPIED) -> None:
        """Start the requests in what was received; hold back what may not start, keep what is unfinished. Requests get
        copies of frames below a size: 0 if nothing else is received into this memory. Any failure closes the
        connection. The responses are sent together afterwards."""
        self._taking = True
        try:
            position = 0
            end = len(data)
            if self._partial is not None:
                position = self._complete_partial(data)
                if position == end:
                    return
            out, slots = self._out, self._slots
            budget = FRAMES_PER_TURN
            while end - position >= 4:
                size = _read_size(data, position)[0]
                if not 0 < size <= self.request_max_bytes and (size or self.request_min_bytes):
                    raise self._invalid_size(size)
                following = position + 4 + size
                if following > end:
                    break
                if not budget or (
                    (slots or out.size or self.closing or self._muted) and not self._may_start(data, position + 4)
                ):
                    self._hold(data[position:], owned=not copied_below, yielding=not budget)
                    return
                frame = data[position + 4 : following]
                self.is_alone = self._at_once and following == end
                self.dispatcher.dispatch(self, frame if size >= copied_below else memoryview(bytearray(frame)))
                if following == end or self.closed:
                    return
                budget -= 1
                position = following
            if position < end:
                self._keep_partial(data[position:])
        except InvalidFrame as error:
            self._wire.lines.info("closing connection", listener=self.listener, connection=self.id, reason=str(error))
            self.close()
        except MemoryError as error:
            self._out_of_memory(error)
        except Exception:
            self._wire.log.exception("closing connection: request failed", connection=self.id)
            self.close()
        finally:
            self._taking = False

    def _frame_size(self, data: memoryview | bytearray, position: int) -> int:
        """The announced size of a frame, validated before any memory is allocated for it."""
        size: int = _read_size(data, position)[0]
        if not 0 < size <= self.request_max_bytes and (size or self.request_min_bytes):
            raise self._invalid_size(size)
        return size

    def _invalid_size(self, size: int) -> InvalidFrame:
        return InvalidFrame(f"frame of {size} bytes, at most {self.request_max_bytes} are allowed")

    def _may_start(self, data: memoryview, position: int) -> bool:
        """Whether the request whose frame begins here may be started now."""
        if self._wire.work is not None and not self._is_pipelined(data, position):
            self._wire.do_work()
        if self.closing or self._muted is not None or self._out.size >= OUTGOING_LIMIT:
            return False
        slots = self._slots
        if not slots:
            return True
        return slots[-1].pipelined and len(slots) < PIPELINE_DEPTH and self._is_pipelined(data, position)

    def _is_pipelined(self, data: memoryview, position: int) -> bool:
        """Whether the request whose frame begins here may start while earlier ones of its kind are pending."""
        return len(data) - position >= 2 and _read_key(data, position)[0] in self.dispatcher.pipelined_keys

    def _hold(self, rest: memoryview, owned: bool, yielding: bool) -> None:
        """Keep requests for later and stop reading; ``yielding``: only until the other connections had their turn."""
        self._held = rest if owned else memoryview(bytearray(rest))
        self._pause()
        self._keep(len(self._held))
        if yielding:
            self._yield()
        elif self._slots and (wake_early := self._slots[0].wake_early) is not None:
            wake_early()

    def _yield(self) -> None:
        self._yielding = True
        self._wire.loop.call_soon(self._turn_came)

    def _turn_came(self) -> None:
        self._yielding = False
        self._advance()

    def _keep_partial(self, rest: memoryview) -> None:
        self._partial = partial = bytearray(rest)
        self._need = need = 4 + self._frame_size(rest, 0) if len(rest) >= 4 else 0
        if LARGE_BYTES <= len(partial) <= need - LARGE_BYTES:
            self._large = LargeFrame(self._wire.spare, partial, need)
            self._partial = None
        self._keep(len(partial))

    def _keep(self, size: int) -> None:
        """So many bytes of an unfinished or waiting request are kept. May close the connection."""
        if self._newcomers is not None:
            self._newcomers.hold(self, size)

    def _complete_partial(self, data: memoryview) -> int:
        """Add the rest of the unfinished frame, and start it when complete. Returns how much of ``data`` is used."""
        partial = self._partial
        assert partial is not None
        used = 0
        if len(partial) < 4:
            used = 4 - len(partial)
            partial += data[:used]
            if len(partial) < 4:
                return len(data)
            self._need = 4 + self._frame_size(partial, 0)
        missing = self._need - len(partial)
        partial += data[used : used + missing]
        if len(partial) < self._need:
            if LARGE_BYTES <= len(partial) <= self._need - LARGE_BYTES:
                self._large = LargeFrame(self._wire.spare, partial, self._need)
                self._partial = None
            self._keep(len(partial))
            return len(data)
        used += missing
        self._partial = None
        frame = memoryview(partial)
        if self._may_start(frame, 4):
            self.dispatcher.dispatch(self, frame[4:])
            return used if not self.closed else len(data)
        frame.release()
        partial += data[used:]
        self._hold(memoryview(partial), owned=True, yielding=False)
        return len(data)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._readers.remove_reader(self._fd)

    def _writable(self) -> None:
        """The socket accepts more."""
        if self._out.send_more():
            self.active_tick = self._wire.tick
        else:
            self._advance()

    def _advance(self) -> None:
        """Send what can be sent, then start held-back requests as far as they may; read on when none is left."""
        if self.closed or self._taking or not self._flush() or self._reading or self._yielding:
            return
        held = self._held
        if held is not None:
            if not self._may_start(held, 4):
                return
            self._held = None
            self._take(held, 0)
            if self._wire.work is not None:
                self._wire.do_work()
            if self.closed or not self._flush():
                return
        if self._held is None:
            if not self.closing:
                self.start()
        elif not self._yielding and self._may_start(self._held, 4):
            self._yield()  # no loop here: the other connections get their turn

    def mute(self, delay_ms: int) -> None:
        """Start no request for this time (a quota is exceeded, KIP-219), nor before an earlier one has passed."""
        loop = self._wire.loop
        end = loop.time() + delay_ms / 1000
        if self._muted is not None:
            if self._muted.when() >= end:
                return
            self._muted.cancel()
        if not self.closed:
            self._muted = loop.call_at(end, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self._advance()

    # -- out --------------------------------------------------------------------------------------------------------

    def send(self, parts: list[Part], size: int) -> None:
        """Send the response to the request that was just dispatched: the parts of a frame, and their total size."""
        if self.closed:
            release_parts(parts)
        elif self._slots:
            slot = self.defer(self._slots[0].pipelined)
            slot.done, slot.parts, slot.size = True, parts, size
        else:
            self._out.add(parts, size)
            if not self._taking:
                self._advance()

    def put_off(self, work: Callable[[], None]) -> None:
        """Have work for requests of this turn done before the responses are sent, once. Call it while a request is
        dispatched. The work passes on its responses with `queue`."""
        self._wire.work = work

    def queue(self, response: bytes) -> None:
        """`send` for work that was put off: the response is sent with the others of this turn."""
        if not self.closed and not self._slots:
            self._out.add_buffer(response)
            return
        taking, self._taking = self._taking, True
        self.send([response], len(response))
        self._taking = taking

    def defer(self, pipelined: bool) -> Slot:
        """Reserve a slot for the response to the request that was just dispatched."""
        slot = Slot(self, pipelined)
        self._slots.append(slot)
        return slot

    def slot_done(self, done: Slot) -> None:
        """A slot has its response: send the ones that are next in order, and start requests that waited."""
        slots = self._slots
        if self.closed:
            done.discard()
            return
        while slots and slots[0].done:
            slot = slots.popleft()
            if slot.parts is not None:
                self._out.add(slot.parts, slot.size)
        self._advance()

    def _flush(self) -> bool:
        """Send what the socket accepts. Returns whether the connection is still open."""
        try:
            moved = self._out.flush()
        except OSError:
            self.close()  # the peer has closed the connection, which is not an error
            return False
        except Exception:
            self._wire.log.exception("closing connection: response failed", connection=self.id)
            self.close()
            return False
        if moved:
            self.active_tick = self._wire.tick
        if self.closing:
            self._wire.do_work()  # which may have a response for this connection
            if self.idle:
                self.close()
                return False
        return True

    # -- end --------------------------------------------------------------------------------------------------------

    def _limit_setup(self) -> None:
        """The connection is not admitted yet: its time, its memory and its share of a turn are limited."""
        self._newcomers = self._readers = newcomers = self._wire.newcomers
        newcomers.limit(self, self._wire.settings.setup_max_ms / 1000)

    def _setup_done(self) -> None:
        """The connection is admitted, or closed."""
        newcomers = self._newcomers
        if newcomers is not None:
            newcomers.release(self)
            if self._reading:
                newcomers.remove_reader(self._fd)
                self._wire.loop.add_reader(self._fd, self._readable)
            self._newcomers = None
            self._readers = self._wire.loop

    def close_after(self, delay_ms: int, slot: Slot, parts: list[Part], size: int) -> None:
        """Send a last response, and close the connection, when the delay is over. Nothing is read and no request is
        started meanwhile. For logins that have failed (`connection.failed.authentication.delay.ms`)."""
        self.closing = True
        self._pause()
        self._wire.loop.call_later(delay_ms / 1000, slot.answer, parts, size)

    @property
    def idle(self) -> bool:
        """Whether nothing is pending and everything is sent."""
        return not self._slots and not self._out.size

    @property
    def pending(self) -> int:
        """How many requests have started and have no response yet."""
        return len(self._slots)

    def drain(self) -> None:
        """Start no more requests; close when the responses to those that have started are sent."""
        self.closing = True
        self._pause()
        if not self._taking:
            self._flush()

    def cancel_pending(self) -> None:
        """Cancel the pending requests that only matter to a waiting client (Fetch)."""
        for slot in list(self._slots):
            if slot.cancel is not None:
                slot.cancel()

    def close(self) -> None:
        """Close at once; pending responses are discarded."""
        if self.closed:
            return
        self.closed = self.closing = True
        self._pause()
        if self._muted is not None:
            self._muted.cancel()
        self._setup_done()
        self._out.close()
        if self._slots:
            self.cancel_pending()
            for slot in self._slots:
                slot.discard()
            self._slots.clear()  # those without a response have the connection, which is free once they are
        self._held = self._partial = self._large = None
        self._socket.close()
        self._wire.on_close(self)

    def __repr__(self) -> str:
        return f"Connection({self.id})"

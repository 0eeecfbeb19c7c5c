"""A connection whose bytes are TLS records: handshakes, pending plaintext, and file ranges that are read and encrypted.

- A handshake costs 0.5 ms of computation, which is done in steps, between the requests of others (`handshakes`).
- The time for a handshake is limited (`NetSettings.setup_max_ms`), and so is its memory (`handshake_records`).
- After a failed handshake the alert is sent and the connection stays open for `ALERT_TIME_S`: a connection that is
  closed with unread data is reset, and the client may lose the alert, which says why.

This module is imported with the first TLS connection. What lives elsewhere: encryption (`tls`), everything about
requests and responses (`connection`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kwire.base.doors import WOULD_BLOCK
from kwire.net.connection import Connection
from kwire.net.handshake_records import HandshakeRecords, InvalidHandshake
from kwire.net.outgoing import Outgoing
from kwire.net.tls import RECORD_BYTES, TAKEN_MAX, UNEXPECTED_MESSAGE, TlsError, TlsSocket

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from kwire.base.doors import Doors
    from kwire.base.file_range import FileRange
    from kwire.net.connection import ListenerSetup
    from kwire.net.wire import Wire

ALERT_TIME_S: Final = 0.1
"""The time in which a client can read the alert. `connection.failed.authentication.delay.ms` is for SASL only: Kafka
closes the connection at once after a failed handshake."""


class TlsOutgoing(Outgoing):
    """A send queue whose bytes are encrypted. ``size`` includes unsent ciphertext."""

    __slots__ = ("_ciphertext", "_range_left", "_tls")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, doors: Doors, tls: TlsSocket, on_writable: Callable[[], None]
    ) -> None:
        super().__init__(loop, doors, tls, on_writable)
        self._sendfile = None
        self._tls = tls
        self._ciphertext = 0  # the part of `size` that is ciphertext
        self._range_left = 0  # bytes of file ranges that may still be read in this turn

    def flush(self) -> bool:
        """Send what the socket accepts now. Returns whether anything was sent. OSError if the connection is closed."""
        tls = self._tls
        before = self.size
        if not (self._waiting or tls.full or before > RECORD_BYTES) and self._send_record():
            self.size = 0
            if not (tls.full or tls.output.pending):
                return before > 0
        else:
            self.size -= self._ciphertext
            self._ciphertext = 0
            self._range_left = TAKEN_MAX
            if not tls.full or tls.push():
                Outgoing.flush(self)
                if self._reading is not None:
                    self._stop_waiting()
                    tls.push()  # the bytes before a range that is read from the disk first
        unsent = tls.unsent
        if unsent and not (tls.full or self._queue):  # OpenSSL's own messages, when the client has sent close_notify
            tls.push()
            unsent = tls.unsent
        if unsent:
            self.size += unsent
            self._ciphertext = unsent
            self._wait()
        return self.size != before

    def _send_record(self) -> bool:
        """Send all that is queued as one record, the usual case. Returns whether it was done."""
        queue = self._queue
        try:
            data = b"".join(queue)  # type: ignore[arg-type]
        except TypeError:  # a file range
            return False
        queue.clear()
        if data:
            self._tls.send(data)
        return True

    def _send_range(self, part: FileRange) -> bool:
        """Send the range at the front, as far as this turn allows. Returns whether it is sent and others may follow."""
        before = self.size
        all_sent = super()._send_range(part)
        self._range_left -= before - self.size
        return all_sent and self._range_left > 0

    def _send_read(self, part: FileRange, done: int) -> int:
        size = min(part.size - done, self._range_left)
        return self._tls.sendfile(self._doors.files.preadv, part.fd, part.position + done, size)


class TlsConnection(Connection):
    """A client's connection over TLS. ``tls``: the record layer, with the client's certificate, protocol and cipher."""

    __slots__ = (
        "_alert_timer",
        "_established",
        "_login",
        "_on_handshake",
        "_queued",
        "_read_scheduled",
        "_records",
    )

    tls: TlsSocket

    def __init__(
        self,
        wire: Wire,
        sock: Any,
        setup: ListenerSetup,
        listener: str,
        peer: tuple[str, int],
        local: tuple[str, int],
    ) -> None:
        assert setup.tls is not None
        context = setup.tls()
        handshakes = wire.handshakes
        tls = TlsSocket(sock, context, handshakes.buffers, server_side=True)
        super().__init__(wire, tls, setup, listener, peer, local)
        self.tls = tls
        self._records = HandshakeRecords(handshakes.may_ask_for_certificate(context))
        self._queued = False  # the next step of the handshake waits for its turn
        self._established = False
        self._alert_timer: asyncio.TimerHandle | None = None
        self._login = setup.login
        self._on_handshake = setup.on_handshake
        self._read_scheduled = False
        if not setup.login:
            self._limit_setup()

    def _send_queue(self, sock: Any) -> TlsOutgoing:
        wire = self._wire
        return TlsOutgoing(wire.loop, wire.doors, sock, self._advance)

    # -- handshake ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin the handshake; once it is complete, begin to read."""
        self._reading = True
        is_new = self._newcomers is not None
        self._readers.add_reader(self._fd, self._handshake_readable if is_new else self._readable)
        if self._established and self.tls.pending:
            self._read_soon()

    def _handshake_readable(self) -> None:
        """Collect records; a whole one is a step of the handshake. Called until the client has sent a request."""
        if self._established:
            self._read_as_newcomer()
            return
        if self._queued:  # usually a client waits for the response: it is cheaper not to pause before each step
            self._pause()
            return
        try:
            received = self.tls.receive_raw()
        except WOULD_BLOCK:
            return
        except OSError:
            received = memoryview(b"")
        if not received:
            self._wire.log.debug("closing connection: it ended during the TLS handshake", connection=self.id)
            self.close()
            return
        try:
            if self._records.add(received):
                self._queued = True
                self._wire.handshakes.enqueue(self)
        except InvalidHandshake as error:
            self._refuse(error)
            return
        self._keep(self._records.received)

    def step(self) -> None:
        """Give the records that are whole to OpenSSL: half a millisecond, if one is the ClientHello. Never raises, so
        that the handshakes that are next in the queue get their turn."""
        if self.closing:
            return
        self._queued = False
        try:
            self._step()
        except Exception:
            self._wire.log.exception("closing connection: TLS handshake failed", connection=self.id)
            self.close()

    def _step(self) -> None:
        try:
            self.tls.feed(self._records.take_whole())
            if self.tls.handshake():
                self._establish()
                return
            self._records.check()
        except InvalidHandshake as error:
            self._refuse(error)
        except TlsError as error:
            self._fail(error.reason)
        except OSError:
            self.close()
        else:
            self._go_on()

    def _establish(self) -> None:
        """The handshake is complete. The connection stays with the newcomers, without their limits, until its first
        request: uvloop takes seven system calls to watch a socket, and some clients never send any."""
        tls = self.tls
        self._established = True
        if self._login:
            self._keep(0)
        else:
            assert self._newcomers is not None
            self._newcomers.release(self)
            self._on_handshake(True)
        rest = self._records.take_rest()
        if rest:
            tls.begin_with(rest)
        if tls.pending and not self._login:
            self._reading = True  # if it was paused: the loop watches it after this read
        self._go_on()
        if tls.pending:
            self._read_on()

    def _go_on(self) -> None:
        """After a step: wait for the socket if not all could be sent, and for the client."""
        if self.tls.full:
            self._flush()
        if not (self._reading or self.closing):
            self.start()

    def _refuse(self, error: InvalidHandshake) -> None:
        try:
            self.tls.send_alert(UNEXPECTED_MESSAGE)
        except OSError:
            pass
        self._fail(str(error))

    def _fail(self, reason: str) -> None:
        event = "closing connection: TLS handshake failed"
        self._wire.lines.info(event, listener=self.listener, connection=self.id, reason=reason)
        self._on_handshake(False)
        self.closing = True
        self._records.take_rest()  # it is not needed any more
        self._pause()
        self._setup_done()
        self._alert_timer = self._wire.loop.call_later(ALERT_TIME_S, self.close)

    # -- in -----------------------------------------------------------------------------------------------------------

    def _readable(self) -> None:
        Connection._readable(self)
        tls = self.tls
        if tls.pending:
            self._read_soon()
        if tls.full and not self.closed:  # OpenSSL's own messages
            self._advance()  # if all is sent now, nothing else calls it for requests that are held back

    def close(self) -> None:
        """Close at once; pending responses are discarded."""
        if self._established and self.tls.failure is not None and not self.closed:
            event = "closing connection: TLS failed"
            self._wire.lines.info(event, listener=self.listener, connection=self.id, reason=self.tls.failure)
        if self._alert_timer is not None:
            self._alert_timer.cancel()
        super().close()

    def _read_soon(self) -> None:
        """Read again after the other connections' turn: data that OpenSSL holds does not make the socket readable."""
        if self._reading and not self._read_scheduled:
            self._read_scheduled = True
            self._wire.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._read_scheduled = False
        if not self._reading:
            return
        if self._newcomers is None:
            self._readable()
        else:
            self._read_as_newcomer()

    def _read_as_newcomer(self) -> None:
        """Read, and let the loop watch the connection from now on, unless it ended or a login has to follow."""
        self._readable()
        if not (self._login or self.closed):
            self._setup_done()

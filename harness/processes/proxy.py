"""A TCP proxy whose connections tests can close, hold up or refuse."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from harness.processes.ports import free_port


class Proxy:
    """A proxy before a port of 127.0.0.1. Its connections can be closed, held up or refused. ``delay_s``: how much
    later it passes on what the broker sends."""

    def __init__(self, port: int, delay_s: float = 0.0) -> None:
        self._target = port
        self._delay_s = delay_s
        self._listener: socket.socket | None = None
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.answers_flow = threading.Event()
        self.answers_flow.set()
        """While it is cleared, requests still arrive but responses are held back."""
        self.requests_flow = threading.Event()
        self.requests_flow.set()
        """While it is cleared, requests are held back; those of a connection that is closed meanwhile are lost."""
        self.port = free_port()
        self.accept()

    @property
    def address(self) -> str:
        """The proxy's HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    def accept(self) -> None:
        """Accept connections (again)."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self._listener = listener
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def refuse(self) -> None:
        """Refuse new connections, and close the existing ones."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        self.cut()

    def cut(self) -> None:
        """Close all connections; new ones are accepted."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for each in pair:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._pairs.append((client, server))
            for source, target, gate, delay_s in (
                (client, server, self.requests_flow, 0.0),
                (server, client, self.answers_flow, self._delay_s),
            ):
                threading.Thread(target=self._pump, args=(source, target, gate, delay_s), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, gate: threading.Event, delay_s: float) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                gate.wait()
                time.sleep(delay_s)
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()

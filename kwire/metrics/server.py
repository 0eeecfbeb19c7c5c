"""The HTTP server: ``/metrics``, ``/healthz`` (brokers answer) and ``/readyz`` (they serve clients)."""

from __future__ import annotations

import base64
import gzip
import hmac
import socket
import ssl
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from prometheus_client.exposition import choose_encoder

from kwire.base.addresses import Address
from kwire.metrics.brokers import Unavailable, ask_all
from kwire.metrics.names import NAMINGS, PROMETHEUS
from kwire.metrics.render import Renderer

REQUEST_S: Final = 10.0
"""Seconds for a client to send its request and to take each part of the response."""
CONNECTIONS_MAX: Final = 16


class Settings(NamedTuple):
    """What the server is told. ``sockets``: those of the brokers, by the value of the label ``broker``."""

    sockets: Mapping[str, str]
    certificate: str | None = None
    key: str | None = None
    username: str | None = None
    password: str | None = None
    names: str = PROMETHEUS
    """`kwire.metrics.names`."""


class MetricsServer(ThreadingHTTPServer):
    """Serves an address until the process ends. OSError if it cannot; ValueError for unusable certificates."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: Address, settings: Settings) -> None:
        self.settings = settings
        self.renderer = Renderer(NAMINGS[settings.names])
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._free = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._tls = _context(settings)
        super().__init__((address.host or "", address.port), _Handler)
        scheme = "http" if self._tls is None else "https"
        self.url = f"{scheme}://{Address(address.host or 'localhost', self.server_address[1])}/metrics"

    def get_request(self) -> tuple[Any, Any]:
        """A connection. Its TLS handshake is made later, by the connection's own thread."""
        connection, peer = super().get_request()
        connection.settimeout(REQUEST_S)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, peer

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread, unless there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away, or makes no handshake, is no concern of anybody else."""


def _context(settings: Settings) -> ssl.SSLContext | None:
    if not settings.certificate or not settings.key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except ssl.SSLError as error:
        raise ValueError(f"{settings.certificate}, {settings.key}: {error.reason or error}") from None
    except OSError as error:
        raise ValueError(f"{settings.certificate}, {settings.key}: {error.strerror}") from None
    return context


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    protocol_version = "HTTP/1.1"
    server_version = "kwire"
    sys_version = ""
    timeout = REQUEST_S

    def do_GET(self) -> None:
        """Answer."""
        path = urlsplit(self.path).path
        settings = self.server.settings
        if not self._may(settings):
            self._send(HTTPStatus.UNAUTHORIZED, b"a user and a password are needed\n", challenge=True)
            return
        if path not in ("/metrics", "/healthz", "/readyz"):
            self._send(HTTPStatus.NOT_FOUND, b"there are /metrics, /healthz and /readyz\n")
            return
        try:
            snapshots = ask_all(settings.sockets, facts_only=path != "/metrics")
        except Unavailable as error:
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode())
            return
        if path == "/metrics":
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            self._send(HTTPStatus.OK, self.server.renderer.render(snapshots, encode, kind), kind)
            return
        complete = len(snapshots) == len(settings.sockets)
        well = complete and (path == "/healthz" or all(facts["ready"] for _, facts in snapshots.values()))
        self._send(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, b"ok\n" if well else b"not ready\n")

    def do_HEAD(self) -> None:
        """Answer without the content, as some load balancers ask whether a server is well."""
        self.do_GET()

    def _may(self, settings: Settings) -> bool:
        if settings.username is None or settings.password is None:
            return True
        expected = base64.b64encode(f"{settings.username}:{settings.password}".encode())
        return hmac.compare_digest(self.headers.get("Authorization", "").encode(), b"Basic " + expected)

    def _send(
        self, status: HTTPStatus, content: bytes, kind: str = "text/plain; charset=utf-8", challenge: bool = False
    ) -> None:
        packed = len(content) > 1024 and "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            content = gzip.compress(content, 1)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        if challenge:
            self.send_header("WWW-Authenticate", 'Basic realm="kwire metrics"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""

"""One HTTP or HTTPS request, within limits. It blocks: call it on a thread (`Executor.run_apart`).

No redirects and no proxies: what answers is what the URL names. A response has at most `SIZE_MAX` bytes, unless the
caller allows more. `http.client` is imported when it is needed. What lives elsewhere: what is requested, and which URLs
are allowed (`kwire.security.oauth`, `kwire.cli.schemas.client`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from http.client import HTTPConnection
    from ssl import SSLContext

SIZE_MAX: Final = 1024 * 1024
"""Bytes of a response, unless the caller allows more."""

TIMEOUT_S: Final = 10.0
"""Seconds to connect, and then for the whole response, unless the caller sets others."""

_CHUNK: Final = 64 * 1024


class HttpError(Exception):
    """There is no response. One line."""


class Timeouts(NamedTuple):
    """Seconds to connect, and for the whole response."""

    connect_s: float = TIMEOUT_S
    response_s: float = TIMEOUT_S


USUAL: Final = Timeouts()


class Response(NamedTuple):
    """A response. ``headers``: by their names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


def request(
    url: str,
    context: SSLContext | None,
    monotonic: Callable[[], float],
    headers: Mapping[str, str],
    body: bytes | None = None,
    timeouts: Timeouts = USUAL,
    *,
    method: str | None = None,
    size_max: int = SIZE_MAX,
) -> Response:
    """The response to a request, by default a GET, or a POST of a body. ``context``: how a server's certificate is
    checked; ``size_max``: bytes of the response. `HttpError`."""
    from http.client import HTTPException

    chosen = method or ("GET" if body is None else "POST")
    try:
        return _request(url, context, monotonic, headers, body, timeouts, chosen, size_max)
    except OSError as error:
        raise HttpError(error.strerror or str(error) or type(error).__name__) from None
    except (HTTPException, ValueError) as error:
        raise HttpError(f"the answer is not HTTP ({type(error).__name__})") from None


def _request(
    url: str,
    context: SSLContext | None,
    monotonic: Callable[[], float],
    headers: Mapping[str, str],
    body: bytes | None,
    timeouts: Timeouts,
    method: str,
    size_max: int,
) -> Response:
    from http.client import HTTPResponse

    parts = urlsplit(url)
    connection = _connection(parts.scheme, parts.hostname or "", parts.port, context, timeouts.connect_s)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.connect()
        deadline = monotonic() + timeouts.response_s
        connection.sock.settimeout(timeouts.response_s)
        connection.request(method, target, body, {**headers, "Connection": "close"})
        received = _Received(_read_all(connection.sock, deadline, monotonic, timeouts.response_s, size_max))
    finally:
        connection.close()
    response = HTTPResponse(received, method=method)  # type: ignore[arg-type] # it calls makefile only
    response.begin()
    names = {name.lower(): value for name, value in response.getheaders()}
    return Response(response.status, response.read(), names)


def _read_all(sock: Any, deadline: float, monotonic: Callable[[], float], timeout_s: float, size_max: int) -> bytes:
    """All that a server sends before it closes the connection. http.client itself would wait for ever for a server that
    sends a byte from time to time."""
    found = bytearray()
    while (left_s := deadline - monotonic()) > 0:
        sock.settimeout(left_s)
        chunk = sock.recv(_CHUNK)
        if not chunk:
            return bytes(found)
        found += chunk
        if len(found) > size_max:
            raise HttpError(f"the answer has more than {size_max} bytes")
    raise HttpError(f"the answer is not there after {timeout_s:g} seconds")


class _Received:
    """The bytes of an answer, as the socket that `HTTPResponse` reads."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> BytesIO:
        """The bytes, to be read once."""
        return BytesIO(self._data)


def _connection(
    scheme: str, host: str, port: int | None, context: SSLContext | None, timeout_s: float
) -> HTTPConnection:
    from http.client import HTTPConnection, HTTPSConnection

    if scheme == "http":
        return HTTPConnection(host, port, timeout=timeout_s)
    return HTTPSConnection(host, port, timeout=timeout_s, context=context)

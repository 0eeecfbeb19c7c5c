"""One small document by HTTP(S) or from a file, within limits. It blocks: call it on a thread (`Executor.run_apart`).

No redirects and no proxies: what is fetched is what the allowed URL names. What lives elsewhere: which URLs are allowed
(`kwire.security.oauth.settings`), when they are fetched (`keys`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from kwire.security.oauth.settings import file_path

if TYPE_CHECKING:
    from http.client import HTTPConnection
    from ssl import SSLContext

    from kwire.base.doors import Files

SIZE_MAX: Final = 1024 * 1024
"""Bytes of a document."""

TIMEOUT_S: Final = 10.0
"""Seconds to connect, and then for the whole answer."""

_CHUNK: Final = 64 * 1024


class FetchError(Exception):
    """The document is not to be had. One line."""


def fetch(url: str, context: SSLContext | None, files: Files, monotonic: Callable[[], float]) -> bytes:
    """The document at a URL. ``context``: how a server's certificate is checked. `FetchError`."""
    from http.client import HTTPException

    try:
        path = file_path(url)
        return _read_file(path, files) if path is not None else _get(url, context, monotonic)
    except OSError as error:
        raise FetchError(error.strerror or str(error) or type(error).__name__) from None
    except (HTTPException, ValueError) as error:
        raise FetchError(f"the answer is not HTTP ({type(error).__name__})") from None


def _read_file(path: str, files: Files) -> bytes:
    try:
        return files.read_regular(path, SIZE_MAX)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise FetchError(f"the file has more than {SIZE_MAX} bytes") from None
        raise


def _get(url: str, context: SSLContext | None, monotonic: Callable[[], float]) -> bytes:
    from http.client import HTTPResponse

    deadline = monotonic() + TIMEOUT_S
    parts = urlsplit(url)
    connection = _connection(parts.scheme, parts.hostname or "", parts.port, context)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"Accept": "application/json", "Connection": "close"})
        received = _Received(_read_all(connection.sock, deadline, monotonic))
    finally:
        connection.close()
    response = HTTPResponse(received)  # type: ignore[arg-type] # it calls makefile only
    response.begin()
    if response.status != HTTPStatus.OK:
        raise FetchError(f"HTTP status {response.status}")
    return response.read()


def _read_all(sock: Any, deadline: float, monotonic: Callable[[], float]) -> bytes:
    """All that a server sends before it closes the connection. http.client itself would wait for ever for a server that
    sends a byte from time to time."""
    found = bytearray()
    while (left_s := deadline - monotonic()) > 0:
        sock.settimeout(left_s)
        chunk = sock.recv(_CHUNK)
        if not chunk:
            return bytes(found)
        found += chunk
        if len(found) > SIZE_MAX:
            raise FetchError(f"the answer has more than {SIZE_MAX} bytes")
    raise FetchError(f"the answer is not there after {TIMEOUT_S:.0f} seconds")


class _Received:
    """The bytes of an answer, as the socket that `HTTPResponse` reads."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> BytesIO:
        """The bytes, to be read once."""
        return BytesIO(self._data)


def _connection(scheme: str, host: str, port: int | None, context: SSLContext | None) -> HTTPConnection:
    from http.client import HTTPConnection, HTTPSConnection

    if scheme == "http":
        return HTTPConnection(host, port, timeout=TIMEOUT_S)
    return HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)

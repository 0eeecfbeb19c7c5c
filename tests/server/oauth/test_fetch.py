"""Fetching keys: over HTTP, HTTPS and from files, and never without end."""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from kwire.base.doors import Files
from kwire.base.http import SIZE_MAX
from kwire.server.oauth.fetch import FetchError, fetch

BODY = b'{"keys": []}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"


@contextmanager
def server(answer: bytes, context: ssl.SSLContext | None = None, requests: list[bytes] | None = None) -> Iterator[int]:
    """A server on loopback that sends the same bytes to whoever asks. Yields its port."""

    def serve(client: socket.socket) -> None:
        with suppress(OSError), client:
            stream = client if context is None else context.wrap_socket(client, server_side=True)
            with stream:
                request = stream.recv(65536)
                if requests is not None:
                    requests.append(request)
                stream.sendall(answer)
                if context is not None:
                    stream.unwrap()  # type: ignore[attr-defined] # an SSLSocket

    def accept() -> None:
        with suppress(OSError):
            while True:
                serve(listening.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def get(url: str, context: ssl.SSLContext | None = None, monotonic: Callable[[], float] = time.monotonic) -> bytes:
    return fetch(url, context, Files(), monotonic)


def test_a_document_is_fetched() -> None:
    requests: list[bytes] = []
    with server(HEAD + BODY, requests=requests) as port:
        assert get(f"http://127.0.0.1:{port}/a/b?c=d") == BODY
        assert get(f"http://127.0.0.1:{port}") == BODY
    assert [request.split(b"\r\n")[0] for request in requests] == [b"GET /a/b?c=d HTTP/1.1", b"GET / HTTP/1.1"]


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + BODY,
        b"HTTP/1.0 200 OK\r\n\r\n" + BODY,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"
        + BODY[:5]
        + b"\r\n7\r\n"
        + BODY[5:]
        + b"\r\n0\r\n\r\n",
    ],
)
def test_every_form_of_an_answer_is_understood(answer: bytes) -> None:
    with server(answer) as port:
        assert get(f"http://127.0.0.1:{port}/") == BODY


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "HTTP status 404"),
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", "HTTP status 302"),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", "HTTP status 304"),
        (b"", "Remote end closed connection without response"),
        (b"SSH-2.0\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + BODY, "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * SIZE_MAX, f"the answer has more than {SIZE_MAX} bytes"),
    ],
)
def test_other_answers_are_refused(answer: bytes, reason: str) -> None:
    with server(answer) as port, pytest.raises(FetchError) as raised:
        get(f"http://127.0.0.1:{port}/")
    assert str(raised.value).startswith(reason)
    assert "\n" not in str(raised.value)


def test_a_server_that_sends_a_little_from_time_to_time_is_given_up() -> None:
    seconds = itertools.count(step=2.0)
    with server(b"H" * 1_000_000) as port, pytest.raises(FetchError, match="the answer is not there after 10 seconds"):
        get(f"http://127.0.0.1:{port}/", monotonic=lambda: next(seconds))


def test_nobody_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(FetchError, match="Connection refused"):
        get(f"http://127.0.0.1:{port}/")


def test_the_certificate_of_a_server_is_checked() -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with server(HEAD + BODY, context) as port:
        assert get(f"https://localhost:{port}/", trusting(authority)) == BODY
        for url, other in (
            (f"https://localhost:{port}/", trusting(stranger)),
            (f"https://127.0.0.1:{port}/", trusting(authority)),
        ):
            with pytest.raises(FetchError, match="certificate"):
                get(url, other)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "the keys.json"
    path.write_bytes(BODY)
    assert get(path.as_uri()) == BODY
    with pytest.raises(FetchError, match="No such file"):
        get((tmp_path / "nothing").as_uri())
    with pytest.raises(FetchError, match="not a regular file"):
        get(tmp_path.as_uri())


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b"x" * (SIZE_MAX + 1))
    with pytest.raises(FetchError, match="the file has more than"):
        get(path.as_uri())


def test_proxies_of_the_environment_are_not_used(monkeypatch: Any) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with server(HEAD + BODY) as port:
        assert get(f"http://127.0.0.1:{port}/") == BODY

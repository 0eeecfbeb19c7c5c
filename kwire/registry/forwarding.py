"""Writes go to the leader: the request as it is, with a header that keeps it from going round in a circle."""

from __future__ import annotations

import asyncio
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from kwire.registry import failures

FORWARDED: Final = "x-forward"
"""The header, as Confluent's registry calls it."""
OFFSET: Final = "x-kwire-offset"
"""A response's header: the offset after what has been written."""
_PASSED: Final[tuple[str, ...]] = ("content-type", "accept", "authorization")
_SIZE_MAX: Final = 16 * 1024 * 1024


class Answer(NamedTuple):
    """The leader's answer. ``offset``: up to where to read before it holds here, too; None if it says nothing."""

    status: int
    content_type: str
    body: bytes
    offset: int | None


class Forwarder:
    """Sends requests to other instances. ``ca``: a file of certificates in PEM to trust, besides the system's."""

    def __init__(self, timeout_s: float, ca: str | None) -> None:
        self._timeout_s = timeout_s
        self._ca = ca

    async def forward(self, url: str, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        """The answer of the instance at a URL. `Refusal` if there is none."""
        passed = {name: headers[name] for name in _PASSED if name in headers} | {FORWARDED: "true"}
        try:
            return await asyncio.to_thread(self._sent, url, method, target, passed, body)
        except (OSError, HTTPException, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise failures.not_forwarded(f"The leader {url} does not answer: {reason}") from None

    def _sent(self, url: str, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(url)
        connection: HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context()
            if self._ca is not None:
                context.load_verify_locations(self._ca)
            connection = HTTPSConnection(parts.hostname or "", parts.port, timeout=self._timeout_s, context=context)
        else:
            connection = HTTPConnection(parts.hostname or "", parts.port, timeout=self._timeout_s)
        try:
            connection.request(method, target, body or None, headers)
            response = connection.getresponse()
            offset = response.getheader(OFFSET)
            return Answer(
                response.status,
                response.getheader("content-type", ""),
                response.read(_SIZE_MAX),
                int(offset) if offset else None,
            )
        finally:
            connection.close()

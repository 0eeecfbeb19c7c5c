"""Writes go to the leader: the request as it is, with a header that keeps it from going round in a circle."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Final, NamedTuple

from kwire.base.http import HttpError, Response, Timeouts, request
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
        self._timeouts = Timeouts(timeout_s, timeout_s)
        self._ca = ca

    async def forward(self, url: str, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        """The answer of the instance at a URL. `Refusal` if there is none."""
        passed = {name: headers[name] for name in _PASSED if name in headers} | {FORWARDED: "true"}
        try:
            response = await asyncio.to_thread(self._sent, url, method, target, passed, body)
        except (HttpError, OSError) as error:
            raise failures.not_forwarded(f"The leader {url} does not answer: {error}") from None
        offset = response.headers.get(OFFSET, "")
        return Answer(
            response.status,
            response.headers.get("content-type", ""),
            response.body,
            int(offset) if offset.isdecimal() else None,
        )

    def _sent(self, url: str, method: str, target: str, headers: dict[str, str], body: bytes) -> Response:
        context = None
        if url.startswith("https:"):
            context = ssl.create_default_context()
            if self._ca is not None:
                context.load_verify_locations(self._ca)
        return request(
            url + target,
            context,
            time.monotonic,
            headers,
            body or None,
            self._timeouts,
            method=method,
            size_max=_SIZE_MAX,
        )

"""Metrics of clients are forwarded one push after the other; nobody waits for the endpoint."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from harness.waiting import PATIENCE_S
from kwire.base.doors import Doors
from kwire.base.http import HttpError, Response
from kwire.handlers.telemetry.subscriptions import ClientAttributes
from kwire.server.telemetry import exporter as module
from kwire.server.telemetry.exporter import OtlpExporter

CLIENT = ClientAttributes("id", None, "software", "1", "127.0.0.1", "1")
DATA = b"\n\x00"


class Endpoint:
    """In the place of `kwire.base.http.request`. ``answer``: the next statuses, or errors."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.answers: list[int | Exception] = []
        self.free = threading.Event()
        self.free.set()

    def __call__(self, url: str, context: Any, monotonic: Any, headers: Any, body: bytes) -> Response:
        assert self.free.wait(PATIENCE_S)
        self.bodies.append(body)
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, Exception):
            raise answer
        return Response(answer, b"")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    made = Endpoint()
    monkeypatch.setattr(module, "request", made)
    return made


def exporter() -> OtlpExporter:
    return OtlpExporter(Doors(), "http://localhost/v1/metrics", 1)


async def settled(exporter: OtlpExporter, count: int) -> dict[str, float]:
    """Wait until so many pushes have an outcome."""
    async with asyncio.timeout(PATIENCE_S):
        while sum(exporter.attributes().values()) < count:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.001)
    return exporter.attributes()


async def test_all_pushes_arrive_in_order(endpoint: Endpoint) -> None:
    exports = exporter()
    for number in range(5):
        exports.receive(CLIENT, f"User:{number}", DATA)
    assert await settled(exports, 5) == {"otlp-export-count": 5, "otlp-dropped-count": 0, "otlp-error-count": 0}
    assert [f"User:{number}".encode() in body for number, body in enumerate(endpoint.bodies)] == [True] * 5


@pytest.mark.parametrize("answer", [HttpError("refused"), 404, 503])
async def test_a_failure_is_counted_and_the_next_push_goes_on(endpoint: Endpoint, answer: int | Exception) -> None:
    endpoint.answers = [answer]
    exports = exporter()
    exports.receive(CLIENT, "User:a", DATA)
    exports.receive(CLIENT, "User:b", DATA)
    assert await settled(exports, 2) == {"otlp-export-count": 1, "otlp-dropped-count": 0, "otlp-error-count": 1}
    exports.receive(CLIENT, "User:c", DATA)
    assert (await settled(exports, 3))["otlp-export-count"] == 2


async def test_what_a_slow_endpoint_cannot_take_is_dropped(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_MAX", 3)
    endpoint.free.clear()
    exports = exporter()
    exports.receive(CLIENT, "User:a", DATA)
    await asyncio.sleep(0)  # it is under way, so it does not wait in the queue
    for _ in range(5):
        exports.receive(CLIENT, "User:b", DATA)
    endpoint.free.set()
    assert await settled(exports, 6) == {"otlp-export-count": 4, "otlp-dropped-count": 2, "otlp-error-count": 0}


async def test_the_bytes_that_wait_are_bounded(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUE_BYTES_MAX", 10)
    exports = exporter()
    exports.receive(CLIENT, "User:a", DATA)
    assert exports.attributes()["otlp-dropped-count"] == 1


async def test_what_is_no_metrics_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(ValueError, match="MetricsData"):
        exporter().receive(CLIENT, "User:a", b"\x08\x01")


async def test_the_end_does_not_wait_for_the_endpoint(endpoint: Endpoint) -> None:
    endpoint.free.clear()
    exports = exporter()
    exports.receive(CLIENT, "User:a", DATA)
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await exports.close()
    endpoint.free.set()

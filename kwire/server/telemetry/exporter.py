"""`OtlpExporter`: forwards the metrics of clients to an OTLP/HTTP endpoint, one push after the other.

Nobody waits for the endpoint: pushes wait in a queue that is bounded in number and bytes, and what does not fit is
dropped and counted. A request that fails is not repeated, because the client's next push follows soon.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from kwire.base.http import HttpError, request
from kwire.base.limited_log import LimitedLog
from kwire.base.logging import get_logger
from kwire.server.telemetry.labels import labelled

if TYPE_CHECKING:
    from ssl import SSLContext

    from kwire.base.doors import Doors
    from kwire.handlers.telemetry.subscriptions import ClientAttributes

QUEUE_MAX: Final = 1000
"""Pushes that wait."""
QUEUE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of all pushes that wait."""
HEADERS: Final = {"Content-Type": "application/x-protobuf"}
_OK: Final = range(200, 300)


class OtlpExporter:
    """See the module. ``broker_id`` becomes a label, as do the client's attributes."""

    def __init__(self, doors: Doors, url: str, broker_id: int) -> None:
        self._doors = doors
        self._url = url
        self._broker_id = broker_id
        self._log = LimitedLog(get_logger("kwire.server"), doors.clock.monotonic, by="endpoint", lines_max=1)
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._context: SSLContext | None = None
        self._exported = self._dropped = self._failed = 0

    def receive(self, client: ClientAttributes, principal: str, payload: bytes) -> None:
        """Forward the metrics of one push. ValueError if they are no OpenTelemetry metrics."""
        labels = {name: value for name, value in client._asdict().items() if value is not None}
        data = labelled(payload, {**labels, "principal": principal, "broker_id": str(self._broker_id)})
        if len(self._waiting) >= QUEUE_MAX or self._bytes + len(data) > QUEUE_BYTES_MAX:
            self._dropped += 1
            self._log.info("metrics of clients are dropped: the endpoint is too slow", endpoint=self._url)
            return
        self._waiting.append(data)
        self._bytes += len(data)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._export())

    def attributes(self) -> dict[str, float]:
        """Counts of pushes: forwarded, dropped as the queue was full, failed."""
        return {
            "otlp-export-count": self._exported,
            "otlp-dropped-count": self._dropped,
            "otlp-error-count": self._failed,
        }

    async def close(self) -> None:
        """Forward nothing any more."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _export(self) -> None:
        while self._waiting:
            data = self._waiting.popleft()
            self._bytes -= len(data)
            try:
                await self._doors.executor.run_apart(self._post, data)
            except HttpError as error:
                self._failed += 1
                self._log.info("metrics of clients were not forwarded", endpoint=self._url, error=str(error))
            else:
                self._exported += 1

    def _post(self, data: bytes) -> None:
        if self._context is None and self._url.startswith("https:"):
            import ssl

            self._context = ssl.create_default_context()
        response = request(self._url, self._context, self._doors.clock.monotonic, HEADERS, data)
        if response.status not in _OK:
            raise HttpError(f"HTTP status {response.status}")

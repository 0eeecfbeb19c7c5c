"""Requests that the pages of a console have made, made again at the same times: a browser without the browser.

    python -m tools.console.replay < FILE

The file is the JSON of a `Recording`. Streams of events are read until the time is over. A response that lacks rights
or reports a fault of the console is an error. How many responses there were and their bytes are printed as JSON.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

CONNECTIONS: Final = 6
"""To one host, as in browsers."""
READ_BYTES: Final = 65_536
REFUSED: Final = {401, 403, 500}
"""What the pages never get: neither 501 (the cluster has no such thing) nor 404 is among them."""


@dataclass
class Recording:
    """Requests to the console at ``base``, with a cookie. ``lasts_s``: from the first one to the end."""

    base: str
    cookie: str
    lasts_s: float
    requests: list[tuple[float, str, bool]] = field(default_factory=list)
    """Seconds from the beginning, the path, and whether the response is a stream of events."""


class Replay:
    """Makes the requests of a recording."""

    def __init__(self, recording: Recording) -> None:
        self.responses = self.received = 0
        self._recording = recording
        self._mine = threading.local()
        self._count = threading.Lock()
        self._streams: list[HTTPConnection] = []

    def run(self) -> None:
        """Make all of them. `RuntimeError` if one is refused."""
        began_s = time.monotonic()
        with (
            ThreadPoolExecutor(CONNECTIONS) as pool,
            ThreadPoolExecutor(len(self._recording.requests) + 1) as listeners,
        ):
            asked = []
            for at_s, path, stream in sorted(self._recording.requests):
                time.sleep(max(0.0, began_s + at_s - time.monotonic()))
                asked.append(listeners.submit(self._listen, path) if stream else pool.submit(self._ask, path))
            time.sleep(max(0.0, began_s + self._recording.lasts_s - time.monotonic()))
            with self._count:
                for connection in self._streams:
                    if connection.sock is not None:
                        connection.sock.shutdown(socket.SHUT_RDWR)
            for each in asked:
                each.result()

    def _ask(self, path: str) -> None:
        connection = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = self._connection()
        try:
            self._got(self._answer(connection, path))
        except (OSError, HTTPException):  # it was kept for too long
            connection.close()
            self._got(self._answer(connection, path))

    def _listen(self, path: str) -> None:
        connection = self._connection()
        connection.connect()
        with self._count:
            self._streams.append(connection)
        with suppress(OSError, HTTPException):
            self._answer(connection, path)

    def _connection(self) -> HTTPConnection:
        return HTTPConnection(urlsplit(self._recording.base).netloc, timeout=self._recording.lasts_s + 60)

    def _answer(self, connection: HTTPConnection, path: str) -> int:
        """Ask and read to the end; the bytes of it."""
        connection.request("GET", path, headers={"cookie": self._recording.cookie, "accept": "*/*"})
        response = connection.getresponse()
        if response.status in REFUSED:
            raise RuntimeError(f"{path}: status {response.status}")
        read = 0
        while part := response.read1(READ_BYTES):
            read += len(part)
        return read

    def _got(self, received: int) -> None:
        with self._count:
            self.responses += 1
            self.received += received


def dumped(recording: Recording) -> str:
    """A recording as JSON."""
    return json.dumps(asdict(recording))


def main() -> int:
    """Make the requests and print."""
    found = json.load(sys.stdin)
    requests = [(at_s, path, stream) for at_s, path, stream in found.pop("requests")]
    replay = Replay(Recording(**found, requests=requests))
    replay.run()
    print(json.dumps({"responses": replay.responses, "bytes": replay.received}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

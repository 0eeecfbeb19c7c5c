"""The client of a broker's control socket (`kwire.server.control`): blocking, for fixtures."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIMEOUT_S = 10.0


class ControlError(Exception):
    """The broker refused a command or did not reply; the text says why."""


class ControlClient:
    """Commands to one broker. ``path``: the socket in its data directory."""

    def __init__(self, path: str | Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(TIMEOUT_S)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise ControlError(
                f"{path}: {error.strerror or error}: is there a broker with kwire.test.control=true?"
            ) from None
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        """Close the connection. A broker that is tethered to it stops."""
        self._answers.close()
        self._socket.close()

    def do(self, command: str, **fields: Any) -> dict[str, Any]:
        """Send one command; returns the reply. `ControlError` if it is refused or no reply comes."""
        try:
            self._socket.sendall(json.dumps({"do": command, **fields}).encode() + b"\n")
            line = self._answers.readline()
        except OSError as error:
            raise ControlError(f"{command}: the broker does not answer: {error}") from None
        if not line:
            raise ControlError(f"{command}: the broker has ended")
        response: dict[str, Any] = json.loads(line)
        if "error" in response:
            raise ControlError(f"{command}: {response['error']}")
        return response

    def fail_next(self, api: str, error: str, *, times: int = 1) -> None:
        """Have the next ``times`` requests of an API (``"Produce"``) fail with an error (``"NOT_ENOUGH_REPLICAS"``);
        they change nothing. NETWORK_EXCEPTION closes the connection instead. ``times=0`` cancels it."""
        self.do("fail", api=api, error=error, times=times)

    def pause(self, *apis: str) -> None:
        """Send no responses (or none of these APIs) until `resume`. Connections stay open, and the broker's own timers
        run on: sessions expire, as behind a failed network."""
        self.do("pause", apis=list(apis))

    def resume(self) -> None:
        """End every pause: requests that waited are handled."""
        self.do("resume")

    @contextmanager
    def paused(self, *apis: str) -> Iterator[None]:
        """`pause` for the length of a ``with`` block."""
        self.pause(*apis)
        try:
            yield
        finally:
            self.resume()

    def reset(self) -> None:
        """Cancel all failures and pauses."""
        self.do("reset")

    def failures_left(self) -> dict[str, int]:
        """API -> how many of its requests are still to fail."""
        return {api: times for api, (_, times) in self.do("status")["failures"].items()}

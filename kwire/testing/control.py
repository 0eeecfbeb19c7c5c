"""The near end of a broker's control socket (`kwire.server.control`): blocking, and without asyncio, for fixtures."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIMEOUT_S = 10.0


class ControlError(Exception):
    """The broker did not obey; the text says why in words for people."""


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
        """End the connection. A broker that is tethered to it stops."""
        self._answers.close()
        self._socket.close()

    def do(self, command: str, **fields: Any) -> dict[str, Any]:
        """Send one command; its answer. `ControlError` when it is refused or nobody answers."""
        try:
            self._socket.sendall(json.dumps({"do": command, **fields}).encode() + b"\n")
            line = self._answers.readline()
        except OSError as error:
            raise ControlError(f"{command}: the broker does not answer: {error}") from None
        if not line:
            raise ControlError(f"{command}: the broker has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ControlError(f"{command}: {answer['error']}")
        return answer

    def fail_next(self, api: str, error: str, *, times: int = 1) -> None:
        """Have the next ``times`` requests of an API (``"Produce"``) fail with an error (``"NOT_ENOUGH_REPLICAS"``);
        nothing of them is done. NETWORK_EXCEPTION closes the connection instead of answering. 0 takes it back."""
        self.do("fail", api=api, error=error, times=times)

    def pause(self, *apis: str) -> None:
        """Answer nothing (or nothing of these APIs) any more until `resume`. Connections stay open, and the broker's
        own timers run on: sessions end meanwhile, as behind a network that has failed."""
        self.do("pause", apis=list(apis))

    def resume(self) -> None:
        """End every pause: what has waited is done and answered."""
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
        """Take every failure and pause back."""
        self.do("reset")

    def failures_left(self) -> dict[str, int]:
        """API -> how many of its requests are still to fail."""
        return {api: times for api, (_, times) in self.do("status")["failures"].items()}

"""Faults on demand: a Unix socket in the data directory, there only with ``kwire.test.control=true``.

Tests make the next requests of an API fail, or hold responses back (`kwire.testing.control` is the client). The
broker's APIs are replaced by copies that check for a fault first, so a broker without control pays nothing for it.

Each command is a JSON object on a line, such as ``{"do": "fail", "api": "Produce", "error": "NOT_ENOUGH_REPLICAS",
"times": 1}``. The others are ``pause`` (``apis``: a list; all if it is empty), ``resume``, ``reset``, ``status``, and
``tether``: the broker stops when this connection closes. The reply is a line with ``ok`` and the status, or ``error``.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kwire.base.doors import Files
from kwire.base.errors import ErrorCode
from kwire.base.futures import is_later
from kwire.base.logging import get_logger
from kwire.codec.protocol import API_FACTS, ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.handlers.registry import Registry
from kwire.server.errors import StartError

SOCKET_FILE: Final = "control.sock"
MAX_PATH_BYTES: Final = 103
"""The length that every system accepts for the path of a Unix socket (Linux 107, macOS 103)."""
MAX_LINE_BYTES: Final = 65536
MAX_TIMES: Final = 1_000_000

_log = get_logger("kwire.server.control")


class Control:
    """The faults of one broker: failures by API, and paused APIs."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, SOCKET_FILE)
        self.on_abandoned: Callable[[], None] | None = None
        self._failures: dict[int, tuple[ErrorCode, int]] = {}
        self._paused: frozenset[int] = frozenset()
        self._resumed: asyncio.Future[None] | None = None
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, None] = {}

    # -- the socket -------------------------------------------------------------------------------------------------

    async def open(self, files: Files) -> None:
        """Listen. Only the owner of the broker's process may connect. `StartError` if that fails."""
        if len(os.fsencode(self.path)) > MAX_PATH_BYTES:
            raise StartError(
                f"kwire.test.control=true: the path of the socket {self.path} is longer than {MAX_PATH_BYTES} bytes: "
                "use a data directory with a shorter path"
            )
        if files.exists(self.path):  # of a broker that was killed: the directory's lock is ours
            files.unlink(self.path)
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, self.path, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise StartError(f"kwire.test.control=true: {self.path}: {error.strerror or error}") from None
        finally:
            os.umask(mask)
        _log.warning("for tests only: requests can be made to fail", kwire_test_control=True, socket=self.path)

    async def close(self, files: Files) -> None:
        """Resume everything, and close the socket."""
        self.resume()
        self.on_abandoned = None
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.close()
        if files.exists(self.path):
            files.unlink(self.path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from json import dumps, loads

        tethered = False
        self._writers[writer] = None
        try:
            while line := await reader.readline():
                try:
                    command = loads(line)
                    response = self.do(command)
                except (ValueError, TypeError) as error:
                    response = {"error": str(error)}
                else:
                    tethered = tethered or command["do"] == "tether"
                writer.write(dumps(response).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            pass  # the other end is gone, or its line was too long
        finally:
            del self._writers[writer]
            writer.close()
        if tethered and self.on_abandoned is not None:
            _log.info("stopping: the process that started this broker has ended")
            self.on_abandoned()

    # -- the commands -----------------------------------------------------------------------------------------------

    def do(self, command: Any) -> dict[str, Any]:
        """Run one command; returns the reply. ValueError for a wrong command, with a text for people."""
        if not isinstance(command, dict):
            raise ValueError("a command is a JSON object")
        name = command.get("do")
        if name == "fail":
            self._fail(_api(command.get("api")), _error(command.get("error")), command.get("times", 1))
        elif name == "pause":
            self._pause(command.get("apis") or ())
        elif name == "resume":
            self.resume()
        elif name == "reset":
            self._failures.clear()
            self.resume()
        elif name == "tether" and self.on_abandoned is None:
            raise ValueError("this broker is not a process of its own")
        elif name not in ("status", "tether"):
            raise ValueError(f"no command {name!r}: fail, pause, resume, reset, status, tether")
        return {"ok": True, **self.status()}

    def status(self) -> dict[str, Any]:
        """The failures that are left, and the paused APIs."""
        failures = {ApiKey(key).name: [code.name, times] for key, (code, times) in self._failures.items()}
        return {"failures": failures, "paused": [ApiKey(key).name for key in sorted(self._paused)]}

    def _fail(self, key: int, code: ErrorCode, times: object) -> None:
        if not isinstance(times, int) or not 0 <= times <= MAX_TIMES:
            raise ValueError(f"times={times!r}: must be a number from 0 to {MAX_TIMES}")
        if times:
            self._failures[key] = (code, times)
        else:
            self._failures.pop(key, None)

    def _pause(self, apis: Any) -> None:
        if not isinstance(apis, (list, tuple)):
            raise ValueError("apis must be a list of names")
        self._paused |= frozenset(map(_api, apis)) if apis else frozenset(map(int, API_FACTS))
        if self._resumed is None:
            self._resumed = asyncio.get_running_loop().create_future()

    def resume(self) -> None:
        """End all pauses: held-back requests and responses go on."""
        self._paused = frozenset()
        resumed, self._resumed = self._resumed, None
        if resumed is not None and not resumed.done():
            resumed.set_result(None)

    # -- requests ---------------------------------------------------------------------------------------------------

    def registry(self) -> Registry:
        """All APIs, each of which checks for faults first."""
        return Registry(self._controlled)

    def _controlled(self, api: Api) -> Api:
        return dataclasses.replace(
            api, handle=lambda request, context: self._handle(api, request, context), fast_path=None, together=None
        )

    def _handle(self, api: Api, request: Any, context: RequestContext) -> Any:
        if api.key in self._paused:
            return self._later(api, request, context)
        response = self._decide(api, request, context)
        return self._held(api, response) if is_later(response) else response

    async def _later(self, api: Api, request: Any, context: RequestContext) -> Any:
        """Handle a request when the pause ends."""
        await self._unpaused(api)
        response = self._decide(api, request, context)
        return await self._held(api, response) if is_later(response) else response

    async def _held(self, api: Api, awaited: Awaitable[Any]) -> Any:
        """Hold the response to a request that was pending when the pause began."""
        response = await awaited
        await self._unpaused(api)
        return response

    async def _unpaused(self, api: Api) -> None:
        while api.key in self._paused and self._resumed is not None:
            await asyncio.shield(self._resumed)

    def _decide(self, api: Api, request: Any, context: RequestContext) -> Any:
        failure = self._failures.get(int(api.key))
        if failure is None:
            return api.handle(request, context)
        from kwire.handlers.faults import failed

        code, times = failure
        self._fail(int(api.key), code, times - 1)
        return failed(api, request, context, code)


def _api(name: object) -> int:
    """The key of an API by its name in any spelling (``OffsetCommit``, ``OFFSET_COMMIT``) or number."""
    wanted = str(name).replace("_", "").lower()
    for key in API_FACTS:
        if wanted in (str(int(key)), ApiKey(key).name.replace("_", "").lower()):
            return int(key)
    raise ValueError(f"no API {name!r}: Produce, Fetch, Metadata, OffsetCommit, ...")


def _error(name: object) -> ErrorCode:
    """An error by its name in Kafka's protocol, or its number."""
    wanted = str(name).upper()
    for code in ErrorCode:
        if wanted in (code.name, str(int(code))) and code is not ErrorCode.NONE:
            return code
    raise ValueError(f"no error {name!r}: NOT_LEADER_OR_FOLLOWER, NETWORK_EXCEPTION, ...")

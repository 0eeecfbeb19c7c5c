"""`MetricsEndpoint`: serves snapshots at a Unix socket, and runs the process that serves Prometheus (`kwire.metrics`).

``kwire.metrics.listen=HOST:PORT`` and ``kwire.metrics.otel.endpoint=URL`` start that process. If ``listen`` is
``unix:PATH``, the broker only serves snapshots, for the process of all brokers of ``kwire start --brokers``. A request
is a line; the response is a JSON array of rows for each slice, a line each, and at the end an object with facts about
the broker. To the request ``facts`` that is all.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

from kwire.base.extras import missing
from kwire.base.logging import get_logger
from kwire.server.errors import StartError
from kwire.server.metrics_endpoint.snapshot import OFFSETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.base.config import KafkaConfig
    from kwire.server.metrics_endpoint.ends import LeaderEnds
    from kwire.server.metrics_endpoint.snapshot import Snapshots

SOCKET_PREFIX: Final = "unix:"
FACTS: Final = b"facts\n"
SLICE_S: Final = 0.0002
"""Seconds of the event loop that a slice takes, and the seconds that clients then have for themselves."""
PAUSE_S: Final = 0.001
_ROWS_AT_ONCE: Final = 8
START_S: Final = 30.0

_log = get_logger("kwire.server.metrics")


class MetricsEndpoint:
    """The endpoint of one broker."""

    def __init__(self, config: KafkaConfig, snapshots: Snapshots, ends: LeaderEnds) -> None:
        self._listen = config.kwire_metrics_listen or ""
        self._settings = endpoint_settings(config)
        self._snapshots = snapshots
        self._ends = ends
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._process: EndpointProcess | None = None
        self._directory: str | None = None

    async def open(self) -> None:
        """Serve. `StartError` if that is not possible."""
        path = self._listen.removeprefix(SOCKET_PREFIX)
        if path == self._listen:  # an address, or none if metrics are only pushed
            self._directory = tempfile.mkdtemp(prefix="kwire-metrics-")  # only its owner may look into it
            path = os.path.join(self._directory, "metrics.sock")
        try:
            self._server = await asyncio.start_unix_server(self._serve, path)
            if self._directory is not None:
                self._process = EndpointProcess(self._listen, self._settings, {"": path})
                await self._process.start()
        except OSError as error:
            raise StartError(f"kwire.metrics.listen={self._listen}: {error.strerror or error}") from None

    async def close(self) -> None:
        """End the process and close the socket."""
        if self._process is not None:
            await self._process.close()
        if self._server is not None:
            self._server.close()
            for writer in list(self._writers):
                writer.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while request := await reader.readline():
                await (self._respond_facts if request == FACTS else self._respond)(writer)
        except (OSError, ValueError):
            pass  # the other end is gone
        finally:
            self._writers.discard(writer)
            writer.close()

    @property
    def _is_alone(self) -> bool:
        """Whether its process serves this broker only, and has no snapshots of other leaders."""
        return self._process is not None

    async def _respond_facts(self, writer: asyncio.StreamWriter) -> None:
        writer.write(_line(self._snapshots.facts()))
        await writer.drain()

    async def _respond(self, writer: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        rows: list[list[Any]] = []
        committed: list[tuple[str, int]] = []
        begun = clock()
        for row in self._snapshots.rows():
            if row is not None:
                rows.append(row)
                if row[0] == OFFSETS and self._is_alone:
                    committed += [(topic, index) for topic, index, _ in row[3]]
            if row is None or len(rows) == _ROWS_AT_ONCE:
                if rows:
                    writer.write(_line(rows))
                    rows = []
                if clock() - begun > SLICE_S:
                    await writer.drain()
                    await asyncio.sleep(PAUSE_S)
                    begun = clock()
        writer.write(_line(rows))
        for row in await self._ends.rows(committed):
            writer.write(_line([row]))
        await self._respond_facts(writer)


def _line(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def endpoint_settings(config: KafkaConfig) -> dict[str, Any]:
    """What the process needs to know beside its address."""
    return {
        "certificate": config.kwire_metrics_ssl_certificate_location,
        "key": config.kwire_metrics_ssl_key_location,
        "username": config.kwire_metrics_username,
        "password": config.kwire_metrics_password,
        "names": config.kwire_metrics_names,
        "otel": _otel(config),
    }


def _otel(config: KafkaConfig) -> dict[str, Any] | None:
    if not config.kwire_metrics_otel_endpoint:
        return None
    return {"endpoint": config.kwire_metrics_otel_endpoint, "interval_ms": config.kwire_metrics_otel_interval_ms}


class EndpointProcess:
    """The process that serves ``http://HOST:PORT/metrics`` from the snapshots of brokers: ``sockets`` by the value of
    the label ``broker`` ("": no label). It ends when this process does: its standard input closes then."""

    def __init__(self, listen: str, settings: Mapping[str, Any], sockets: Mapping[str, str]) -> None:
        self._arguments = {"listen": listen, **settings, "sockets": dict(sockets)}
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it. `StartError`."""
        listen, otel = self._arguments["listen"], self._arguments["otel"]
        for name, is_used in (("metrics", listen), ("otel", otel)):
            if is_used and (reason := missing(name)) is not None:
                raise StartError(reason)
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "kwire.metrics",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C at the terminal is for the broker
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(_line(self._arguments))
        try:
            async with asyncio.timeout(START_S):
                line = await process.stdout.readline()
        except TimeoutError:
            line = b""
        report = json.loads(line) if line else {"error": "its process does not start"}
        if "error" in report:
            await self.close()
            name = f"kwire.metrics.listen={listen}" if listen else f"kwire.metrics.otel.endpoint={otel['endpoint']}"
            raise StartError(f"{name}: {report['error']}")
        self._watch = asyncio.create_task(self._report_end(process), name="metrics endpoint")
        if listen:
            _log.info("metrics are served", url=report["url"])
        if otel:
            _log.info("metrics are pushed", endpoint=otel["endpoint"], interval_ms=otel["interval_ms"])

    async def _report_end(self, process: asyncio.subprocess.Process) -> None:
        status = await process.wait()
        _log.error("the process of the metrics has ended; they are not served or pushed any more", status=status)

    async def close(self) -> None:
        """End it."""
        if self._watch is not None:
            self._watch.cancel()
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

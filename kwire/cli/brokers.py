"""``kwire start --brokers N``: runs a cluster of N brokers on this host and supervises their processes.

Each broker is a process of its own, with its own directory below ``--data-dir`` and the metadata store beside them;
ports are counted up from the first listener's. This process serves no clients. It starts the brokers, writes one ready
line with all their addresses when all of them are ready, stops them one after the other on a signal (so that leadership
moves), logs the death of a broker, and starts it again with ``--restart``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kwire.base.config.listeners import LOCAL_ONLY
from kwire.base.free_ports import free_ports
from kwire.base.logging import get_logger
from kwire.cli.running.children import ConsoleProcess, end_with_parent, has_ended
from kwire.server.ready_line import PREFIX, ReadyLine

if TYPE_CHECKING:
    from kwire.base.config import Endpoint, KafkaConfig
    from kwire.server.metrics_endpoint.cluster import ClusterMetrics

STOP_S: Final = 30.0
RESTART_S: Final = 1.0
INTERNAL_REPLICAS_MAX: Final = 3

_log = get_logger("kwire.cluster")


@dataclass
class _Member:
    """One broker's process."""

    node_id: int
    command: list[str]
    process: Process | None = None
    bootstrap: str = ""
    ready: asyncio.Event = field(default_factory=asyncio.Event)


def commands(
    config: KafkaConfig, arguments: argparse.Namespace, metrics: ClusterMetrics | None = None
) -> list[list[str]]:
    """The command line of each broker: the options of this command, and the properties that differ between brokers."""
    directory = os.path.abspath(config.data_dirs[0])
    count = arguments.brokers
    replicas = str(min(count, INTERNAL_REPLICAS_MAX))
    shared = {
        "kwire.metadata.dir": config.kwire_metadata_dir or os.path.join(directory, "metadata"),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, count)),
        "default.replication.factor": replicas,
    }
    given = config.static
    if config.zookeeper_connect:
        del shared["kwire.metadata.dir"]
    made = []
    chosen = free_ports()
    for number in range(count):
        node_id = config.node_id + number
        own = {name: value for name, value in shared.items() if name not in given}
        own["node.id"] = str(node_id)
        if metrics is not None:
            own["kwire.metrics.listen"] = metrics.listen(node_id)
        own["log.dirs"] = os.path.join(directory, f"broker-{node_id}")
        own["listeners"] = ",".join(_counted(endpoint, number, chosen) for endpoint in config.endpoints())
        if config.static.get("advertised.listeners"):
            advertised = config.advertised_endpoints()
            own["advertised.listeners"] = ",".join(_counted(endpoint, number, chosen) for endpoint in advertised)
        command = [sys.executable, "-m", "kwire", "start"]
        if arguments.file or arguments.config:
            command += ["--config", arguments.file or arguments.config]
        for name, value in {**dict(arguments.properties), **own}.items():
            command += ["--set", f"{name}={value}"]
        made.append(command)
    return made


def _counted(endpoint: Endpoint, number: int, chosen: Iterator[int]) -> str:
    """A listener with its port counted up. A free port is chosen here instead of port 0, so that a restarted broker has
    the same address."""
    return str(endpoint._replace(port=endpoint.port + number if endpoint.port else next(chosen)))


class Brokers:
    """The processes of the brokers."""

    def __init__(self, config: KafkaConfig, arguments: argparse.Namespace) -> None:
        ids = range(config.node_id, config.node_id + arguments.brokers)
        self._metrics: ClusterMetrics | None = None
        if config.kwire_metrics_listen or config.kwire_metrics_otel_endpoint:
            from kwire.server.metrics_endpoint.cluster import ClusterMetrics

            self._metrics = ClusterMetrics(config, ids)
        lines = commands(config, arguments, self._metrics)
        self._members = [_Member(node_id, command) for node_id, command in zip(ids, lines, strict=True)]
        self._console = ConsoleProcess(arguments.console) if arguments.console else None
        self._is_local_only = config.is_local_only
        self._restart = arguments.restart
        self._stopping = asyncio.Event()
        self._failed = 0

    async def run(self) -> int:
        """Run until a signal comes or no broker is left; returns the exit status. `StartError` if metrics cannot be
        served."""
        try:
            if self._metrics is not None:
                await self._metrics.open()
            return await self._run()
        finally:
            if self._metrics is not None:
                await self._metrics.close()

    async def _run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        if self._is_local_only:
            _log.info(LOCAL_ONLY)
        runs = [asyncio.ensure_future(self._run_member(member)) for member in self._members]
        ready = asyncio.ensure_future(self._write_ready_line())
        stopping = asyncio.ensure_future(self._stopping.wait())
        all_ended = asyncio.gather(*runs)
        await asyncio.wait((all_ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        await asyncio.gather(ready, return_exceptions=True)
        if self._console is not None:
            await self._console.stop()
        if not all_ended.done():
            await self._stop_all()
        await all_ended
        stopping.cancel()
        return 1 if self._failed else 0

    def _on_signal(self, number: int) -> None:
        if self._stopping.is_set():
            for member in self._members:
                if member.process is not None and member.process.returncode is None:
                    member.process.kill()
            os._exit(128 + number)
        self._stopping.set()

    async def _write_ready_line(self) -> None:
        for member in self._members:
            await member.ready.wait()
        addresses = ",".join(member.bootstrap for member in self._members)
        try:
            os.write(1, f"{ReadyLine(addresses, os.getpid())}\n".encode())
        except OSError as error:
            _log.warning("standard output takes no ready line", error=error.strerror)
        if self._console is not None:
            await self._console.start(addresses)

    async def _run_member(self, member: _Member) -> None:
        """Run one broker's process, and start it again after it died (``--restart``)."""
        while not self._stopping.is_set():
            process = member.process = await asyncio.create_subprocess_exec(
                *member.command,
                stdout=PIPE,
                start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )
            assert process.stdout is not None
            line = (await process.stdout.readline()).decode()
            if line.startswith(PREFIX):
                member.bootstrap = ReadyLine.parse(line).bootstrap
                member.ready.set()
                _log.info("broker is ready", broker=member.node_id, bootstrap=member.bootstrap, pid=process.pid)
            status = await process.wait()
            if self._stopping.is_set():
                return
            _log.error("broker process ended", broker=member.node_id, pid=process.pid, status=status)
            if not self._restart or not member.ready.is_set():
                self._failed += 1
                if not member.ready.is_set():
                    self._stopping.set()  # it failed to start: stop the whole cluster
                return
            await asyncio.sleep(RESTART_S)

    async def _stop_all(self) -> None:
        """Stop one broker after the other, so that each can hand over its leaderships (controlled shutdown)."""
        for member in self._members:
            process = member.process
            if process is None or process.returncode is not None:
                continue
            if not await has_ended(process, STOP_S):
                _log.error("broker does not stop in time, killing it", broker=member.node_id, pid=process.pid)
                process.kill()

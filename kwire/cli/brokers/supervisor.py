"""``kwire start --brokers``: starts the processes of several brokers on this host, watches and stops them.

This process serves no clients. It writes one ready line with all addresses when all brokers are ready, stops them one
after the other on a signal (so that leadership moves), logs the death of a broker, and starts it again with
``--restart``, which ``--brokers auto`` implies. The brokers write their log lines to the same standard error, each with
the field ``broker``; lines without it are of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kwire.base.config.listeners import LOCAL_ONLY
from kwire.base.doors import Doors
from kwire.base.logging import BROKER_VARIABLE, get_logger
from kwire.cli.brokers.commands import commands
from kwire.cli.brokers.numbers import AUTO
from kwire.cli.brokers.preparation import prepare
from kwire.cli.running.children import beside, end_with_parent, has_ended
from kwire.log.common.log_dirs import LOCK_FILE
from kwire.server.directories.layout import broker_name
from kwire.server.ready_line import PREFIX, ReadyLine

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.server.metrics_endpoint.cluster import ClusterMetrics

STOP_S: Final = 30.0
RESTART_S: Final = 0.1
RESTART_MAX_S: Final = 10.0
"""How long a broker that has ended is away at first, and at most if it ends again and again."""

LASTING_S: Final = 60.0
"""A broker that has run for this long begins with `RESTART_S` again."""

LOCK_POLL_S: Final = 0.1

_log = get_logger("kwire.cluster")


@dataclass
class _Member:
    """One broker's process."""

    node_id: int
    command: list[str]
    process: Process | None = None
    bootstrap: str = ""
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> Process | None:
        """The process, if it has not ended."""
        return None if self.process is None or self.process.returncode is not None else self.process


class Brokers:
    """The processes of the brokers. `StartError` and `ConfigError` if they cannot be started."""

    def __init__(self, config: KafkaConfig, arguments: argparse.Namespace) -> None:
        self._doors = Doors()
        config.check_can_serve()
        ids = prepare(config, arguments.brokers, self._doors)
        self._directories = config.data_dirs
        self._metrics: ClusterMetrics | None = None
        if config.kwire_metrics_listen or config.kwire_metrics_otel_endpoint:
            from kwire.server.metrics_endpoint.cluster import ClusterMetrics

            self._metrics = ClusterMetrics(config, ids)
        lines = commands(config, arguments, ids, self._metrics)
        self._members = [_Member(node_id, command) for node_id, command in zip(ids, lines, strict=True)]
        self._announced: list[str] = arguments.announce
        self._beside = beside(arguments)
        self._is_local_only = config.is_local_only
        self._restart = arguments.restart or arguments.brokers == AUTO
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
        loop.add_signal_handler(signal.SIGUSR1, self._dump)
        if self._is_local_only:
            _log.info(LOCAL_ONLY)
        runs = [asyncio.ensure_future(self._run_member(member)) for member in self._members]
        ready = asyncio.ensure_future(self._write_ready_line())
        stopping = asyncio.ensure_future(self._stopping.wait())
        all_ended = asyncio.gather(*runs)
        await asyncio.wait((all_ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        await asyncio.gather(ready, return_exceptions=True)
        await asyncio.gather(*(each.stop() for each in self._beside))
        if not all_ended.done():
            await self._stop_all()
        await all_ended
        stopping.cancel()
        return 1 if self._failed else 0

    def _on_signal(self, number: int) -> None:
        if self._stopping.is_set():
            for process in self._running():
                process.kill()
            os._exit(128 + number)
        self._stopping.set()

    def _running(self) -> list[Process]:
        return [process for member in self._members if (process := member.running) is not None]

    def _dump(self) -> None:
        """SIGUSR1 is for the brokers: each logs its state."""
        for process in self._running():
            process.send_signal(signal.SIGUSR1)

    async def _write_ready_line(self) -> None:
        for member in self._members:
            await member.ready.wait()
        addresses = ",".join(member.bootstrap for member in self._members)
        lines = [str(ReadyLine(addresses, os.getpid())), *self._announcements()]
        try:
            os.write(1, "".join(f"{line}\n" for line in lines).encode())
        except OSError as error:
            _log.warning("standard output takes no ready line", error=error.strerror)
        for each in self._beside:
            await each.start(addresses)

    def _announcements(self) -> list[str]:
        """The lines of ``--announce``; one with ``{node.id}`` is written for each broker."""
        ids = [str(member.node_id) for member in self._members]
        lines = [line.replace("{node.id}", each) for line in self._announced for each in ids]
        return list(dict.fromkeys(lines))

    async def _run_member(self, member: _Member) -> None:
        """Run one broker's process, and start it again after it died (``--restart``)."""
        loop = asyncio.get_running_loop()
        await self._await_earlier(member)
        pause_s = RESTART_S
        while not self._stopping.is_set():
            begun_s = loop.time()
            status = await self._run_once(member)
            if self._stopping.is_set():
                return
            if not self._restart or not member.ready.is_set():
                self._failed += 1
                if not member.ready.is_set():
                    self._stopping.set()  # it failed to start: stop the whole cluster
                return
            if loop.time() - begun_s > LASTING_S:
                pause_s = RESTART_S
            _log.info("broker is started again", broker=member.node_id, ended_with=status, after_s=pause_s)
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, RESTART_MAX_S)

    async def _run_once(self, member: _Member) -> int:
        """Start a broker's process and wait until it ends; its status."""
        process = member.process = await asyncio.create_subprocess_exec(
            *member.command,
            stdout=PIPE,
            start_new_session=True,
            preexec_fn=end_with_parent if sys.platform == "linux" else None,
            env={**os.environ, BROKER_VARIABLE: str(member.node_id)},
        )
        if self._stopping.is_set():
            process.terminate()
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        if line.startswith(PREFIX):
            member.bootstrap = ReadyLine.parse(line).bootstrap
            member.ready.set()
            _log.info("broker is ready", broker=member.node_id, bootstrap=member.bootstrap, pid=process.pid)
        status = await process.wait()
        if not self._stopping.is_set():
            _log.error("broker process ended", broker=member.node_id, pid=process.pid, status=status)
        return status

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until a signal comes."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _await_earlier(self, member: _Member) -> None:
        """Wait until no process uses the broker's directories any more. If this command is killed, its brokers stop by
        themselves, which may take a moment; one that does not is reported by the broker that is started then."""
        paths = [f"{each}/{broker_name(member.node_id)}" for each in self._directories]
        deadline_s = asyncio.get_running_loop().time() + STOP_S
        waiting = False
        while any(self._is_locked(path) for path in paths) and asyncio.get_running_loop().time() < deadline_s:
            if not waiting:
                _log.info("waiting for the broker of an earlier start to end", broker=member.node_id)
            waiting = True
            await self._pause(LOCK_POLL_S)
            if self._stopping.is_set():
                return

    def _is_locked(self, directory: str) -> bool:
        files = self._doors.files
        if not files.is_dir(directory):
            return False
        try:
            lock = files.lock(f"{directory}/{LOCK_FILE}")
        except OSError:
            return False  # the broker reports what is wrong with its directory
        if lock is None:
            return True
        files.close(lock)
        return False

    async def _stop_all(self) -> None:
        """Stop one broker after the other, so that each can hand over its leaderships (controlled shutdown)."""
        for member in self._members:
            process = member.running
            if process is None:
                continue
            if not await has_ended(process, STOP_S):
                _log.error("broker does not stop in time, killing it", broker=member.node_id, pid=process.pid)
                process.kill()

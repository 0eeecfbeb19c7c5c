"""``kwire start --brokers N``: N ordinary brokers of one cluster on this host, and this process to look after them.

Each broker is a process of its own, with its own directory below ``--data-dir`` and the metadata store beside them;
ports are counted up from the first listener's. This process has no part in serving: it starts them, writes one ready
line with all their addresses when all are in, hands signals on (a cluster stops one broker after the other, so that
leaders move), reports a broker that dies and starts it again with ``--restart``.
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

from kwire.base.doors import Sockets
from kwire.base.logging import get_logger

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig

STOP_S: Final = 30.0
RESTART_S: Final = 1.0
INTERNAL_REPLICAS_MAX: Final = 3
_PR_SET_PDEATHSIG: Final = 1

_log = get_logger("kwire.cluster")


@dataclass
class _Member:
    """One broker's process."""

    node_id: int
    command: list[str]
    process: Process | None = None
    bootstrap: str = ""
    ready: asyncio.Event = field(default_factory=asyncio.Event)


def commands(config: KafkaConfig, arguments: argparse.Namespace) -> list[list[str]]:
    """How each broker is started: this one's own options, and what makes it one of several."""
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
    for number in range(count):
        node_id = config.node_id + number
        own = {name: value for name, value in shared.items() if name not in given}
        own["node.id"] = str(node_id)
        own["log.dirs"] = os.path.join(directory, f"broker-{node_id}")
        own["listeners"] = ",".join(_counted(text, number) for text in config.listeners)
        if config.static.get("advertised.listeners"):
            own["advertised.listeners"] = ",".join(
                _counted(text, number) for text in config.static["advertised.listeners"].split(",")
            )
        command = [sys.executable, "-m", "kwire", "start"]
        if arguments.file or arguments.config:
            command += ["--config", arguments.file or arguments.config]
        for name, value in {**dict(arguments.properties), **own}.items():
            command += ["--set", f"{name}={value}"]
        made.append(command)
    return made


def _counted(listener: str, number: int) -> str:
    """A listener with its port counted up. For port 0 a free one is picked here, so that a broker that is started again
    is where it was."""
    before, _, text = listener.strip().rpartition(":")
    port = int(text)
    return f"{before}:{port + number if port else _free_port()}"


def _free_port() -> int:
    sock = Sockets.socket()
    try:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
    finally:
        sock.close()


def _end_with_parent() -> None:
    """In the child, before it runs: a broker whose parent was killed stops in order."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Brokers:
    """The processes. ``restart``: start one that died again."""

    def __init__(self, config: KafkaConfig, arguments: argparse.Namespace) -> None:
        self._members = [
            _Member(config.node_id + number, command) for number, command in enumerate(commands(config, arguments))
        ]
        self._restart = arguments.restart
        self._stopping = asyncio.Event()
        self._failed = 0

    async def run(self) -> int:
        """Until a signal comes, or no broker is left; the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        lives = [asyncio.ensure_future(self._live(member)) for member in self._members]
        ready = asyncio.ensure_future(self._say_ready())
        stopping = asyncio.ensure_future(self._stopping.wait())
        everybody = asyncio.gather(*lives)
        await asyncio.wait((everybody, stopping), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not everybody.done():
            await self._stop_all()
        await everybody
        stopping.cancel()
        return 1 if self._failed else 0

    def _on_signal(self, number: int) -> None:
        if self._stopping.is_set():
            for member in self._members:
                if member.process is not None and member.process.returncode is None:
                    member.process.kill()
            os._exit(128 + number)
        self._stopping.set()

    async def _say_ready(self) -> None:
        for member in self._members:
            await member.ready.wait()
        addresses = ",".join(member.bootstrap for member in self._members)
        try:
            os.write(1, f"kwire ready bootstrap={addresses} pid={os.getpid()}\n".encode())
        except OSError as error:
            _log.warning("standard output takes no ready line", error=error.strerror)

    async def _live(self, member: _Member) -> None:
        """One broker's lives."""
        while not self._stopping.is_set():
            process = member.process = await asyncio.create_subprocess_exec(
                *member.command,
                stdout=PIPE,
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )
            assert process.stdout is not None
            line = (await process.stdout.readline()).decode()
            if line.startswith("kwire ready "):
                member.bootstrap = dict(word.split("=", 1) for word in line.split()[2:])["bootstrap"]
                member.ready.set()
                _log.info("broker is in", broker=member.node_id, bootstrap=member.bootstrap, pid=process.pid)
            status = await process.wait()
            if self._stopping.is_set():
                return
            _log.error("broker has ended", broker=member.node_id, pid=process.pid, status=status)
            if not self._restart or not member.ready.is_set():
                self._failed += 1
                if not member.ready.is_set():
                    self._stopping.set()  # it never came: a cluster that is not whole from the start is not started
                return
            await asyncio.sleep(RESTART_S)

    async def _stop_all(self) -> None:
        """One after the other, so that each can hand over what it leads."""
        for member in self._members:
            process = member.process
            if process is None or process.returncode is not None:
                continue
            process.terminate()
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                _log.error("broker does not stop, it is ended", broker=member.node_id, pid=process.pid)
                process.kill()

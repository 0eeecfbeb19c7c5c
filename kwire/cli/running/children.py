"""Processes that a command starts beside its own work, and that end with it."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from typing import Final

from kwire.base.addresses import parse_address

CONSOLE_LISTEN: Final = "127.0.0.1:9021"
REGISTRY_LISTEN: Final = "127.0.0.1:8081"
_PR_SET_PDEATHSIG: Final = 1
_STOP_S: Final = 5.0


def end_with_parent() -> None:
    """In a child, before it runs: if the parent is killed, the kernel sends the child SIGTERM (Linux)."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


async def has_ended(process: Process, seconds: float) -> bool:
    """Ask a process to end, and wait; whether it has within this time."""
    process.terminate()
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        return False
    return True


def listen_address(text: str) -> str:
    """HOST:PORT of a command line."""
    try:
        parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


class Beside:
    """``kwire console`` or ``kwire registry`` for the cluster of the brokers that this process runs. It writes its own
    ready line to the same standard output; if it ends, the brokers do not."""

    def __init__(self, command: str, listen: str) -> None:
        self._command = command
        self._listen = listen
        self._process: Process | None = None

    async def start(self, bootstrap: str) -> None:
        """Start it for a cluster that serves clients."""
        command = [sys.executable, "-m", "kwire", self._command, "--listen", self._listen]
        command += ["--bootstrap-server", bootstrap]
        preexec = end_with_parent if sys.platform == "linux" else None
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, start_new_session=True, preexec_fn=preexec
        )

    async def stop(self) -> None:
        """End it, at the latest after `_STOP_S`."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        if not await has_ended(process, _STOP_S):
            process.kill()
            await process.wait()


def beside(arguments: argparse.Namespace) -> list[Beside]:
    """The processes that the options of ``kwire start`` want beside the brokers."""
    wanted = (("registry", arguments.registry), ("console", arguments.console))
    return [Beside(command, listen) for command, listen in wanted if listen]

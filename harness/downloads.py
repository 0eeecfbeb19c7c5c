"""Downloads that are attempted again: registries sometimes answer with an error of theirs, or cut a connection.

What lives elsewhere: the lock that keeps processes from downloading the same at once, and where it is kept
(`harness.kafka_jars`).
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

COMMAND_S: Final = 900.0
PAUSES_S: Final = (3.0, 15.0, 45.0)
"""Before the second, the third and the last attempt."""


def attempted(
    what: str, attempt: Callable[[], T], *failures: type[Exception], pauses_s: Iterable[float] = PAUSES_S
) -> T:
    """The result of ``attempt``, which is called again after each of ``failures``; the last one is raised.

    Every other failure is a line on standard error.
    """
    for number, pause_s in enumerate(pauses_s, 1):
        try:
            return attempt()
        except failures as error:
            why = " ".join(str(error).split())[:500]
            line = f"{what}: attempt {number} failed, the next one is in {pause_s:g} s: {why}"
            print(line, file=sys.__stderr__, flush=True)
            time.sleep(pause_s)
    return attempt()


APT_OPTIONS: Final = ("-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300")
"""apt-get attempts downloads again, and waits while another process installs something."""


class CommandFailed(Exception):
    """A command that downloads something ended with an error; the message has the end of its output."""


def downloaded(
    what: str,
    command: list[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = COMMAND_S,
) -> str:
    """Run a command that downloads, until it succeeds; its standard output. Raises `CommandFailed`."""

    def attempt() -> str:
        try:
            done = subprocess.run(
                command, cwd=cwd, env=env, timeout=timeout_s, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(str(error)) from None
        if done.returncode != 0:
            raise CommandFailed(f"{' '.join(command)}: {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-3000:]}")
        return done.stdout

    return attempted(what, attempt, CommandFailed)

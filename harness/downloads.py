"""Downloads that are attempted again: registries sometimes answer with an error of theirs, or cut a connection.

Debian's packages are unpacked into the cache, not installed, so that no service starts.

What lives elsewhere: the lock that keeps processes from downloading the same at once, and where it is kept
(`harness.kafka_jars`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def untar(archive: Path, folder: Path) -> None:
    """Extract an archive of tar; nothing is written outside the folder (by Pythons from 3.11.4 on)."""
    with tarfile.open(archive) as content:
        if hasattr(tarfile, "data_filter"):
            content.extractall(folder, filter="data")
        else:
            content.extractall(folder)


def why_not_unpacked(folder: Path, package: str, names: Callable[[], Sequence[str]]) -> str | None:
    """Unpack packages into a folder of the cache, unless that was done before. Why it could not be done; None if it is
    there. ``package``: what the reason names; ``names``: those to download."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return f"needs Debian's package {package}"
    try:
        _unpack(folder, package, names)
    except (CommandFailed, OSError, subprocess.CalledProcessError) as error:
        return f"needs Debian's package {package}: {' '.join(str(error).split())[:300]}"
    return None


def _unpack(folder: Path, package: str, names: Callable[[], Sequence[str]]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            scratch = Path(name)
            if os.geteuid() == 0:
                downloaded("apt-get update", ["apt-get", "-qq", *APT_OPTIONS, "update"])
            downloaded(package, ["apt-get", "-qq", *APT_OPTIONS, "download", *names()], cwd=scratch)
            for each in sorted(scratch.glob("*.deb")):
                subprocess.run(["dpkg", "-x", str(each), str(scratch / "content")], check=True)
            (scratch / "content").rename(folder)

"""Commands of kwire as processes: what programs about the console start."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

KWIRE: Final = (sys.executable, "-m", "kwire")


class Started(NamedTuple):
    """A running command. ``found``: what was wanted of its first line."""

    found: str
    pid: int


@contextmanager
def running(words: Sequence[str], pattern: str) -> Iterator[Started]:
    """A command of kwire that runs, and what the pattern finds in its first line."""
    with subprocess.Popen([*KWIRE, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.search(pattern, line)
        assert match is not None, line
        try:
            yield Started(match[1], process.pid)
        finally:
            process.terminate()


@contextmanager
def started(words: Sequence[str], pattern: str) -> Iterator[str]:
    """The same, without the pid."""
    with running(words, pattern) as process:
        yield process.found


@contextmanager
def console_of(bootstrap: str) -> Iterator[Started]:
    """A console of a cluster, which is called ``test``; ``found`` is its URL with the token."""
    words = ["console", "--listen", "127.0.0.1:0", "--timeout", "60", "--bootstrap-server", f"test={bootstrap}"]
    with running(words, r"url=(\S+)") as process:
        yield process


def run(bootstrap: str, *words: str) -> str:
    """What a command of kwire for a cluster prints."""
    command = [*KWIRE, *words, "-b", bootstrap]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout

"""Guides whose commands run in a test, in their order, and print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.kafka_jars import kafka_classpath
from harness.paths import ROOT
from harness.waiting import PATIENCE_S

_BLOCK = re.compile(r"```sh\n(.*?)```((?:\n\n```text\n.*?```)*)", re.S)
_SHOWN = re.compile(r"```text\n(.*?)```", re.S)


def blocks(page: str) -> list[tuple[str, list[str]]]:
    """The commands of a page of docs/, and what they print: on standard output, and on standard error."""
    found = _BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    return [(commands, _SHOWN.findall(shown)) for commands, shown in found]


def programs(folder: Path, tools: Mapping[str, str] | None = None) -> None:
    """``kwire`` and ``python`` of this environment in a folder, which is put on the path; and ``tools`` of Kafka, the
    main class by the script's name."""
    commands = {"kwire": f'"{sys.executable}" -m kwire', "python": f'"{sys.executable}"'}
    for name, main in (tools or {}).items():
        commands[name] = f'java -Xmx256m -cp "{kafka_classpath()}" {main}'
    for name, command in commands.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / name).chmod(0o755)


class Brokers:
    """Brokers that a page starts. ``log``: the file with what they have written to standard error."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, words: Sequence[str], folder: Path, own: Mapping[str, str]) -> str:
        """Start what serves brokers, in a folder and with these variables, and return its ready line."""
        with open(self.log, "ab") as log:
            process = subprocess.Popen(words, cwd=folder, env=own, stdout=subprocess.PIPE, stderr=log, text=True)
        self._processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("kwire ready"), (words, self.log.read_text())
        return line

    def stop(self) -> None:
        """Stop those that run."""
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            process.communicate(timeout=PATIENCE_S)


def environment(folder: Path) -> dict[str, str]:
    """The variables of commands that find the programs of a folder."""
    path, modules = f"{folder}:{os.environ['PATH']}", os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PATH": path, "PYTHONPATH": modules}


def put_in(text: str, replaced: Mapping[str, str]) -> str:
    """A text of the page with what it is here."""
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def check(
    commands: str,
    shown: list[str],
    folder: Path,
    bootstrap: str,
    replaced: Mapping[str, str],
    plain: Callable[[str], str] = str,
) -> None:
    """Run a block of commands in a folder. ``replaced``: what the page says, and what it is here. ``plain``: what is
    left of an output to compare. On the page ``...`` stands for anything within a line."""
    own = {**environment(folder), "KWIRE_BOOTSTRAP_SERVERS": bootstrap}
    command = ["sh", "-ec", put_in(commands, replaced)]
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{commands}\n{done.stderr}"
    if shown:
        printed, wanted = plain(done.stdout), plain(shown[0])
        if not pattern(wanted).fullmatch(printed):
            assert printed == wanted, f"{commands}\n{printed}\n{done.stderr}"
    assert done.stderr == (shown[1] if len(shown) > 1 else ""), commands


def pattern(shown: str) -> re.Pattern[str]:
    """What a page shows, with ``...`` for anything within a line."""
    return re.compile("[^\n]*".join(map(re.escape, shown.split("..."))))

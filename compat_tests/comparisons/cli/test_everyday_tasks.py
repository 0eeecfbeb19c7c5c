"""The commands of docs/EVERYDAY_TASKS.md, in a shell as a user types them, on both brokers: all print what is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from harness.paths import ROOT
from harness.processes.brokers import Broker
from harness.waiting import PATIENCE_S

GUIDE = ROOT / "docs" / "EVERYDAY_TASKS.md"
TASKS = 33


class Command(NamedTuple):
    """A command of the guide and the lines that it prints."""

    text: str
    lines: list[str]


def commands() -> list[Command]:
    found: list[Command] = []
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        if line.startswith("        $ "):
            found.append(Command(line.removeprefix("        $ "), []))
        elif line.startswith("        ") and found:
            found[-1].lines.append(line[8:])
    return found


def pattern(lines: list[str]) -> str:
    """The lines as a regular expression; ``...`` is anything within a line."""
    return "".join("[^\n]*".join(map(re.escape, line.split("..."))) + "\n" for line in lines)


def test_every_command_of_the_guide_prints_what_is_shown(own_broker: Broker, tmp_path: Path) -> None:
    tried = commands()
    assert len(re.findall(r"(?m)^\d+\. ", GUIDE.read_text(encoding="utf-8"))) == TASKS <= len(tried)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KWIRE_")}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    environment = {**kept, "KWIRE_BOOTSTRAP_SERVER": own_broker.bootstrap, "HOME": str(tmp_path), "PATH": path}
    differences = []
    for command in tried:
        done = subprocess.run(
            ["bash", "-c", f"{command.text}"],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if not re.fullmatch(pattern(command.lines), done.stdout + done.stderr):
            differences.append(f"$ {command.text}\n{done.stdout}{done.stderr}")
    assert not differences, "\n".join(differences)

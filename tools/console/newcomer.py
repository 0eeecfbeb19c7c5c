"""Do what a newcomer does, with README.md only: from nothing to a topic with messages, in the terminal and the browser.

    .venv/bin/python -m tools.console.newcomer
    .venv/bin/python -m tools.console.newcomer --repository https://… --picture newcomer.png

The repository is cloned into an empty directory, with an empty home and without pip's cache. Then its README is
followed: the command that starts a broker, the first commands, whose output is compared with what is shown, the first
client, and the console, whose page is opened in Chromium. Port 9092 must be free, because the README uses it. It prints
the seconds since the beginning at which each step was done, as JSON; the last one is the time of a newcomer who reads
in no time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.console.browser import browser, why_no_chromium
from harness.paths import ROOT

BROKER: Final = ("localhost", 9092)
LIMIT_S: Final = 180
STEP_S: Final = 600
_COMMAND: Final = re.compile(r"^    (\S+(?: \S+)*?)(?: {2,}#.*)?$", re.M)
_SHELL: Final = re.compile(r"```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.S)


class Confused(Exception):
    """A step does not do what README.md says."""


def commands(readme: str) -> dict[str, str]:
    """The commands that run on: those of the broker and of the console."""
    found = [each for each in _COMMAND.findall(readme) if each.startswith(("scripts/start", ".venv/bin/kwire console"))]
    if len(found) != 2:
        raise Confused(f"README.md has no command for a broker and one for the console, but {found}")
    return dict(zip(("broker", "console"), found, strict=True))


@contextmanager
def running(command: str, folder: Path, environment: dict[str, str], ready: str) -> Iterator[str]:
    """A command that runs on; what follows ``ready`` on its first line."""
    with subprocess.Popen(
        command.split(), cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(ready):
                raise Confused(f"{command} writes {line!r}, not {ready}…")
            yield line.removeprefix(ready).split()[0]
        finally:
            process.terminate()


def typed(commands: str, folder: Path, environment: dict[str, str]) -> str:
    """What commands print that are pasted into a shell."""
    done = subprocess.run(
        ["sh", "-ec", commands],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=STEP_S,
        check=False,
    )
    if done.returncode != 0:
        raise Confused(f"{commands}\n{done.stdout}{done.stderr}")
    return done.stdout


def follow(repository: str, home: Path, picture: Path) -> dict[str, float]:
    """Do it all; the seconds until each step was done. `Confused`."""
    kept = ("PATH", "LANG", "PIP_INDEX_URL", "PIP_CERT", "PIP_DEFAULT_TIMEOUT", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
    environment = {name: value for name, value in os.environ.items() if name in kept}
    environment |= {"HOME": str(home), "PIP_NO_CACHE_DIR": "1"}
    began_s, done_s = time.monotonic(), {}

    def done(step: str) -> None:
        done_s[step] = round(time.monotonic() - began_s, 1)

    folder = home / "kwire"
    subprocess.run(["git", "clone", "--quiet", repository, str(folder)], check=True)
    done("cloned")
    readme = (folder / "README.md").read_text(encoding="utf-8")
    (first, shown), (client, _), *_ = _SHELL.findall(readme)
    running_on = commands(readme)
    with running(running_on["broker"], folder, environment, "kwire ready bootstrap="):
        done("broker ready")
        if sorted(typed(first, folder, environment).splitlines()) != sorted(shown.splitlines()):
            raise Confused(f"{first}\ndoes not print\n{shown}")
        done("messages in the terminal")
        if typed(client, folder, environment) != "b'hello'\n":
            raise Confused(f"{client}\ndoes not print b'hello'")
        done("first client")
        with (
            running(running_on["console"], folder, environment, "kwire console ready url=") as url,
            browser() as opened,
        ):
            page = opened.new_page(viewport={"width": 1200, "height": 700})
            page.goto(url)
            page.get_by_role("link", name="orders", exact=True).click()
            page.get_by_role("cell", name="alice", exact=True).wait_for()
            done("messages in the browser")
            page.screenshot(path=picture)
    return done_s


def main(arguments: Sequence[str] | None = None) -> int:
    """Do it, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", default=str(ROOT), help="default: this one, as it is committed")
    parser.add_argument("--picture", type=Path, default=Path("newcomer.png"), help="of the page at the end")
    options = parser.parse_args(arguments)
    if (reason := why_no_chromium()) is not None:
        print(reason)
        return 1
    with socket.socket() as probe:
        if probe.connect_ex(BROKER) == 0:
            print("something listens at {}:{} already".format(*BROKER))
            return 1
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        try:
            found = follow(options.repository, Path(folder), options.picture)
        except Confused as error:
            print(error)
            return 1
    print(json.dumps(found))
    return int(max(found.values()) > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())

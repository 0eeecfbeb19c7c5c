"""Client programs in other languages: their tools, their builds, and running them.

A program takes the broker's address and a prefix for its names. It prints ``ok SCENARIO`` for each scenario that
succeeds and ends with status 1 at the first one that fails. Builds lie outside the source tree, cached by the content
of the sources. The tests of a language whose tools are missing are skipped by name.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.downloads import CommandFailed, downloaded
from harness.kafka_jars import cache_root, locked

FOLDER = Path(__file__).parent
RUN_TIMEOUT_S = 300


def need_tool(*tools: str) -> None:
    """Skip the test if a tool is not on PATH."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} on PATH, not found")


def built(language: str, build: Callable[[Path, Path], None]) -> Path:
    """The cached folder with the result of ``build(sources, folder)``, which runs if the sources have changed."""
    sources = FOLDER / language
    digest = hashlib.sha256()
    for path in sorted(sources.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(sources)).encode() + b"\0" + path.read_bytes() + b"\0")
    folder = cache_root() / "languages" / f"{language}-{digest.hexdigest()[:16]}"
    with locked(f"languages-{language}"):
        if not (folder / ".complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            build(sources, folder)
            (folder / ".complete").write_text("")
    return folder


def step(*command: str, cwd: Path, **variables: str) -> None:
    """Run one command of a build, which may download; fails the test with its output."""
    try:
        downloaded(" ".join(command[:2]), list(command), cwd=cwd, env={**os.environ, **variables})
    except CommandFailed as error:
        pytest.fail(str(error), pytrace=False)


def scenarios(*command: str, cwd: Path | None = None, variables: Mapping[str, str] | None = None) -> list[str]:
    """Run a client program; returns the scenarios that succeeded."""
    environment = {**os.environ, **(variables or {})}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr[-3000:]}"
    return re.findall(r"^ok (.+)$", done.stdout, re.M)

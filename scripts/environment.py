"""The development environment: `.venv` beside the sources, made once, brought up to date when pyproject.toml changes.

Standard library only and any Python 3.11 to 3.13, because this runs before anything is installed. Its Python is the
fastest build of the version that runs this, or the one that the variable KWIRE_PYTHON names.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements-dev.lock"
_STAMP = VENV / "kwire-environment.json"
# What a level installs. Each holds everything of those before it.
_LEVELS = {
    "start": ["-e", ".[console]", "kafka-python>=3.0"],
    "spark": ["-e", ".[audit,console,spark]", "kafka-python>=3.0", "confluent-kafka>=2.11"],
    "test": ["-e", ".[spark,test]"],
}

PLACES = ("/usr/local/bin", "/usr/bin")
"""Where interpreters are, beside the PATH."""
_MARKEDLY = 0.85
_PAIRS = 11
_WORK = """
import ensurepip, struct, time, venv
class Request:
    def __init__(self, size): self.size = size
    def end(self, at): return at + self.size
def work():
    layout, buffer, kept = struct.Struct(">iqh"), bytearray(14), {}
    for number in range(10000):
        layout.pack_into(buffer, 0, number, number, 1)
        kept[number & 255] = Request(14).end(layout.unpack_from(buffer)[0])
def seconds():
    start = time.process_time()
    work()
    return time.process_time() - start
print(min(seconds() for _ in range(5)))
"""


def say(line: str) -> None:
    """One progress line; at once, and never on standard output, which belongs to the command that was asked for."""
    print(line, file=sys.stderr, flush=True)


def ensure(level: str) -> Path:
    """Make or update the environment for "start", "spark" or "test"; return its Python. Ends the program on failure."""
    if not PYTHON.exists():
        base = _find_python()
        say(f"environment: creating .venv with {base}")
        _run([base, "-m", "venv", str(VENV)], "python3 -m venv failed (on Debian: apt-get install python3-venv)")
    wanted = _wanted(level)
    if _installed() in [_wanted(each) for each in list(_LEVELS)[list(_LEVELS).index(level) :]]:
        return PYTHON
    say(f"environment: installing kwire and what `{level}` needs into .venv (once; a minute or two)")
    started = time.monotonic()
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", str(LOCK)]
    pip += ["--retries", "8", "--timeout", "60"]  # also of an index that answers with errors of its own
    command = [*pip, *_LEVELS[level]]
    _run(command, "pip install failed; its output is above")
    _STAMP.write_text(json.dumps(wanted))
    say(f"environment: ready in {time.monotonic() - started:.0f} s")
    return PYTHON


def _wanted(level: str) -> dict[str, str]:
    """The stamp of an up-to-date environment: level, digest of pyproject.toml and the lock, path of the sources."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + LOCK.read_bytes()).hexdigest()
    return {"level": level, "pyproject": digest, "root": str(ROOT)}


def _installed() -> dict[str, str] | None:
    try:
        stamp: dict[str, str] = json.loads(_STAMP.read_text())
    except (OSError, ValueError):
        return None
    return stamp


def _find_python() -> str:
    """The Python that KWIRE_PYTHON names; else this one when it is 3.11 or newer, or a newer one on PATH, and of that
    version the fastest build on the machine: some builds of an interpreter take half as long again as others."""
    named = os.environ.get("KWIRE_PYTHON")
    if named:
        return named
    if sys.version_info >= (3, 11):  # noqa: UP036 - this may run with an older Python
        return _fastest(sys.executable, f"python3.{sys.version_info.minor}")
    for name in ("python3.13", "python3.12", "python3.11"):
        found = shutil.which(name)
        if found:
            return _fastest(found, name)
    sys.exit(f"kwire needs Python 3.11 or newer; this is {sys.version.split()[0]} and no newer one is on PATH")


def _fastest(python: str, name: str) -> str:
    """``python``, unless another interpreter called ``name`` takes less than `_MARKEDLY` of its time."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *PLACES]
    paths = dict.fromkeys(os.path.realpath(os.path.join(each, name)) for each in folders)
    others = [each for each in paths if each != os.path.realpath(python) and os.access(each, os.X_OK)]
    ratios = {each: _ratio(each, python) for each in others}
    best = min(ratios, key=ratios.__getitem__, default=python)
    if ratios.get(best, 1.0) < _MARKEDLY:
        say(f"environment: {best} takes {ratios[best]:.2f} of the time of {python} for the same work")
        return best
    return python


def _ratio(one: str, other: str) -> float:
    """The time that one interpreter takes for `_WORK` by that of another: the median of pairs of short runs, since the
    speed of a shared machine changes from second to second."""
    return statistics.median(_seconds(one) / _seconds(other) for _ in range(_PAIRS))


def _seconds(python: str) -> float:
    """How long an interpreter takes for `_WORK`, the least of five times; infinity if it cannot make an environment."""
    try:
        done = subprocess.run([python, "-c", _WORK], capture_output=True, text=True, check=True, timeout=60)
        return float(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return float("inf")


def _run(command: list[str], failure: str) -> None:
    if subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False).returncode != 0:
        sys.exit(failure)

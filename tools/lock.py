"""Write requirements-dev.lock: every package of the development environment, with its version.

    .venv/bin/python -m tools.lock            the newest versions that pyproject.toml allows, but for `HELD`
    .venv/bin/python -m tools.lock --check    change nothing; fail if the locked versions cannot be installed

Both install into a temporary environment. `--python` (repeatable) names other interpreters for which the locked
versions must resolve as well; CI tests Python 3.11, 3.12 and 3.13.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.paths import ROOT

LOCK = ROOT / "requirements-dev.lock"
EXTRAS = f"{ROOT}[spark,test]"
HELD = ("pyspark==4.0.0", "pymdown-extensions<13")
"""Not the newest: the tests run with the oldest PySpark that kwire.spark takes; `tools.spark_releases` tries all.
pymdown-extensions 13 needs Python 3.11.5, and Debian 12 has 3.11.2."""
HEADER = """\
# Every package of kwire's development environment, with its version: pip constraints, used by scripts/environment.py,
# so that everybody tests with the same versions. The file serves Python 3.11, 3.12 and 3.13.
# Written by `python -m tools.lock` (CONTRIBUTING.md, "Dependencies").
"""


def environment(folder: Path, python: str) -> Path:
    """A fresh virtual environment; return its Python."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    return folder / "bin" / "python"


def newest(folder: Path) -> str:
    """Install what pyproject.toml asks for, without constraints, and return the text of a lock file."""
    python = environment(folder, sys.executable)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", EXTRAS, *HELD], check=True)
    frozen = subprocess.run(
        [str(python), "-m", "pip", "freeze", "--exclude", "kwire"], check=True, capture_output=True, text=True
    )
    return HEADER + frozen.stdout


def resolves(folder: Path, python: str) -> bool:
    """Whether pip finds all the locked versions for this interpreter. Nothing is installed."""
    command = [str(environment(folder, python)), "-m", "pip", "install", "--quiet", "--dry-run"]
    return subprocess.run([*command, "-c", str(LOCK), EXTRAS], check=False).returncode == 0


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--python", action="append", default=[], help="another interpreter to check, e.g. python3.13")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kwire-lock-") as name:
        if not options.check:
            LOCK.write_text(newest(Path(name) / "newest"))
        for number, python in enumerate([sys.executable, *options.python]):
            if not resolves(Path(name) / str(number), python):
                print(f"{LOCK.name}: cannot be installed with {python}")
                return 1
    print(f"{LOCK.name}: {sum('==' in line for line in LOCK.read_text().splitlines())} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())

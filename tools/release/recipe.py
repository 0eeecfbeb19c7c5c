"""The steps of a release: build, check the archives, install the wheel outside the tree, use its public names.

The wheel is built from the sdist, so that the sdist is known to be complete. A public name that was recorded in
`public_names.json` and is missing is an error. Not here: the command (`__main__`), the program that runs in the fresh
environment (`public_names`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import kwire
from harness.paths import ROOT

HERE = Path(__file__).parent
RECORDED = HERE / "public_names.json"
SCRIPTS = ("bench", "orders", "setup", "start", "test")
WANTED_IN_SDIST = {"CHANGELOG.md", "COMPAT.md", "LICENSE", "PKG-INFO", "README.md", "docs", "kwire", "pyproject.toml"}


class ReleaseError(Exception):
    """Something is wrong with what would be published; the text says what."""


def build(output: Path) -> tuple[Path, Path]:
    """The sdist and, from it, the wheel. `hatchling` comes from this environment: nothing is downloaded."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"build failed\n{done.stdout}{done.stderr}")
    version = kwire.__version__
    return output / f"kwire-{version}.tar.gz", output / f"kwire-{version}-py3-none-any.whl"


def check_sdist(sdist: Path) -> None:
    """The sdist has the package and its documents, and nothing that git does not know."""
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    missing = WANTED_IN_SDIST - {name.partition("/")[0] for name in names}
    if missing:
        raise ReleaseError(f"{sdist.name}: {', '.join(sorted(missing))} missing")
    _refuse_leftovers(sdist, names)


def check_wheel(wheel: Path) -> None:
    """The wheel has every module of the package, its marker for type checkers, and nothing beside it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    information = f"kwire-{kwire.__version__}.dist-info"
    strange = {name for name in names if name.partition("/")[0] not in ("kwire", information)}
    if strange:
        raise ReleaseError(f"{wheel.name}: does not belong into it: {', '.join(sorted(strange))}")
    wanted = {str(path.relative_to(ROOT)) for path in (ROOT / "kwire").rglob("*.py")} | {"kwire/py.typed"}
    missing = wanted - set(names)
    if missing:
        raise ReleaseError(f"{wheel.name}: {', '.join(sorted(missing))} missing")
    _refuse_leftovers(wheel, names)


def _refuse_leftovers(archive: Path, names: list[str]) -> None:
    leftovers = [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".so", "~"))]
    if leftovers:
        raise ReleaseError(f"{archive.name}: left over from something else: {', '.join(leftovers)}")


def install(wheel: Path, folder: Path) -> Path:
    """A fresh environment with the wheel, its extra for containers, and what users test with; its Python."""
    python = folder / "bin" / "python"
    _succeed([sys.executable, "-m", "venv", str(folder)])
    lock = ["--constraint", str(ROOT / "requirements-dev.lock")]
    wanted = [f"kwire[testcontainers] @ {wheel.as_uri()}", "kafka-python", "pytest"]
    _succeed([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *lock, *wanted])
    return python


def public_names(python: Path, home: Path) -> dict[str, Any]:
    """What `public_names` finds with this Python, run outside the source tree."""
    program = home / "public_names.py"
    shutil.copy(HERE / "public_names.py", program)
    names: dict[str, Any] = json.loads(_succeed([str(python), "-I", str(program)], home))
    names["scripts"] = [name for name in SCRIPTS if os.access(ROOT / "scripts" / name, os.X_OK)]
    return names


def _succeed(command: list[str], folder: Path | None = None) -> str:
    left_out = ("PYTEST_", "PYTHON", "VIRTUAL_ENV", "KAFKA_")  # what would bring the source tree, or settings, back in
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def gone(recorded: Any, found: Any, path: str = "") -> list[str]:
    """The recorded names that were not found, each with its place."""
    if isinstance(recorded, dict):
        return [line for key, value in recorded.items() for line in gone(value, found.get(key, {}), f"{path}{key}: ")]
    return [f"{path}{name}" for name in recorded if name not in found]


def check_names(found: dict[str, Any]) -> None:
    """Every name that was recorded is still there."""
    missing = gone(json.loads(RECORDED.read_text()), found)
    if missing:
        raise ReleaseError("public names that are gone:\n  " + "\n  ".join(missing))


def check_tag(tag: str) -> None:
    """The tag is the version's, and the changelog has a dated section for it."""
    version = kwire.__version__
    if tag != f"v{version}":
        raise ReleaseError(f"the tag is {tag}, kwire.__version__ is {version}")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M):
        raise ReleaseError(f"CHANGELOG.md has no section for {version}")


def release(output: Path, tag: str | None, record: bool) -> None:
    """The whole recipe; raises `ReleaseError` at the first thing that is wrong."""
    if tag is not None:
        check_tag(tag)
    output.mkdir(parents=True, exist_ok=True)
    sdist, wheel = build(output)
    check_sdist(sdist)
    check_wheel(wheel)
    with tempfile.TemporaryDirectory(prefix="kwire-release-") as name:
        names = public_names(install(wheel, Path(name) / "venv"), Path(name))
    if record:
        RECORDED.write_text(json.dumps(names, indent=1) + "\n")
    check_names(names)
    print(f"{sdist}\n{wheel}")

"""Which Python `scripts/environment.py` makes the development environment with."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from harness.paths import ROOT

NAME = f"python3.{sys.version_info.minor}"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module; none of this machine's other interpreters is on the PATH."""
    spec = importlib.util.spec_from_file_location("environment", ROOT / "scripts" / "environment.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PLACES", ())
    monkeypatch.delenv("KWIRE_PYTHON", raising=False)
    monkeypatch.setenv("PATH", "")
    return module


def interpreter(folder: Path, seconds: str) -> str:
    """A program that says that it takes so long, whatever it is asked to run."""
    folder.mkdir()
    path = folder / NAME
    path.write_text(f"#!/bin/sh\n{seconds}\n")
    path.chmod(0o755)
    return str(path)


def test_the_fastest_build_of_the_same_version_is_taken(
    environment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = interpreter(tmp_path / "own", "echo 1.0")
    others = [interpreter(tmp_path / words, f"echo {words}") for words in ("0.7", "0.5", "0.6")]
    monkeypatch.setenv("PATH", os.pathsep.join(str(Path(each).parent) for each in [own, *others]))
    monkeypatch.setattr(sys, "executable", own)
    assert environment._find_python() == others[1]
    assert capsys.readouterr().err == f"environment: {others[1]} takes 0.50 of the time of {own} for the same work\n"


@pytest.mark.parametrize(
    "other", ["echo 0.9", "exit 1", "echo 3.11.7"], ids=["hardly faster", "cannot make an environment", "no Python"]
)
def test_otherwise_it_is_the_python_that_asks(
    environment: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    own = interpreter(tmp_path / "own", "echo 1.0")
    monkeypatch.setenv("PATH", str(Path(interpreter(tmp_path / "other", other)).parent))
    monkeypatch.setattr(sys, "executable", own)
    assert environment._find_python() == own


def test_a_variable_names_the_python(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KWIRE_PYTHON", "/opt/python")
    assert environment._find_python() == "/opt/python"


def test_the_work_can_be_timed(environment: ModuleType) -> None:
    assert 0 < environment._seconds(sys.executable) < float("inf")

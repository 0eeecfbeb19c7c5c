"""Downloads are attempted again, and say why."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

from harness.downloads import PAUSES_S, CommandFailed, attempted, downloaded, untar
from harness.kafka_jars import JarsUnavailable, maven_jars

NO_PAUSES = (0.0, 0.0)


class Registry:
    """Fails so many times, and answers then."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked = 0

    def __call__(self) -> str:
        self.asked += 1
        if self.asked <= self.failures:
            raise ConnectionError("502 Bad Gateway")
        return "a jar"


def test_a_registry_that_fails_twice_is_asked_a_third_time(capfd: pytest.CaptureFixture[str]) -> None:
    registry = Registry(failures=2)
    assert attempted("the jars", registry, OSError, pauses_s=NO_PAUSES) == "a jar"
    assert registry.asked == 3


def test_the_last_failure_is_raised() -> None:
    registry = Registry(failures=5)
    with pytest.raises(ConnectionError, match="502"):
        attempted("the jars", registry, OSError, pauses_s=NO_PAUSES)
    assert registry.asked == 3


def test_what_is_no_failure_of_a_download_is_raised_at_once() -> None:
    registry = Registry(failures=1)
    with pytest.raises(ConnectionError):
        attempted("the jars", registry, ValueError, pauses_s=NO_PAUSES)
    assert registry.asked == 1


def test_a_command_that_fails_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.downloads.time.sleep", lambda pause_s: None)
    mark = tmp_path / "mark"
    program = f"""
from pathlib import Path
known = Path({str(mark)!r}).exists()
Path({str(mark)!r}).touch()
print("hello")
raise SystemExit(not known)
"""
    assert downloaded("it", [sys.executable, "-c", program]) == "hello\n"
    with pytest.raises(CommandFailed, match="exit\\(3\\): 3"):
        downloaded("it", [sys.executable, "-c", "exit(3)"])


def test_maven_is_run_again_and_its_last_error_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Maven that fails every time but notes that it was run."""
    monkeypatch.setattr("harness.downloads.time.sleep", lambda pause_s: None)
    monkeypatch.setenv("KWIRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    maven = tmp_path / "mvn"
    maven.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\necho '[ERROR] 503 Service Unavailable'\nexit 1\n")
    maven.chmod(0o755)
    with pytest.raises(JarsUnavailable, match=r"could not fetch the jars: .*503"):
        maven_jars("jars", "the jars", [("group", "artifact", "1")])
    assert (tmp_path / "runs").read_text().count("run") == 1 + len(PAUSES_S)


@pytest.mark.filterwarnings("ignore:Python 3.14 will, by default, filter:DeprecationWarning")
@pytest.mark.parametrize("has_filters", [True, False], ids=["with filters", "before 3.11.4"])
def test_an_archive_of_tar_is_extracted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_filters: bool) -> None:
    if not has_filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (tmp_path / "content").write_text("content")
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "content", "folder/content")
    untar(tmp_path / "archive.tar.gz", tmp_path / "place")
    assert (tmp_path / "place/folder/content").read_text() == "content"

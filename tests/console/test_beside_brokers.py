"""``kwire start --console`` and ``--registry``: processes beside the brokers that the command runs."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.inspection.process_usage import family
from harness.waiting import PATIENCE_S
from kwire.base.processes.priority import NICENESS
from kwire.cli import main


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KWIRE_", "KAFKA_"))}
    words = [
        "start",
        "--console=127.0.0.1:0",
        "--registry=127.0.0.1:0",
        "--data-dir",
        str(tmp_path),
        "--set",
        "listeners=PLAINTEXT://127.0.0.1:0",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "kwire", *words], stdout=subprocess.PIPE, text=True, env=environment
    )
    yield process
    process.kill()
    process.communicate()


def niceness(pid: int) -> dict[str, int]:
    """That of the processes beside the brokers, by command; where Linux groups sessions, that of their session."""
    found = {}
    for child in family(pid)[1:]:
        words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        command = next((each for each in words if each in ("console", "registry")), None)
        if command is not None:
            group = Path(f"/proc/{child}/autogroup")
            own = os.getpriority(os.PRIO_PROCESS, child)
            found[command] = int(group.read_text().split()[-1]) if group.exists() else own
            assert own >= found[command]
    return found


def status(url: str, path: str) -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE_S)
    try:
        connection.request("GET", f"{path}?{parts.query}")
        return connection.getresponse().status
    finally:
        connection.close()


def test_its_line_comes_after_the_ready_line_and_it_ends_with_the_broker(started: subprocess.Popen[str]) -> None:
    assert started.stdout is not None
    assert started.stdout.readline().startswith("kwire ready bootstrap=127.0.0.1:")
    urls = {}
    for line in (started.stdout.readline(), started.stdout.readline()):  # in any order
        ready, _, url = line.strip().partition(" ready url=")
        urls[ready] = url
    assert urls.keys() == {"kwire console", "kwire registry"}
    url = urls["kwire console"]
    assert status(url, "/api/topics") == 200
    assert status(urls["kwire registry"], "/subjects") == 200
    assert niceness(started.pid)["console"] >= NICENESS
    started.send_signal(signal.SIGTERM)
    assert started.communicate(timeout=PATIENCE_S)[0] == ""
    assert started.returncode == 0
    with pytest.raises(ConnectionRefusedError):
        status(url, "/api/topics")


def test_without_its_libraries_no_broker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["start", "--console", "--data-dir", str(tmp_path / "data")]) == 1
    assert "pip install 'kwire[console]'" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_an_address_that_is_wrong_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["start", "--console", "server.properties"])
    assert end.value.code == 2
    assert "'server.properties' is not HOST:PORT" in capsys.readouterr().err

"""``kwire console`` as a process, and the clusters that its options name."""

from __future__ import annotations

import argparse
import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harness.waiting import PATIENCE_S
from kwire.cli import main
from kwire.cli.connection.errors import CommandError
from kwire.console.command import add_arguments, targets


def named(environment: dict[str, str], *words: str) -> list[tuple[str, str]]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return [(each.name, each.bootstrap) for each in targets(parser.parse_args(words), environment)]


def test_clusters_have_names(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert named(home) == [("localhost:9092", "localhost:9092")]
    assert named({**home, "KWIRE_BOOTSTRAP_SERVERS": "one:1,two:2"}) == [("one:1", "one:1,two:2")]
    assert named(home, "-b", "a=one:1,two:2", "-b", "three:3") == [("a", "one:1,two:2"), ("three:3", "three:3")]
    config = tmp_path / ".config" / "kwire" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[profiles.production]\n"bootstrap.servers" = "far:9093"\n')
    assert named(home, "--profile", "production", "-b", "one:1") == [("one:1", "one:1"), ("production", "far:9093")]
    with pytest.raises(CommandError, match="two clusters are called a"):
        named(home, "-b", "a=one:1", "-b", "a=two:2")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for each in started:
        each.kill()
        each.communicate()


def start(processes: list[subprocess.Popen[str]], *words: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KWIRE_")}
    command = [sys.executable, "-m", "kwire", "console", *words]
    pipe = subprocess.PIPE
    processes.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment))
    return processes[-1]


def status(address: str, target: str, **headers: str) -> int:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    try:
        connection.request("GET", target, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_its_one_line_has_the_address_with_the_token(processes: list[subprocess.Popen[str]]) -> None:
    process = start(processes, "--listen", "127.0.0.1:0", "--bootstrap-server", "127.0.0.1:1")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("kwire console ready url=http://127.0.0.1:")
    url = urlsplit(line.rstrip("\n").partition("url=")[2])
    assert url.query.startswith("token=")
    assert len(url.query) >= len("token=") + 43  # 256 bits
    assert status(url.netloc, "/api/clusters") == 401
    assert status(url.netloc, f"/api/clusters?{url.query}") == 200
    assert status(url.netloc, f"/?{url.query}") == 200
    assert status(url.netloc, f"/?{url.query}", Host="evil.example") == 403
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (["--listen", "nonsense"], 2, "--listen: 'nonsense' is not HOST:PORT"),
        (["--listen", "127.0.0.1:0", "--tls-cert", "none.pem"], 2, "--tls-cert and --tls-key belong together"),
        (["--tls-cert", "none.pem", "--tls-key", "none.pem"], 1, "none.pem, none.pem: No such file or directory"),
        (["--profile", "no-such"], 1, "there is no profile no-such"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    words: list[str], status: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["console", *words]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kwire: ")
    assert err.endswith(f"{reason}\n")
    assert err.count("\n") == 1


def test_without_its_libraries_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert main(["console"]) == 1
    words = "kwire: the console needs the libraries orjson, starlette and uvicorn: pip install 'kwire[console]'\n"
    assert capsys.readouterr() == ("", words)


SASL = ["-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN", "-b", "c=127.0.0.1:1"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--login", "-b", "c=127.0.0.1:1"], "--login: c needs security.protocol=SASL_SSL (or SASL_PLAINTEXT)"),
        (["--login", "--listen", ":0", *SASL], "--login beyond this machine needs --tls-cert and --tls-key"),
    ],
)
def test_logins_that_cannot_be_or_would_be_heard_are_one_line(
    processes: list[subprocess.Popen[str]], words: list[str], text: str
) -> None:
    out, err = start(processes, *words).communicate(timeout=PATIENCE_S)
    assert out == "" and err.startswith(f"kwire: {text}") and err.count("\n") == 1


def test_where_people_log_in_the_address_has_no_token(processes: list[subprocess.Popen[str]]) -> None:
    process = start(processes, "--login", "--listen", "127.0.0.1:0", *SASL)
    assert process.stdout is not None
    url = urlsplit(process.stdout.readline().rstrip("\n").partition("url=")[2])
    assert (url.path, url.query) == ("/", "")
    assert status(url.netloc, "/") == status(url.netloc, "/api/session") == 200
    assert status(url.netloc, "/api/topics") == status(url.netloc, "/api/topics?token=None") == 401
    assert status(url.netloc, "/api/session", Host="evil.example") == 403

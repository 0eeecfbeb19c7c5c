"""What commands print for programs that change something, or print text of their own for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import validate

from kwire.cli import main
from kwire.testing.process import KwireProcess
from tools.command_schemas import schemas


class Commands:
    """Commands in this process, each with a format of its output."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def json(self, *words: str, status: int = 0) -> Any:
        """The output, by its schema."""
        found = json.loads(self.text(*words, "-o", "json", status=status))
        name = next(each for each in (" ".join(words[:2]), words[0]) if each in schemas())
        validate(found, schemas()[name])
        return found

    def text(self, *words: str, status: int = 0) -> str:
        """The output as it is."""
        assert main(words) == status
        return self._capsys.readouterr().out


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Commands(capsys)


def test_users_entries_and_quotas(commands: Commands) -> None:
    store = ("--data-dir", "data")
    sizes = ("SCRAM-SHA-256", "SCRAM-SHA-512")
    added = commands.json("user", "add", "ada", "--password", "x", *store)
    assert added == [{"user": "ada", "mechanism": each, "iterations": 4096} for each in sizes]
    assert commands.json("user", "delete", "ada", *store) == [{"user": "ada", "mechanism": each} for each in sizes]
    words = ("User:a", "--topic", "t", "--operation", "read", *store)
    [entry] = commands.json("acl", "add", *words)
    assert (entry["principal"], entry["name"], entry["permission"]) == ("User:a", "t", "allow")
    assert commands.json("acl", "add", *words) == []  # it is there
    assert commands.json("acl", "remove", "User:a", *store) == [entry]
    row = {"user": "ada", "client_id": "(default)", "ip": None, "quota": "request_percentage", "limit": 50.0}
    names = ("--user", "ada", "--default-client-id")
    assert commands.json("quota", "add", *names, "request_percentage=50", *store) == [row]
    assert commands.json("quota", "remove", *names, *store) == [row]
    assert commands.json("quota", "remove", *names, *store) == []


def test_profiles(commands: Commands) -> None:
    properties = {"bootstrap.servers": "a:1", "sasl.password": "[hidden]"}
    made = commands.json("profile", "set", "work", "bootstrap.servers=a:1", "sasl.password=secret")
    assert made == {"name": "work", "used": False, "properties": properties}
    assert commands.json("profile", "use", "work") == {"profile": "work"}
    assert commands.json("profile", "use") == {"profile": None}
    assert commands.json("profile", "delete", "work") == {"name": "work"}
    assert commands.text("profile", "set", "work", "bootstrap.servers=a:1") == ""


def test_files_of_a_broker_and_the_broker(commands: Commands, tmp_path: Path) -> None:
    with KwireProcess(data_dir=tmp_path / "data") as broker:
        apis = commands.json("ping", broker.bootstrap_servers)
        commands.text("topic", "create", "t", "-b", broker.bootstrap_servers)
    assert apis["broker"] == broker.bootstrap_servers and apis["apis"] > 50
    [totals] = commands.json("log", "verify", "data", "--quiet")
    assert totals["directory"] == "data" and totals["findings"] == 0
    lines = commands.text("verify-log", "data", "--quiet", "--json").splitlines()
    assert [json.loads(line) for line in lines] == [totals]
    assert yaml.safe_load(commands.text("log", "verify", "data", "--quiet", "-o", "yaml")) == [totals]
    file = str(next((tmp_path / "data").glob("*/*.log")))
    dumped = commands.json("log", "dump", file)
    assert dumped[0] == {"file": file, "bytes": Path(file).stat().st_size}
    assert yaml.safe_load(commands.text("dump-log", file, "-o", "yaml")) == dumped
    assert [json.loads(line) for line in commands.text("dump-log", file, "--json").splitlines()] == dumped
    assert commands.json("log", "dump", "nothing.log", status=1) == []
    assert commands.text("log", "dump", "nothing.log", "-o", "yaml", status=1) == "[]\n"

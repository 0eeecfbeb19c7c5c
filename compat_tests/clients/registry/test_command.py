"""`kwire schema`, at a registry of kwire."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compat_tests.clients.registry.conftest import Start
from harness.registries.process import Registry
from kwire.cli import main

RECORD = '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}'
OTHER = '{"type":"record","name":"Order","fields":[{"name":"y","type":"int"}]}'
LINE = 'syntax = "proto3"; message Line { int32 n = 1; }'
ORDER = 'syntax = "proto3"; import "line.proto"; message Order { repeated Line lines = 1; }'


class Command:
    """The command in this process."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._capsys = capsys

    def __call__(self, *words: str, status: int = 0) -> str:
        found = main(["schema", words[0], "--registry", self.url, *words[1:]])
        out, err = self._capsys.readouterr()
        assert (found, err.count("\n")) == (status, int(status == 1 and not out)), err
        return out or err


@pytest.fixture
def command(registry: Registry, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(registry.url, capsys)


def test_schemas_are_registered_shown_checked_and_deleted(command: Command, tmp_path: Path) -> None:
    order, other = tmp_path / "order.avsc", tmp_path / "other.avsc"
    order.write_text(RECORD)
    other.write_text(OTHER)
    assert command("register", "orders-value", str(order)) == "orders-value: version 1, id 1\n"
    assert command("check", "orders-value", str(order)) == "orders-value: compatible\n"
    refused = command("check", "orders-value", str(other), status=1)
    assert refused.startswith("orders-value: not compatible\n  ")
    assert "incompatible" in command("register", "orders-value", str(other), status=1)
    assert json.loads(command("list", "-o", "json")) == [
        {"subject": "orders-value", "version": 1, "id": 1, "type": "AVRO"}
    ]
    assert command("show", "orders-value", "--text") == command("show", "--id", "1", "--text") == RECORD + "\n"
    shown = json.loads(command("show", "orders-value", "-o", "json"))
    assert (shown["subject"], shown["version"], shown["type"]) == ("orders-value", 1, "AVRO")
    assert json.loads(command("delete", "orders-value", "-o", "json")) == [
        {"subject": "orders-value", "version": 1, "permanent": False}
    ]
    assert command("list") == ""
    assert "orders-value" in command("list", "--deleted")
    assert "yes" in command("delete", "orders-value", "--permanent")


def test_a_schema_may_refer_to_another(command: Command, tmp_path: Path) -> None:
    line, order = tmp_path / "line.proto", tmp_path / "order.proto"
    line.write_text(LINE)
    order.write_text(ORDER)
    command("register", "line", str(line))
    command("register", "order", str(order), "--reference", "line.proto=line:1")
    [reference] = json.loads(command("show", "order", "-o", "json"))["references"]
    assert reference == {"name": "line.proto", "subject": "line", "version": 1}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("show", "none"), "Subject 'none' not found."),
        (("show", "--id", "99"), "Schema 99 not found"),
        (("show",), "a SUBJECT or an --id is needed"),
        (("register", "a", "/nowhere"), "/nowhere: No such file or directory"),
        (("delete", "none"), "Subject 'none' not found."),
    ],
)
def test_what_cannot_be_done_is_one_line(command: Command, words: tuple[str, ...], reason: str) -> None:
    assert reason in command(*words, status=1)


def test_nobody_without_a_password(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    users = tmp_path / "users"
    users.write_text("alice: secret\n")
    command = Command(start("--users", str(users)).url, capsys)
    assert "Unauthorized" in command("list", status=1)
    monkeypatch.setenv("KWIRE_BASIC_AUTH_USER_INFO", "alice:secret")
    assert command("list") == ""

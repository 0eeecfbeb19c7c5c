"""The prompt, by keys that come through a pipe."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from kwire.sql.prompt.completion import SqlCompleter
from kwire.sql.prompt.loop import history, is_complete, prompt
from kwire.sql.running import answer_all
from tests.sql.memory import MemoryTopics, Record, session

TOPICS: dict[str, dict[int, list[Record]]] = {
    "orders": {0: [Record(b'{"n": 1}')] * 3},
    "my-topic": {0: []},
    "select": {0: []},
}
OPTIONS = {"output": "table", "rows": 500, "to": None, "to_topic": None, "offsets": False, "stats": False}


def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str) -> int:
    """The exit status after these keys and Ctrl-D."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    arguments = argparse.Namespace(**OPTIONS, no_progress=True)
    opened = session(MemoryTopics(TOPICS), tmp_path)
    with create_pipe_input() as keyboard:
        keyboard.send_text(keys + "\x04")
        return prompt(opened, arguments, answer_all, input=keyboard, output=DummyOutput())


def test_statements_of_several_lines_are_answered_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = "select count(*) as n\nfrom orders;\nselec 1;\n\\d orders\n\\o json\nselect 7 as n;\n\\offsets\n\\no\n"
    assert typed(tmp_path, monkeypatch, keys) == 0
    out, err = capsys.readouterr()
    assert "n\n3\n(1 row)\n" in out
    assert "COLUMN       TYPE\nkey" in out
    assert '[\n  {"n":7}\n]\n' in out
    assert err.splitlines() == [
        'kwire: Parser Error: syntax error at or near "selec"',
        "kwire: \\no: there is no such command; \\? lists them",
    ]
    kept = history({"XDG_STATE_HOME": str(tmp_path)})
    assert "select count(*) as n\nfrom orders;" in kept.load_history_strings()
    assert (tmp_path / "kwire" / "sql_history").stat().st_mode & 0o77 == 0


def test_a_command_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(tmp_path, monkeypatch, "\\?\n\\d\n\\q\nselect 1;\n") == 0
    assert capsys.readouterr().out.endswith("my-topic\norders\nselect\n")


@pytest.mark.parametrize(
    ("text", "complete"), [("", True), ("select 1", False), ("select 1;", True), ("\\d", True), ("a;\nb", False)]
)
def test_enter_ends_what_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@pytest.mark.parametrize(
    ("before", "first"),
    [
        ("select count(*) from ", ['"my-topic"', "orders", '"select"']),
        ("select count(*) from or", ["orders"]),
        ('select * from "my', ['"my-topic"']),
        ("select val", ["value", "value_bytes"]),
        ("select off", ['"offset"']),
        ("sel", ['"select"', "SELECT"]),
        ("\\of", ["\\offsets"]),
        ("\\d o", ["orders"]),
        ("", []),
    ],
)
def test_topics_columns_and_words_are_completed(tmp_path: Path, before: str, first: list[str]) -> None:
    completer: Any = SqlCompleter(session(MemoryTopics(TOPICS), tmp_path))
    found = [each.text for each in completer.get_completions(Document(before), CompleteEvent())]
    assert found[: len(first)] == first
    assert bool(found) == bool(first)

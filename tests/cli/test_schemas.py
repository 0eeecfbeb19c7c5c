"""The JSON of commands is written down in `docs/command_line.schema.json`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from kwire.cli import COMMANDS, command_parser
from tools.command_schemas import main, schemas

WITHOUT_ROWS = {"start", "console", "registry", "completion"}
"""Commands that serve, and one that prints a script."""


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parsers of commands and of their actions, by name."""
    for command in COMMANDS:
        parser = command_parser(command)
        subparsers = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        if subparsers:
            for name, each in subparsers[0].choices.items():
                yield f"{command} {name}", each
        else:
            yield command, parser


def test_the_file_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["command_schemas", "--check"])
    assert main() == 0, "run python -m tools.command_schemas"


def test_every_command_with_json_has_a_schema() -> None:
    with_json = {
        name for name, parser in parsers() if any("--output" in each.option_strings for each in parser._actions)
    }
    assert with_json - {"cluster"} == schemas().keys() - {"cluster status", "cluster unregister"}
    assert {name for name, _ in parsers()} - with_json == WITHOUT_ROWS

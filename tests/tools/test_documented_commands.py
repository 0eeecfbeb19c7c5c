"""Commands in the documents have the arguments that the commands take. Whether they do what the documents say is tested
in `compat_tests`; here are all of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.paths import ROOT
from kwire.cli import COMMANDS, parse

RUN_ELSEWHERE = {"EVERYDAY_TASKS.md"}  # each of its commands, by compat_tests/comparisons/cli
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "COMPAT.md")),
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in RUN_ELSEWHERE),
]
COMMAND = re.compile(r"(?:^|[|;&(]\s*|\$ )(?:\.venv/bin/|python -m )?kwire (?P<rest>[a-z].*)")
BLOCK = re.compile(r"```(?:sh|shell|console|text)?\n(.*?)```|((?:^ {4,}.*\n?)+)", re.M | re.S)


def commands(path: Path) -> Iterator[str]:
    """The commands in the blocks of code of a document, from the subcommand on."""
    for block in BLOCK.finditer(path.read_text(encoding="utf-8")):
        for line in whole_lines((block[1] or block[2]).replace("\\\n", " ")):
            found = COMMAND.search(line.strip())
            if found is None or "[" in line or "..." in line:
                continue
            first, *others = found["rest"].split()
            if first in COMMANDS and others[:1] != ["ready"]:  # what a command prints: kwire sql ready name=...
                yield found["rest"]


def whole_lines(text: str) -> Iterator[str]:
    """The lines of a block; one that ends within double quotes goes on."""
    held = ""
    for line in text.splitlines():
        held = f"{held} {line}" if held else line
        if held.count('"') % 2 == 0:
            yield held
            held = ""
    if held:
        yield held


def words(command: str) -> list[str]:
    """The arguments: up to a comment, a pipe or a redirection."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|;&><()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    found = []
    for word in lexer:
        if word and set(word) <= set("|;&><()"):
            break
        found.append(word)
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_documents_can_be_parsed(path: Path) -> None:
    wrong = []
    for command in commands(path):
        try:
            parse(words(command))
        except SystemExit as end:
            if end.code:
                wrong.append(f"kwire {command}")
    assert wrong == []


def test_commands_are_found() -> None:
    assert sum(1 for path in DOCUMENTS for _ in commands(path)) > 50

"""Completion in shells: candidates for the last word."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.cli import COMMANDS, main
from kwire.testing.process import KwireProcess


def candidates(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["__complete", "--", *words]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["to"], ["topic"]),
        (["topic", "de"], ["describe", "delete"]),
        (["topic", "list", "-o", ""], ["table", "json", "jsonl", "yaml"]),
        (["group", "list", "--type", "s"], ["share", "streams"]),
        (["topic", "create", "t", "--part"], ["--partitions"]),
        (["completion", "z"], ["zsh"]),
        (["topic", "create", ""], []),
        (["no-such-command", ""], []),
        (["topic", "describe", "-b", "127.0.0.1:1", ""], []),
    ],
)
def test_commands_options_and_their_values(
    words: list[str], expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert candidates(capsys, *words) == expected


def test_everything_is_offered_at_the_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    assert candidates(capsys, "") == list(COMMANDS)


def test_topics_and_groups_are_asked_of_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    with KwireProcess() as broker:
        address = broker.bootstrap_servers
        assert main(["topic", "create", "orders", "others", "payments", "-b", address, "-o", "json"]) == 0
        assert main(["group", "seek", "billing", "--to", "0", "--topic", "orders", "--execute", "-b", address]) == 0
        capsys.readouterr()
        assert candidates(capsys, "topic", "describe", "-b", address, "o") == ["orders", "others"]
        assert candidates(capsys, "group", "lag", "-b", address, "") == ["billing"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes(tmp_path: Path) -> None:
    kwire = tmp_path / "kwire"
    kwire.write_text('#!/bin/sh\nexec python -m kwire "$@"\n')
    kwire.chmod(0o755)
    script = f"""PATH={tmp_path}:$PATH; source <(kwire completion bash)
COMP_WORDS=(kwire topic de); COMP_CWORD=2; _kwire; printf '%s\\n' "${{COMPREPLY[@]}}" """
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines() == ["describe", "delete"]

"""``kwire profile``: settings of connections by name, in a file that only its owner may read."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from kwire.cli import main
from kwire.cli.connection.options import read_profiles


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "kwire" / "config.toml"


def test_a_profile_is_made_used_changed_and_deleted(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "set", "my work", "bootstrap.servers=a:1", 'sasl.password=p"\\ä', "client.id=c"]) == 0
    assert main(["profile", "use", "my work"]) == 0
    assert main(["profile", "set", "my work", "client.id="]) == 0
    assert read_profiles(file) == {
        "profile": "my work",
        "profiles": {"my work": {"bootstrap.servers": "a:1", "sasl.password": 'p"\\ä'}},
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert main(["profile", "list", "-o", "json"]) == 0
    shown = {"bootstrap.servers": "a:1", "sasl.password": "[hidden]"}
    assert json.loads(capsys.readouterr().out) == [{"name": "my work", "used": True, "properties": shown}]
    assert main(["profile", "delete", "my work"]) == 0
    assert read_profiles(file) == {}


@pytest.mark.parametrize("action", ["use", "delete"])
def test_a_profile_that_does_not_exist_is_told(action: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", action, "nobody"]) == 1
    assert capsys.readouterr().err == f"kwire: {file}: there is no profile nobody\n"

"""Where a command's settings come from, and which source wins."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.options import add_arguments, settings

PROFILES = """
profile = "home"
[profiles.home]
"bootstrap.servers" = "profile:1"
"client.id" = "profile"
[profiles.work]
"bootstrap.servers" = "work:1"
"""


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment whose home has profiles."""
    (tmp_path / "kwire").mkdir()
    (tmp_path / "kwire" / "config.toml").write_text(PROFILES)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_a_local_broker_is_the_default() -> None:
    assert settings(parsed(), {"HOME": "/nowhere"}).bootstrap == "localhost:9092"


def test_flag_property_environment_profile_and_file_win_in_this_order(home: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=file\nsecurity.protocol=PLAINTEXT\n")
    words = ["--command-config", str(file)]
    assert settings(parsed(*words), {"HOME": "/nowhere"}).bootstrap == "file:1"
    assert settings(parsed(*words), home).bootstrap == "profile:1"
    environment = {**home, "KWIRE_BOOTSTRAP_SERVERS": "environment:1"}
    assert settings(parsed(*words), environment).bootstrap == "environment:1"
    words += ["-X", "bootstrap.servers=property:1"]
    assert settings(parsed(*words), environment).bootstrap == "property:1"
    words += ["-b", "flag:1"]
    found = settings(parsed(*words), environment)
    assert found.bootstrap == "flag:1"
    assert found.properties["client.id"] == "profile"
    assert found.properties["security.protocol"] == "PLAINTEXT"


def test_a_profile_is_chosen_by_option_or_environment(home: dict[str, str]) -> None:
    assert settings(parsed("--profile", "work"), home).bootstrap == "work:1"
    assert settings(parsed(), {**home, "KWIRE_PROFILE": "work"}).bootstrap == "work:1"


def test_a_profile_that_does_not_exist_is_told(home: dict[str, str]) -> None:
    with pytest.raises(CommandError, match=r"config\.toml: there is no profile abroad"):
        settings(parsed("--profile", "abroad"), home)


def test_a_broken_file_of_profiles_is_told(home: dict[str, str]) -> None:
    (Path(home["XDG_CONFIG_HOME"]) / "kwire" / "config.toml").write_text("profile =")
    with pytest.raises(CommandError, match=r"config\.toml: Invalid value"):
        settings(parsed(), home)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(CommandError, match="nowhere: No such file or directory"):
        settings(parsed("--command-config", "nowhere"), {"HOME": "/nowhere"})


@pytest.mark.parametrize("words", [["-X", "no-value"], ["--timeout", "0"], ["--timeout", "soon"]])
def test_wrong_options_are_wrong_usage(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2


def test_the_environment_names_security_settings(home: dict[str, str]) -> None:
    environment = {**home, "KWIRE_SECURITY_PROTOCOL": "SASL_SSL", "KWIRE_SASL_MECHANISM": "PLAIN", "KWIRE_OTHER": "x"}
    found = settings(parsed(), environment).properties
    assert (found["security.protocol"], found["sasl.mechanism"]) == ("SASL_SSL", "PLAIN")
    assert "other" not in found

"""`kwire schema` without a registry: the command line, and where a registry is looked for."""

from __future__ import annotations

import pytest

from kwire.cli import main, parse
from kwire.cli.connection.errors import CommandError
from kwire.cli.schemas.client import DEFAULT_URL, RegistryClient
from kwire.cli.schemas.command import type_of


def test_the_ending_of_a_file_says_its_type() -> None:
    def kind(*words: str) -> str:
        return type_of(parse(["schema", "register", "s", *words]))

    assert [kind("a.avsc"), kind("a.json"), kind("a.proto"), kind("a"), kind()] == [
        "AVRO",
        "JSON",
        "PROTOBUF",
        "AVRO",
        "AVRO",
    ]
    assert kind("a.json", "--type", "AVRO") == "AVRO"


@pytest.mark.parametrize(
    "words", [("show", "s", "--version", "0"), ("register", "s", "f", "--reference", "x"), ("show", "--id", "x"), ()]
)
def test_a_wrong_command_line_ends_with_2(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["schema", *words])
    assert end.value.code == 2
    capsys.readouterr()


def test_a_registry_that_does_not_answer_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "list", "--registry", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == "kwire: registry http://127.0.0.1:1: Connection refused\n"


def test_the_url_comes_from_the_option_or_a_property() -> None:
    properties = {"schema.registry.url": "https://registry:1/path/"}
    assert RegistryClient(None, {}, 1).url == DEFAULT_URL
    assert RegistryClient(None, properties, 1).url == "https://registry:1/path"
    assert RegistryClient("http://other", properties, 1).url == "http://other"


def test_a_password_in_the_url_is_not_shown() -> None:
    assert RegistryClient("http://alice:secret@registry:8081", {}, 1).url == "http://registry:8081"
    other = {"basic.auth.user.info": "bob:other"}
    assert RegistryClient("HTTP://alice:secret@[::1]:8081/a", other, 1).url == "http://[::1]:8081/a"


@pytest.mark.parametrize(
    "url", ["registry:8081", "ftp://registry", "http://", "http://registry:x", "http://registry?a=b"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(CommandError, match="is no URL of a registry"):
        RegistryClient(url, {}, 1)

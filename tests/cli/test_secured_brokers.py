"""Commands that speak to a broker, and `kwire start`, with TLS and logins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.testing.certificates import Authority
from kwire.testing.secured import SecuredProcess
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def broker() -> Iterator[SecuredProcess]:
    with SecuredProcess() as broker:
        yield broker
    broker.remove_certificates()


def command_config(directory: Path, properties: dict[str, str]) -> str:
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
    return str(path)


def test_ping_and_cluster_log_in(kwire_command: Command, tmp_path: Path, broker: SecuredProcess) -> None:
    config = command_config(tmp_path, broker.logins.properties("alice"))
    answer = kwire_command.run("ping", broker.bootstrap_servers, "--command-config", config)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "is a Kafka broker with" in answer.stdout
    status = kwire_command.run("cluster", "status", broker.bootstrap_servers, "--command-config", config)
    assert (status.returncode, status.stderr) == (0, "")
    assert f"{broker.bootstrap_servers} " in status.stdout


def test_ping_sees_a_broker_behind_tls_without_logging_in(kwire_command: Command, broker: SecuredProcess) -> None:
    answer = kwire_command.run("ping", broker.bootstrap_servers, "--tls")
    assert (answer.returncode, answer.stderr) == (0, "")
    answer = kwire_command.run("ping", broker.bootstrap_servers)
    assert answer.returncode == 1


@pytest.mark.parametrize("command", [("ping",), ("cluster", "status")])
def test_a_wrong_password_is_one_line_without_it(
    kwire_command: Command, tmp_path: Path, broker: SecuredProcess, command: tuple[str, ...]
) -> None:
    properties = broker.logins.properties("alice")
    wrong = properties["sasl.jaas.config"].replace(broker.users["alice"], "planted-wrong")
    config = command_config(tmp_path, {**properties, "sasl.jaas.config": wrong})
    answer = kwire_command.run(*command, broker.bootstrap_servers, "--command-config", config)
    assert answer.returncode == 1
    assert answer.stderr == (
        f"kwire: {broker.bootstrap_servers}: login failed: Authentication failed: Invalid username or password\n"
    )


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"sasl.mechanism": "DIGEST-MD5"}, "sasl.mechanism=DIGEST-MD5: is not supported by kwire"),
        ({"sasl.jaas.config": "planted"}, "sasl.jaas.config=[hidden]: "),
        ({"ssl.truststore.location": "/no/such/ca.pem"}, "/no/such/ca.pem"),
    ],
)
def test_wrong_client_properties_are_one_line(
    kwire_command: Command, tmp_path: Path, broker: SecuredProcess, changed: dict[str, str], line: str
) -> None:
    config = command_config(tmp_path, {**broker.logins.properties("alice"), **changed})
    for command in (("ping",), ("cluster", "status")):
        answer = kwire_command.run(*command, broker.bootstrap_servers, "--command-config", config)
        assert answer.returncode == 1
        assert line in answer.stderr
        assert answer.stderr.count("\n") == 1
        assert "planted" not in answer.stderr


def test_an_unknown_authority_is_told_with_the_property_that_names_it(
    kwire_command: Command, tmp_path: Path, broker: SecuredProcess
) -> None:
    properties = broker.logins.properties("alice")
    trusting = [name for name in properties if name.startswith("ssl.truststore.")]
    config = command_config(tmp_path, {name: text for name, text in properties.items() if name not in trusting})
    for command in (("ping",), ("cluster", "status")):
        answer = kwire_command.run(*command, broker.bootstrap_servers, "--command-config", config)
        assert answer.returncode == 1
        assert "certificate verify failed" in answer.stderr
        assert "ssl.truststore.location is not set" in answer.stderr
        assert answer.stderr.count("\n") == 1


def test_a_client_without_the_certificate_that_it_needs_is_told(kwire_command: Command, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    stores = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.path)}
    properties = {
        "listeners": "SSL://localhost:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker", "localhost")),
        "ssl.client.auth": "required",
        **stores,
    }
    sets = [word for name, text in properties.items() for word in ("--set", f"{name}={text}")]
    broker = kwire_command.start(*sets)
    config = command_config(tmp_path, {"security.protocol": "SSL", **stores})
    without = kwire_command.run("ping", broker.bootstrap, "--command-config", config)
    assert "certificate" in without.stderr, without.stderr
    assert without.stderr.count("\n") == 1
    raw = kwire_command.run("ping", broker.bootstrap, "--tls")
    assert "_ssl.c" not in raw.stderr
    assert (without.returncode, raw.returncode) == (1, 1)
    broker.stop()


def test_a_file_of_client_properties_that_is_not_there_is_named(kwire_command: Command) -> None:
    answer = kwire_command.run("ping", "localhost:1", "--command-config", "no-such-file")
    assert (answer.returncode, answer.stderr) == (1, "kwire: no-such-file: No such file or directory\n")


def test_a_start_without_a_key_store_is_one_line(kwire_command: Command) -> None:
    answer = kwire_command.run("start", "--set", "listeners=SSL://localhost:0")
    assert answer.returncode == 1
    assert answer.stderr.startswith("kwire: ssl.keystore.location: a listener needs a key store")
    assert answer.stderr.count("\n") == 1

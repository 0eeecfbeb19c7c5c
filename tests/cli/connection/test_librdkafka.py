"""Properties by librdkafka's names mean what those of Java's clients mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.librdkafka import java_names
from kwire.security.client import client_security


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_user_and_password_become_a_login_module(mechanism: str) -> None:
    given = {"sasl.mechanisms": mechanism, "sasl.username": "al ice", "sasl.password": 'a"b\\c;'}
    security = client_security({**java_names(given), "security.protocol": "sasl_plaintext"})
    assert security.mechanism == mechanism
    assert security.login is not None
    assert security.login.options == {"username": "al ice", "password": 'a"b\\c;'}


def test_files_of_certificates_become_stores(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"PEM of {name}")
    given = {f"ssl.{name}.location": str(tmp_path / name) for name in ("ca", "certificate", "key")}
    assert java_names(given) == {
        "ssl.truststore.certificates": "PEM of ca",
        "ssl.truststore.type": "PEM",
        "ssl.keystore.certificate.chain": "PEM of certificate",
        "ssl.keystore.key": "PEM of key",
        "ssl.keystore.type": "PEM",
    }


def test_javas_names_stay() -> None:
    given = {"bootstrap.servers": "a:1", "ssl.truststore.location": "t.p12", "sasl.jaas.config": "x"}
    assert java_names(given) == given


def test_a_client_of_an_issuer_becomes_a_login_module() -> None:
    given = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "id"}
    given["sasl.oauthbearer.client.secret"] = "secret"
    assert java_names(given)["sasl.jaas.config"].endswith('required clientId="id" clientSecret="secret";')


def test_a_broker_is_never_trusted_without_a_certificate() -> None:
    with pytest.raises(CommandError, match="always verifies"):
        java_names({"enable.ssl.certificate.verification": "false"})


def test_a_user_needs_a_password() -> None:
    with pytest.raises(CommandError, match=r"sasl\.username: needs sasl\.password"):
        java_names({"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.pasword": "secret"})


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(CommandError, match=r"ssl\.ca\.location: nowhere: No such file"):
        java_names({"ssl.ca.location": "nowhere"})

"""What a broker's configuration says about the security of its listeners."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.doors import Files
from kwire.security.sasl.plain import users_of
from kwire.server.listeners.security import BrokerSecurity

SECRET = "hunter2-planted"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = f"org.apache.kafka.common.security.scram.ScramLoginModule required username=me password={SECRET};"
PLAIN = f'{MODULE} required username="admin" password="{SECRET}" user_admin="{SECRET}" user_alice="a b";'
CLIENTS = "listener.name.clients."
BASE = {
    "listeners": "CLIENTS://:9092,BROKERS://:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "sasl.enabled.mechanisms": "PLAIN",
}


def load(properties: dict[str, str]) -> BrokerSecurity:
    return BrokerSecurity.load(KafkaConfig({**BASE, **properties}), Files())


def test_a_listener_has_its_own_mechanisms_and_users() -> None:
    security = load({CLIENTS + "plain.sasl.jaas.config": PLAIN, CLIENTS + "sasl.enabled.mechanisms": "PLAIN"})
    clients, brokers = security.listeners["CLIENTS"], security.listeners["BROKERS"]
    assert clients.mechanisms == ("PLAIN",)
    assert users_of(clients.logins["PLAIN"].options) == {"admin": SECRET, "alice": "a b"}
    assert (brokers.mechanisms, brokers.tls, clients.tls) == ((), None, None)
    assert security.inter_broker.protocol == "PLAINTEXT"
    assert SECRET not in repr(security)


def test_a_jaas_file_has_a_context_for_a_listener_or_for_all(tmp_path: Path) -> None:
    path = tmp_path / "jaas.conf"
    scram = SCRAM.replace("=me ", '="me" ').replace(SECRET, f'"{SECRET}"')  # files want quotes
    path.write_text(
        f"clients.KafkaServer {{ {scram} }};\n"
        f'KafkaServer {{ {MODULE} required user_bob="b"; }};\n'
        "Client { org.example.Other required; };\n"
    )
    given = {"kwire.jaas.config.file": str(path), CLIENTS + "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    assert load(given).listeners["CLIENTS"].logins["SCRAM-SHA-256"].options["username"] == "me"
    both = {**given, "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,BROKERS:SASL_PLAINTEXT"}
    both |= {"sasl.mechanism.inter.broker.protocol": "PLAIN"}
    assert users_of(load(both).listeners["BROKERS"].logins["PLAIN"].options) == {"bob": "b"}


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({}, "listener.name.clients.plain.sasl.jaas.config: must be set: it has the users of PLAIN"),
        ({"sasl.jaas.config": PLAIN}, "listener.name.clients.plain.sasl.jaas.config: must be set"),
        (
            {CLIENTS + "sasl.enabled.mechanisms": "GSSAPI"},
            "gssapi.sasl.jaas.config: must be set: it names the broker's",
        ),
        ({CLIENTS + "sasl.enabled.mechanisms": "PLAIN,FOO"}, "sasl.enabled.mechanisms=PLAIN,FOO: must be a list"),
        ({CLIENTS + "plain.sasl.jaas.config": SCRAM}, "ScramLoginModule is not supported by kwire: PLAIN has"),
        ({CLIENTS + "plain.sasl.jaas.config": PLAIN + PLAIN}, "2 login modules"),
        ({CLIENTS + "plain.sasl.jaas.config": PLAIN.replace("required", SECRET)}, "[hidden]: "),
        ({"kwire.jaas.config.file": "/no/such/file"}, "kwire.jaas.config.file=/no/such/file: No such file"),
    ],
)
def test_what_is_wrong_is_one_line_without_a_password(properties: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(properties)
    assert line in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("module", ["com.sun.security.auth.module.JndiLoginModule", "org.example.Own"])
def test_login_modules_that_are_not_kafkas_are_refused(tmp_path: Path, module: str) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(f'KafkaServer {{ {module} required user_bob="{SECRET}"; }};')
    with pytest.raises(ConfigError, match=f"{module} is not supported") as caught:
        load({"kwire.jaas.config.file": str(path)})
    assert SECRET not in str(caught.value)


def test_certificates_of_clients_are_asked_for_beside_sasl_only_if_the_listener_says_so() -> None:
    given = {
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,BROKERS:SSL",
        CLIENTS + "plain.sasl.jaas.config": PLAIN,
        "ssl.client.auth": "required",
    }
    for extra, expected in (({}, "none"), ({CLIENTS + "ssl.client.auth": "requested"}, "requested")):
        security = load({**given, **extra})
        clients, brokers = security.listeners["CLIENTS"].tls, security.listeners["BROKERS"].tls
        assert clients is not None
        assert brokers is not None
        assert (clients.client_auth, brokers.client_auth) == (expected, "required")


def test_brokers_log_in_as_their_listener_says() -> None:
    given = {
        "inter.broker.listener.name": "CLIENTS",
        "kwire.metadata.dir": "/metadata",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    security = load({**given, CLIENTS + "plain.sasl.jaas.config": PLAIN}).inter_broker
    assert (security.protocol, security.mechanism) == ("SASL_PLAINTEXT", "PLAIN")
    assert security.login is not None
    assert security.login.options["username"] == "admin"
    with pytest.raises(ConfigError, match="must have username and password: brokers log in by PLAIN"):
        load({**given, CLIENTS + "plain.sasl.jaas.config": f"{MODULE} required user_a=b;"})


@pytest.mark.parametrize("name", ["sasl.server.callback.handler.class", "sasl.login.callback.handler.class"])
def test_a_callback_handler_of_oauthbearer_is_for_no_other_mechanism(name: str) -> None:
    kind = "Login" if "login" in name else "Validator"
    handler = f"org.apache.kafka.common.security.oauthbearer.OAuthBearer{kind}CallbackHandler"
    full = f"{CLIENTS}scram-sha-256.{name}"
    with pytest.raises(ConfigError, match=rf"^{full}=.* is for OAUTHBEARER, not for SCRAM-SHA-256"):
        load({"sasl.enabled.mechanisms": "SCRAM-SHA-256", full: handler})

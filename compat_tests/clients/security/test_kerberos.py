"""Clients with Kerberos tickets (GSSAPI) on both brokers, in a realm of the tests' own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.clients.drivers import Driver, Sent, make_driver
from compat_tests.clients.languages.test_logins import said_by
from compat_tests.clients.security.options import Security, options_of
from compat_tests.clients.security.refusals import refusal
from compat_tests.names import Names
from compat_tests.needs import need
from compat_tests.servers import running
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.kerberos import SERVICE, Kerberos, missing
from harness.processes.secured import MECHANISMS, SecuredBroker, make_secured

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
CLIENTS = ("kafka-python", "aiokafka", "kcat", "java")  # the wheels of confluent-kafka have no Kerberos; kcat stands in
HOST = "localhost"  # Java finds this name for 127.0.0.1, whatever it was given
RULES = "RULE:[1:$1@$0](bob@.*)s/.*/robert/,DEFAULT"


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    """The realm, in whose environment the brokers and clients of this module are."""
    need(missing())
    patch = pytest.MonkeyPatch()
    with Kerberos(tmp_path_factory.mktemp("kerberos")) as realm:
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        java = [os.environ.get("JAVA_TOOL_OPTIONS", ""), *realm.java_options]
        patch.setenv("JAVA_TOOL_OPTIONS", " ".join(java).strip())
        yield realm
    patch.undo()


@pytest.fixture(scope="module")
def kerberized(
    broker_kind: str, kerberos: Kerberos, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredBroker]:
    """The broker with GSSAPI on its SASL listeners."""
    principal = kerberos.principal(f"{SERVICE}/{HOST}")
    login = f'useKeyTab=true storeKey=true keyTab="{kerberos.keytab(SERVICE)}" principal="{principal}"'
    settings = {
        "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "GSSAPI"]),
        "sasl.kerberos.service.name": SERVICE,
        "sasl.kerberos.principal.to.local.rules": RULES,
        "delegation.token.secret.key": "the secret of the tests",
    }
    for listener in ("sasl_plaintext", "sasl_ssl", "reauth"):
        settings[f"listener.name.{listener}.gssapi.sasl.jaas.config"] = f"{MODULE} required {login};"
    broker = make_secured(broker_kind, tmp_path_factory.mktemp(f"kerberized-{broker_kind}"), settings, HOST)
    with running(broker, broker.kill):
        yield broker


@pytest.fixture(scope="module")
def java(kerberos: Kerberos) -> Iterator[JavaRunner]:
    """A JVM of this realm."""
    runner = JavaRunner({"java.security.krb5.conf": str(kerberos.config)})
    yield runner
    runner.close()


def kerberos_options(
    client: str, broker: SecuredBroker, listener: str, realm: Kerberos, user: str, service: str = SERVICE
) -> dict[str, Any]:
    """The options of a client with a ticket of a user. For the clients that read the default cache, it is there."""
    ca = broker.certificates.ca if listener == "SASL_SSL" else None
    options = options_of(client, Security(listener, ca=ca))
    if client == "java":
        keytab = f'useKeyTab=true storeKey=true keyTab="{realm.keytab(user)}" principal="{realm.principal(user)}"'
        jaas = f'{MODULE} required {keytab} serviceName="{service}";'
        return options | {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": jaas}
    if client == "kcat":
        login = {"sasl.kerberos.keytab": str(realm.keytab(user)), "sasl.kerberos.principal": realm.principal(user)}
        login["sasl.kerberos.kinit.cmd"] = 'kinit -k -t "%{sasl.kerberos.keytab}" %{sasl.kerberos.principal}'
        return options | {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": service, **login}
    os.environ["KRB5CCNAME"] = f"FILE:{realm.ticket_cache(user)}"
    names = {"sasl_kerberos_service_name": service, "sasl_kerberos_domain_name": HOST}
    return options | {"sasl_mechanism": "GSSAPI", **names}


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("client", CLIENTS)
def test_who_has_a_ticket_produces_and_consumes(
    kerberized: SecuredBroker,
    kerberos: Kerberos,
    new_name: Names,
    driver: Callable[..., Driver],
    java: JavaRunner,
    client: str,
    listener: str,
) -> None:
    driver(client)  # skips without the client
    bootstrap, topic = kerberized.address(listener), new_name("topic")
    own = make_driver(client, java, kerberos_options(client, kerberized, listener, kerberos, "alice"))
    assert own.produce(bootstrap, topic, [Sent(0, b"key", b"value")]) in ([], [(0, 0)])
    assert [(one.key, one.value) for one in own.consume(bootstrap, topic, [0])] == [(b"key", b"value")]


@pytest.mark.timeout(1500)  # the first run builds them
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("client", ["franz", "sarama"])
def test_clients_in_go_with_a_keytab_produce_and_consume(
    kerberized: SecuredBroker, kerberos: Kerberos, new_name: Names, client: str, listener: str
) -> None:
    login = ("GSSAPI", kerberos.principal("alice"), str(kerberos.keytab("alice")))
    assert said_by(client, kerberized, listener, new_name("topic"), *login) == "ok login"


@pytest.mark.parametrize("client", ["aiokafka", "java"])
def test_a_ticket_that_the_broker_cannot_read_is_refused_with_the_same_text(
    kerberized: SecuredBroker,
    kerberos: Kerberos,
    observe: Observations,
    driver: Callable[..., Driver],
    java: JavaRunner,
    client: str,
) -> None:
    driver(client)  # skips without the client
    service = f"{SERVICE}/{HOST}"
    kerberos.change_key(service)
    try:
        options = kerberos_options(client, kerberized, "SASL_PLAINTEXT", kerberos, "alice")
        said = refusal(client, kerberized.address("SASL_PLAINTEXT"), options, java)
    finally:
        kerberos.export_key(SERVICE, service)
    observe("error", said)
    assert "due to invalid credentials with SASL mechanism GSSAPI" in said


@pytest.mark.java
def test_the_rules_make_the_users_name(
    kerberized: SecuredBroker, kerberos: Kerberos, java: JavaRunner, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    options = kerberos_options("java", kerberized, "SASL_SSL", kerberos, "bob")
    config.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    words = ["--create", "--max-life-time-period", "-1", "--command-config", str(config)]
    done = java.tool("DelegationTokenCommand", "--bootstrap-server", kerberized.address("SASL_SSL"), *words)
    assert "User:robert" in done.check().out

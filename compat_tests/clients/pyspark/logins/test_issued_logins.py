"""Spark's Kafka source and sink with logins that others issue: OAuth tokens and Kerberos tickets.

Delegation tokens that Spark gets for a ticket: `compat_tests.suites.spark`, KafkaDelegationTokenSuite.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from compat_tests.clients.pyspark.copies import attempts, copied
from compat_tests.clients.pyspark.frames import Frames
from compat_tests.clients.pyspark.refusals import refusal
from compat_tests.clients.security.oauth_logins import Login, java_jaas_options
from compat_tests.clients.security.options import Security, options_of
from compat_tests.names import Names
from compat_tests.needs import need
from compat_tests.servers import running
from harness.observations import Observations
from harness.processes.kerberos import SERVICE, Kerberos, missing
from harness.processes.oauth import OAuthServer, allowed_by_java, allowed_by_kwire, listener_settings
from harness.processes.secured import SecuredBroker, make_secured

pytestmark = pytest.mark.java

LISTENERS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
STRANGER: Final = "stranger"
"""A service whose key the broker does not have."""


class Issued(NamedTuple):
    """A broker that takes tokens and tickets, and those who issue them."""

    broker: SecuredBroker
    server: OAuthServer
    realm: Kerberos

    def with_token(self, listener: str, scope: str = "login") -> dict[str, Any]:
        """The properties of a client that gets a token itself. ``scope``: what is wrong with it."""
        ca = self.broker.certificates.ca if listener == "SASL_SSL" else None
        return java_jaas_options(Login(listener, self.server, self.broker.home, ca, scope))

    def with_ticket(self, listener: str, service: str = SERVICE) -> dict[str, Any]:
        """The properties of a client that gets a ticket for a service itself."""
        ca = self.broker.certificates.ca if listener == "SASL_SSL" else None
        login = {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": _kerberos_login(self.realm, "alice", "alice")}
        return options_of("java", Security(listener, ca=ca)) | login | {"sasl.kerberos.service.name": service}


def _kerberos_login(realm: Kerberos, keytab: str, name: str) -> str:
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    return f'{module} refreshKrb5Config=true keyTab="{realm.keytab(keytab)}" principal="{realm.principal(name)}";'


def _settings(server: OAuthServer, realm: Kerberos) -> dict[str, str]:
    settings = {"sasl.kerberos.service.name": SERVICE}
    for listener in LISTENERS:
        prefix = f"listener.name.{listener.lower()}."
        settings |= listener_settings(server, listener)
        settings[f"{prefix}sasl.enabled.mechanisms"] = "OAUTHBEARER,GSSAPI"
        settings[f"{prefix}gssapi.sasl.jaas.config"] = _kerberos_login(realm, SERVICE, f"{SERVICE}/localhost")
    return settings


@pytest.fixture(scope="module")
def issued(broker_kind: str, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issued]:
    """A broker of either kind; Spark's JVM is in the realm, too."""
    need(missing())
    home = tmp_path_factory.mktemp(f"issued-{broker_kind}")
    with ExitStack() as stack:
        server, realm = stack.enter_context(OAuthServer()), stack.enter_context(Kerberos(home / "realm"))
        realm.add(STRANGER, [f"{STRANGER}/localhost"])
        broker = make_secured(broker_kind, home, _settings(server, realm))
        if broker_kind == "kwire":
            broker.settings |= allowed_by_kwire(server.jwks_url)
        allowed = [f"-D{name}={value}" for name, value in allowed_by_java(server.jwks_url).items()]
        broker.environment = {**realm.environment, "JAVA_TOOL_OPTIONS": " ".join([*allowed, *realm.java_options])}
        spark._jvm.java.lang.System.setProperty("java.security.krb5.conf", str(realm.config))
        stack.enter_context(running(broker, broker.kill))
        yield Issued(broker, server, realm)


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("login", [Issued.with_token, Issued.with_ticket], ids=["token", "ticket"])
def test_who_has_a_token_or_a_ticket_reads_and_writes(
    spark: Any, issued: Issued, tmp_path: Path, new_name: Names, login: Any, listener: str
) -> None:
    copied(Frames(spark, issued.broker.address(listener), tmp_path, login(issued, listener)), new_name)


@pytest.mark.parametrize("scope", ["expired", "wrong_issuer"])
def test_who_has_a_wrong_token_is_told_the_same(
    spark: Any, issued: Issued, observe: Observations, tmp_path: Path, new_name: Names, scope: str
) -> None:
    client = issued.with_token("SASL_SSL", scope)
    for name, attempt in attempts(Frames(spark, issued.broker.address("SASL_SSL"), tmp_path, client), new_name).items():
        observe(name, refusal(attempt))


def test_who_has_a_ticket_for_another_service_is_told_the_same(
    spark: Any, issued: Issued, observe: Observations, tmp_path: Path, new_name: Names
) -> None:
    client = issued.with_ticket("SASL_SSL", STRANGER)
    for name, attempt in attempts(Frames(spark, issued.broker.address("SASL_SSL"), tmp_path, client), new_name).items():
        observe(name, refusal(attempt))

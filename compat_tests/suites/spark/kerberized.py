"""The broker of the suite of delegation tokens: it takes Kerberos tickets, and tokens by SCRAM, in a realm of its own.

The settings of the broker are those of the suite's embedded one, where they matter. What lives elsewhere: the realm
(`harness.processes.kerberos`), the suite's use of it (`java/`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from harness.processes.kerberos import SERVICE, Kerberos
from harness.processes.secured import SecuredBroker, make_secured

LISTENER: Final = "SASL_PLAINTEXT"
CLIENT: Final = "client/localhost"


class Kerberized(NamedTuple):
    """A started broker, and the system properties with which a JVM logs in to it at `LISTENER`."""

    broker: SecuredBroker
    bootstrap: str
    properties: dict[str, str]


@contextmanager
def kerberized(kind: str, home: Path) -> Iterator[Kerberized]:
    """A broker of a kind with its realm, in a folder. Both end with the ``with`` block."""
    with Kerberos(home / "kerberos") as realm:
        keytab = realm.add("client", [CLIENT])
        broker = make_secured(kind, home / "broker", _settings(realm))
        broker.host = "localhost"  # the service is kafka/localhost
        broker.environment = {**realm.environment, "JAVA_TOOL_OPTIONS": " ".join(realm.java_options)}
        properties = {
            "java.security.krb5.conf": str(realm.config),
            "kwire.keytab": str(keytab),
            "kwire.principal": realm.principal(CLIENT),
        }
        broker.start()
        try:
            yield Kerberized(broker, broker.address(LISTENER), properties)
        finally:
            broker.kill()


def _settings(realm: Kerberos) -> dict[str, str]:
    principal = realm.principal(f"{SERVICE}/localhost")
    login = f'useKeyTab=true storeKey=true keyTab="{realm.keytab(SERVICE)}" principal="{principal}"'
    prefix = f"listener.name.{LISTENER.lower()}."
    return {
        f"{prefix}sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-512",
        f"{prefix}gssapi.sasl.jaas.config": f"com.sun.security.auth.module.Krb5LoginModule required {login};",
        "sasl.kerberos.service.name": SERVICE,
        "delegation.token.secret.key": "the secret of the suite",
    }

"""How the suite's clients connect to a secured listener: the broker's properties, the clients', and what the tests
find in their environment. All of it is what the suite's own test clusters have (trivup's `LibrdkafkaTestApp`).

What lives elsewhere: the broker with its listeners and users (`harness.processes.secured`), the issuer of tokens
(`compat_tests.suites.librdkafka.issuer`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Final
from unittest.mock import patch

from compat_tests.suites.librdkafka.build import KERBEROS
from compat_tests.suites.librdkafka.issuer import Issuer, issuing
from compat_tests.suites.suite import CannotBuild
from harness.processes.certificates import SERVER, Certificates
from harness.processes.kerberos import SERVICE, Kerberos, missing
from harness.processes.secured import USERS

PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
UNSECURED: Final = "OAUTHBEARER-UNSECURED"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", UNSECURED, "GSSAPI")
"""OAUTHBEARER: tokens of an issuer (OIDC). The unsecured ones are those that librdkafka makes for tests."""

SESSION: Final = {"connections.max.reauth.ms": "10000"}
USER: Final = "alice"
KEY_PASSWORD: Final = "key-password"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_ALLOWED: Final = "sasl.oauthbearer.allowed.urls"


@dataclass(frozen=True, slots=True)
class Security:
    """How clients connect. ``mechanism``: one of `MECHANISMS`, "" for SSL."""

    protocol: str
    mechanism: str

    @property
    def listener(self) -> str:
        """The listener of `harness.processes.secured`; SSL is with certificates of the clients."""
        return "MTLS" if self.protocol == "SSL" else self.protocol

    @property
    def name(self) -> str:
        """Part of the names of files: SASL_SSL-PLAIN."""
        return "-".join(filter(None, (self.protocol, self.mechanism)))

    @property
    def title(self) -> str:
        """As a reader wants it: SASL_SSL with PLAIN."""
        return " with ".join(filter(None, (self.protocol, self.mechanism)))


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where and how the tests of a scenario connect. ``scripts``: the address for Kafka's scripts, which the suite
    calls without security; ``client``: lines of test.conf; ``environment``: what the runner gets besides."""

    bootstrap: str
    scripts: str
    client: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Realm:
    """One run's security. ``broker``: properties for a broker of the kind; ``client``, ``environment``: what every
    client has, whichever broker it connects to."""

    security: Security
    broker: Mapping[str, str]
    client: Mapping[str, str]
    environment: Mapping[str, str]

    def entrance(self, bootstrap: str, scripts: str, certificates: Certificates, folder: Path) -> Entrance:
        """For a listener with these certificates. ``folder``: where the client's files may be written."""
        client = {"security.protocol": self.security.protocol, **self.client}
        if not self.security.protocol.endswith("SSL"):
            return Entrance(bootstrap, scripts, client, self.environment)
        files = client_files(certificates, folder)
        client |= {
            "ssl.ca.location": files["SSL_ca_pem"],
            "ssl.certificate.location": files["SSL_pub_pem"],
            "ssl.key.location": files["SSL_priv_pem"],
            "ssl.key.password": KEY_PASSWORD,
        }
        return Entrance(bootstrap, scripts, client, {**self.environment, **files})


@contextmanager
def secured(security: Security, kind: str, folder: Path) -> Iterator[Realm]:
    """Whatever the security needs besides the broker, for as long as the tests run. Brokers of ``kind`` must be started
    meanwhile."""
    with ExitStack() as stack:
        yield _realm(security, kind, folder, stack)


def _realm(security: Security, kind: str, folder: Path, stack: ExitStack) -> Realm:
    mechanism = security.mechanism
    prefix = f"listener.name.{security.listener.lower()}."
    if mechanism == "GSSAPI":
        if reason := without_kerberos():
            raise CannotBuild(reason)
        kerberos = stack.enter_context(Kerberos(folder / "kerberos"))
        stack.enter_context(_processes_with(*kerberos.java_options, **kerberos.environment))
        return Realm(security, {**SESSION, **_kerberos(prefix, kerberos)}, _kerberos_client(kerberos), {})
    if mechanism == "OAUTHBEARER":
        issuer = stack.enter_context(issuing(folder / "issuer"))
        stack.enter_context(_processes_with(f"-Dorg.apache.kafka.{_ALLOWED}={issuer.keys_url}"))
        broker = {**SESSION, **_signed(prefix, issuer)} | (
            {f"kwire.{_ALLOWED}": issuer.keys_url} if kind == "kwire" else {}
        )
        return Realm(security, broker, issuer.client, issuer.environment)
    if mechanism == UNSECURED:
        return Realm(security, {**SESSION, **_unsecured(prefix)}, _UNSECURED_CLIENT, {})
    if mechanism:
        login = {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": USERS[USER]}
        return Realm(security, SESSION, login, {})
    return Realm(security, {}, {}, {})


_UNSECURED_CLIENT: Final = {
    "sasl.mechanism": "OAUTHBEARER",
    "enable.sasl.oauthbearer.unsecure.jwt": "true",
    "sasl.oauthbearer.config": "scope=requiredScope principal=admin",
}


def without_kerberos() -> str | None:
    """What this machine lacks for tests with Kerberos; None if nothing."""
    if reason := missing():
        return reason
    modules = (Path(folder) / "sasl2" / "libgssapiv2.so" for folder in ("/usr/lib", *glob("/usr/lib/*-linux-gnu")))
    return None if any(module.exists() for module in modules) else f"needs {KERBEROS}"


def _processes_with(*java_options: str, **environment: str) -> AbstractContextManager[object]:
    """Processes that are started meanwhile, the brokers and the tests, have these variables and options of Java."""
    return patch.dict("os.environ", {**environment, "JAVA_TOOL_OPTIONS": " ".join(java_options)})


def _kerberos(prefix: str, kerberos: Kerberos) -> dict[str, str]:
    principal = kerberos.principal(f"{SERVICE}/{SERVER}")
    options = f'useKeyTab=true storeKey=true keyTab="{kerberos.keytab(SERVICE)}" principal="{principal}"'
    module = f"com.sun.security.auth.module.Krb5LoginModule required {options};"
    return {
        f"{prefix}sasl.enabled.mechanisms": "GSSAPI",
        f"{prefix}gssapi.sasl.jaas.config": module,
        "sasl.kerberos.service.name": SERVICE,
    }


def _kerberos_client(kerberos: Kerberos) -> dict[str, str]:
    return {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "sasl.kerberos.keytab": str(kerberos.keytab(USER)),
        "sasl.kerberos.principal": USER,
    }


def _oauthbearer(prefix: str, handler: str, options: str = "") -> dict[str, str]:
    return {
        f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required{options};",
        f"{prefix}oauthbearer.sasl.server.callback.handler.class": handler,
    }


def _signed(prefix: str, issuer: Issuer) -> dict[str, str]:
    return {
        **_oauthbearer(prefix, f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"),
        f"{prefix}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
        f"{prefix}oauthbearer.sasl.oauthbearer.scope.claim.name": "scp",
        f"{prefix}oauthbearer.sasl.oauthbearer.expected.audience": "api://default",
    }


def _unsecured(prefix: str) -> dict[str, str]:
    handler = f"{_OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    options = ' unsecuredLoginStringClaim_sub="admin" unsecuredValidatorRequiredScope="requiredScope"'
    return _oauthbearer(prefix, handler, options)  # Apache Kafka wants a token of the broker's own, too


def client_files(certificates: Certificates, folder: Path) -> dict[str, str]:
    """The client's key and certificates in each format of the suite, by the variable that names the file."""
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
        pkcs12,
    )
    from cryptography.x509 import load_pem_x509_certificate

    key = load_pem_private_key(certificates.client.key.read_bytes(), None)
    own = load_pem_x509_certificate(certificates.client.chain.read_bytes())
    ca_pem, unused_pem = certificates.ca.read_bytes(), certificates.other_ca.read_bytes()
    ca = load_pem_x509_certificate(ca_pem)
    lock = BestAvailableEncryption(KEY_PASSWORD.encode())
    pack = pkcs12.serialize_key_and_certificates(b"client", key, own, [ca], lock)  # type: ignore[arg-type] # any key
    contents = {
        "SSL_pkcs": pack,
        "SSL_pub_pem": own.public_bytes(Encoding.PEM) + ca_pem,
        "SSL_pub_der": own.public_bytes(Encoding.DER),
        "SSL_priv_pem": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock),
        "SSL_priv_der": key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        "SSL_ca_pem": ca_pem,
        "SSL_ca_der": ca.public_bytes(Encoding.DER),
        "SSL_unused_ca_pem": unused_pem,
        "SSL_all_cas_pem": unused_pem + ca_pem,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: str(folder / name) for name in contents} | {
        "SSL_password": KEY_PASSWORD,
        "SSL_client_auth": "required",
    }

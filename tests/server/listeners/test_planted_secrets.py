"""A secret is planted in every place that takes one; none may come out: in logs of every level with the request log,
dumps, DescribeConfigs, error messages and metrics."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificates

from harness.oauth_issuer import jwk, jwks
from kwire.base import logging
from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.config.support import why_refused
from kwire.base.config.tables import security as security_table
from kwire.base.config.tables import zookeeper as zookeeper_table
from kwire.codec.messages.alter_configs_request import AlterableConfig as ReplacingConfig
from kwire.codec.messages.alter_configs_request import AlterConfigsRequest
from kwire.codec.messages.alter_configs_request import AlterConfigsResource as ReplacingResource
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.codec.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codec.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kwire.codec.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kwire.codec.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kwire.server.broker import Broker
from kwire.server.dispatch import REQUEST_LOGGER
from kwire.server.dump import dump
from tests.server.listeners.secured import PLAIN, SCRAM_MODULE, Secured

BROKER, TOPIC, BROKER_LOGGER = 4, 2, 8
OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGGERS: Final = (logging.ROOT, REQUEST_LOGGER)
SASL = "listener.name.sasl_ssl."
STORE_PASSWORD, KEY_PASSWORD = "planted-store-password", "planted-key-password"


class Planted:
    """A broker with secrets in all properties that take one, and everything that it has shown."""

    def __init__(self, broker: Broker, secured: Secured, capsys: pytest.CaptureFixture[str]) -> None:
        self.broker = broker
        self.secured = secured
        self.shown: list[str] = []
        self.forbidden: list[str] = ["planted-"]
        self._capsys = capsys

    def show(self, *things: object) -> None:
        self.shown += map(repr, things)

    def forbid(self, secret: bytes) -> None:
        """Bytes that must not come out in any form."""
        self.forbidden += [repr(secret)[2:-1], secret.hex(), base64.b64encode(secret).decode()]

    def found(self) -> list[str]:
        captured = self._capsys.readouterr()
        text = "\n".join([*self.shown, captured.out, captured.err])
        assert "AlterUserScramCredentialsRequest(" in captured.err  # the request log is complete
        assert "[hidden]" in captured.err
        return [line[:300] for line in text.splitlines() for secret in self.forbidden if secret in line]


def pkcs12_of(pem: Path, password: str) -> Path:
    data = pem.read_bytes()
    key: Any = load_pem_private_key(data, None)
    first, *others = load_pem_x509_certificates(data)
    encrypted = pkcs12.serialize_key_and_certificates(
        b"key", key, first, others, BestAvailableEncryption(password.encode())
    )
    path = pem.with_suffix(".p12")
    path.write_bytes(encrypted)
    return path


def private_lines(pem: str) -> list[str]:
    """The lines of a PEM text's private key."""
    begin = pem.index("PRIVATE KEY-----") + len("PRIVATE KEY-----")
    return pem[begin : pem.index("-----END", begin)].split()


def planted_properties(secured: Secured) -> dict[str, str]:
    """Properties of a broker with three listeners, every secret with "planted-" in it."""
    keys = secured.directory / "keys.json"
    keys.write_bytes(jwks(jwk("RSA")))
    authority = secured.authority
    encrypted = authority.issue("encrypted", "127.0.0.1", password=KEY_PASSWORD)
    inline = authority.issue("inline", "127.0.0.1").read_text()
    trust = str(pkcs12_of(authority.issue("trusted", "127.0.0.1"), STORE_PASSWORD))
    store = str(pkcs12_of(authority.issue("store", "127.0.0.1"), STORE_PASSWORD))
    own = 'username="broker" password="planted-own"'
    users = 'user_broker="planted-own" user_alice="planted-alice"'
    begin_certificates = inline.index("-----BEGIN CERTIFICATE")
    return {
        **{f"{SASL}{name}" if name.startswith("ssl.") else name: text for name, text in secured.properties().items()},
        "listeners": "SASL_SSL://127.0.0.1:0,INLINE://127.0.0.1:0,STORE://127.0.0.1:0",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,INLINE:SSL,STORE:SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.jaas.config": f'{PLAIN} required {own} user_carol="planted-carol";',
        f"{SASL}plain.sasl.jaas.config": f"{PLAIN} required {own} {users};",
        f"{SASL}scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required {own};",
        f"{SASL}scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required {own};",
        f"{SASL}oauthbearer.sasl.jaas.config": f'{OAUTH} required clientId="c" clientSecret="planted-client-secret";',
        f"{SASL}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        f"{SASL}oauthbearer.sasl.oauthbearer.expected.issuer": "issuer",
        f"{SASL}oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
        f"{SASL}oauthbearer.sasl.oauthbearer.client.credentials.client.secret": "planted-credentials",
        f"{SASL}oauthbearer.sasl.oauthbearer.assertion.private.key.passphrase": "planted-passphrase",
        "kwire.sasl.oauthbearer.allowed.urls": keys.as_uri(),
        f"{SASL}ssl.keystore.location": str(encrypted),
        f"{SASL}ssl.key.password": KEY_PASSWORD,
        "listener.name.inline.ssl.keystore.type": "PEM",
        "listener.name.inline.ssl.keystore.key": inline[:begin_certificates],
        "listener.name.inline.ssl.keystore.certificate.chain": inline[begin_certificates:],
        "listener.name.inline.ssl.truststore.type": "PEM",
        "listener.name.inline.ssl.truststore.certificates": authority.path.read_text(),
        "listener.name.store.ssl.keystore.type": "PKCS12",
        "listener.name.store.ssl.keystore.location": store,
        "listener.name.store.ssl.keystore.password": STORE_PASSWORD,
        "listener.name.store.ssl.key.password": STORE_PASSWORD,
        "listener.name.store.ssl.truststore.type": "PKCS12",
        "listener.name.store.ssl.truststore.location": trust,
        "listener.name.store.ssl.truststore.password": STORE_PASSWORD,
        "delegation.token.secret.key": "planted-token-key",
        "kwire.zookeeper.sasl.jaas.config": f'{DIGEST} required username="kwire" password="planted-zookeeper";',
        "zookeeper.ssl.keystore.password": "planted-zookeeper-store",
        "log.dirs": str(secured.directory / "data"),
    }


@pytest.fixture
async def planted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Planted]:
    for name in LOGGERS:
        logging.set_level(name, "TRACE")
    try:
        async with AsyncExitStack() as stack:
            secured = Secured(tmp_path, "SASL_SSL", stack)
            broker = await stack.enter_async_context(Broker(KafkaConfig(planted_properties(secured))))
            one = Planted(broker, secured, capsys)
            one.forbidden += private_lines((tmp_path / "inline.pem").read_text())
            yield one
    finally:
        for name in LOGGERS:
            logging.unset_level(name)


def test_every_property_that_takes_a_secret_is_planted(tmp_path: Path) -> None:
    """A new property of type PASSWORD is to be planted here as well."""
    kinds = {row[0] for table in (security_table, zookeeper_table) for row in table.ROWS if row[1] == "PASSWORD"}
    given = planted_properties(Secured(tmp_path, "SASL_SSL", AsyncExitStack()))
    refused = {name for name in kinds if why_refused(name, "planted") is not None}
    for name in refused:
        with pytest.raises(ConfigError) as error:
            KafkaConfig({name: "planted"})
        assert "planted" not in str(error.value)
    public = {name for name in kinds if name.endswith((".certificate.chain", ".certificates"))}
    assert {name for name in kinds - public - refused if not any(each.endswith(name) for each in given)} == set()


def altered(name: str, value: str, kind: int = BROKER, key: str = "1") -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=key, configs=[config])]
    )


async def test_planted_secrets_do_not_come_out(planted: Planted) -> None:
    broker, secured = planted.broker, planted.secured
    connection = await secured.connect(broker, secured.client_properties(password="planted-alice"))

    # Logins that fail, in every mechanism.
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        with pytest.raises(PermissionError) as refused:
            await secured.connect(broker, secured.client_properties(mechanism, password="planted-wrong"))
        planted.show(refused.value)
    token = secured.directory / "token"
    token.write_text("planted-header.planted-claims.planted-signature")
    oauth = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{OAUTH} required;"}
    oauth["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
    with pytest.raises(PermissionError) as refused:
        await secured.connect(broker, {**secured.client_properties(), **oauth})
    planted.show(refused.value)

    # Credentials and tokens.
    salted, salt = b"planted-salted-password-of-32-by", b"salt"
    planted.forbid(salted)
    upsertion = ScramCredentialUpsertion(name="alice", mechanism=1, iterations=4096, salt=salt, salted_password=salted)
    planted.show(await connection.call(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0))
    bad = ScramCredentialUpsertion(name="alice", mechanism=9, iterations=1, salt=salt, salted_password=salted)
    planted.show(await connection.call(AlterUserScramCredentialsRequest(upsertions=[bad]), 0))
    planted.show(await connection.call(DescribeUserScramCredentialsRequest(users=None), 0))
    created = await connection.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
    assert created.error_code == 0
    hmac = bytes(created.hmac)
    planted.forbid(hmac)
    await connection.call(DescribeDelegationTokenRequest(owners=None), 3)
    for wrong in (hmac, b"planted-wrong-hmac"):
        planted.show(await connection.call(RenewDelegationTokenRequest(hmac=wrong, renew_period_ms=-1), 2))
        planted.show(await connection.call(ExpireDelegationTokenRequest(hmac=wrong, expiry_time_period_ms=1), 2))

    # Properties that are altered: right and wrong ones, by both APIs.
    for name in (
        "listener.name.store.ssl.keystore.password",
        "listener.name.store.ssl.key.password",
        "listener.name.inline.ssl.keystore.key",
        "listener.name.none.ssl.key.password",
        f"{SASL}plain.sasl.jaas.config",
        "ssl.key.password",
        "sasl.jaas.config",
        "delegation.token.secret.key",
        "unknown.password",
    ):
        planted.show(await connection.call(altered(name, "planted-new-value"), 1))
        config = ReplacingConfig(name=name, value="planted-new-value")
        resource = ReplacingResource(resource_type=BROKER, resource_name="1", configs=[config])
        planted.show(await connection.call(AlterConfigsRequest(resources=[resource], validate_only=True), 2))
    planted.show(await connection.call(altered("listener.name.store.ssl.key.password", STORE_PASSWORD), 1))

    # What tells of the broker.
    for kind, key in ((BROKER, "1"), (BROKER, ""), (BROKER_LOGGER, "1")):
        described = DescribeConfigsResource(resource_type=kind, resource_name=key, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[described], include_synonyms=True, include_documentation=True)
        planted.show(await connection.call(request, 4))
    dump(broker)
    planted.show(broker.metrics.snapshot(), broker.config, broker.config.warnings, broker.config.notes)
    planted.show(*broker.net.connections, *(each.context for each in broker.net.connections))
    await broker.stop()
    assert planted.found() == []

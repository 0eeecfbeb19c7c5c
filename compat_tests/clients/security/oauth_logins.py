"""Each client's own ways to log in with an OAuth token, in the words of its library.

A way takes a `Login`; the clients that cannot fetch a token bring one. kcat, whose librdkafka has no HTTP client, is in
`kcat_unsecured`.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.oauth_issuer import pem_of
from harness.processes.oauth import CLIENTS, JWT_BEARER, OAuthServer, assertion, trusted

MECHANISM: Final = "OAUTHBEARER"
PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."


class Login(NamedTuple):
    """Who logs in where, and what is wrong with the token (`harness.processes.oauth.WRONG`). ``ca``: with TLS, whom
    the client trusts; ``home``: a folder for files."""

    protocol: str
    server: OAuthServer
    home: Path
    ca: Path | None = None
    scope: str = "login"
    client: str = "alice"
    secret: str = CLIENTS["alice"]

    def token(self) -> str:
        """A token that was got elsewhere."""
        return self.server.token(self.client, self.scope)

    def file(self, name: str, text: str) -> Path:
        """A file with this text."""
        path = self.home / name
        path.write_text(text)
        return path


def kafka_python(login: Login) -> dict[str, Any]:
    """A token provider."""
    from kafka.net.sasl.oauth import AbstractTokenProvider  # warns when it is imported

    class Token(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
        def token(self) -> str:
            return login.token()

    chosen = {} if login.ca is None else {"ssl_cafile": str(login.ca)}
    return _python(login, Token()) | chosen


def aiokafka(login: Login) -> dict[str, Any]:
    """A token provider."""
    from aiokafka.abc import AbstractTokenProvider

    class Token(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
        async def token(self) -> str:
            return login.token()

    chosen = {} if login.ca is None else {"ssl_context": ssl.create_default_context(cafile=login.ca)}
    return _python(login, Token()) | chosen


def _python(login: Login, provider: object) -> dict[str, Any]:
    return {
        "security_protocol": login.protocol,
        "sasl_mechanism": MECHANISM,
        "sasl_oauth_token_provider": provider,
    }


def librdkafka_callback(login: Login) -> dict[str, Any]:
    """The refresh callback."""
    return _librdkafka(login) | {"oauth_cb": lambda _: (login.token(), time.time() + 600)}


def librdkafka_oidc(login: Login) -> dict[str, Any]:
    """Client credentials."""
    return _librdkafka_oidc(login) | {
        "sasl.oauthbearer.client.id": login.client,
        "sasl.oauthbearer.client.secret": login.secret,
    }


def librdkafka_jwt_bearer(login: Login) -> dict[str, Any]:
    """An assertion that librdkafka signs. With ES256, its signatures have a wrong form (librdkafka 2.16.0)."""
    return _librdkafka_oidc(login) | {
        "sasl.oauthbearer.grant.type": JWT_BEARER,
        "sasl.oauthbearer.assertion.algorithm": "RS256",
        "sasl.oauthbearer.assertion.private.key.file": str(login.file("key.pem", pem_of("RSA"))),
        "sasl.oauthbearer.assertion.claim.aud": login.server.token_url,
        "sasl.oauthbearer.assertion.claim.sub": login.client,
        "sasl.oauthbearer.assertion.claim.iss": login.client,
    }


def _librdkafka_oidc(login: Login) -> dict[str, Any]:
    trust = {} if login.ca is None else {"https.ca.location": str(login.ca)}
    return (
        _librdkafka(login)
        | trust
        | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.scope": login.scope,
            "sasl.oauthbearer.token.endpoint.url": login.server.token_url,
        }
    )


def _librdkafka(login: Login) -> dict[str, Any]:
    trust = {} if login.ca is None else {"ssl.ca.location": str(login.ca)}
    return {"security.protocol": login.protocol, "sasl.mechanism": MECHANISM, **trust}


def kcat_unsecured(protocol: str) -> dict[str, Any]:
    """librdkafka's own unsecured tokens."""
    return {
        "security.protocol": protocol,
        "sasl.mechanism": MECHANISM,
        "broker.address.family": "v4",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice",
    }


def java_client_credentials(login: Login) -> dict[str, Any]:
    """Client credentials in the properties (KIP-1139)."""
    return _java(login, login.server.token_url) | {
        "sasl.oauthbearer.client.credentials.client.id": login.client,
        "sasl.oauthbearer.client.credentials.client.secret": login.secret,
        "sasl.oauthbearer.scope": login.scope,
    }


def java_jaas_options(login: Login) -> dict[str, Any]:
    """Client credentials in the options of the login module (KIP-768)."""
    options = f'clientId="{login.client}" clientSecret="{login.secret}" scope="{login.scope}"'
    return _java(login, login.server.token_url, options)


def java_file(login: Login) -> dict[str, Any]:
    """A token in a file."""
    return _java(login, login.file("token", login.token()).as_uri())


def java_jwt_bearer(login: Login) -> dict[str, Any]:
    """An assertion that the client signs (KIP-1139)."""
    return _java_assertion(login) | {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}JwtBearerJwtRetriever"}


def java_client_assertion(login: Login) -> dict[str, Any]:
    """Client credentials with an assertion in the place of the secret (KIP-1258)."""
    retriever = f"{PACKAGE}ClientCredentialsJwtRetriever"
    return _java_assertion(login) | {"sasl.oauthbearer.jwt.retriever.class": retriever}


def java_assertion_file(login: Login) -> dict[str, Any]:
    """An assertion in a file."""
    path = login.file("assertion", assertion(login.server.token_url, login.client))
    return _java(login, login.server.token_url) | {
        "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}JwtBearerJwtRetriever",
        "sasl.oauthbearer.assertion.file": str(path),
        "sasl.oauthbearer.scope": login.scope,
    }


def _java_assertion(login: Login) -> dict[str, Any]:
    return _java(login, login.server.token_url) | {
        "sasl.oauthbearer.assertion.algorithm": "ES256",
        "sasl.oauthbearer.assertion.private.key.file": str(login.file("key.pem", pem_of("P-256"))),
        "sasl.oauthbearer.assertion.claim.aud": login.server.token_url,
        "sasl.oauthbearer.assertion.claim.iss": login.client,
        "sasl.oauthbearer.assertion.claim.sub": login.client,
        "sasl.oauthbearer.assertion.claim.exp.seconds": "300",
        "sasl.oauthbearer.scope": login.scope,
    }


def _java(login: Login, token_url: str, options: str = "") -> dict[str, Any]:
    if login.ca is not None:
        options += f" {trusted(login.ca)}"
    chosen = {
        "security.protocol": login.protocol,
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f"{PACKAGE}OAuthBearerLoginModule required {options};",
        "sasl.login.callback.handler.class": f"{PACKAGE}OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": token_url,
    }
    if login.ca is not None:
        chosen |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(login.ca)}
    return chosen


WAYS: Final[dict[str, tuple[str, Callable[[Login], dict[str, Any]]]]] = {
    "kafka-python": ("kafka-python", kafka_python),
    "aiokafka": ("aiokafka", aiokafka),
    "confluent, callback": ("confluent", librdkafka_callback),
    "confluent, client credentials": ("confluent", librdkafka_oidc),
    "confluent, JWT bearer": ("confluent", librdkafka_jwt_bearer),
    "java, client credentials": ("java", java_client_credentials),
    "java, JAAS options": ("java", java_jaas_options),
    "java, token in a file": ("java", java_file),
    "java, JWT bearer": ("java", java_jwt_bearer),
    "java, assertion in a file": ("java", java_assertion_file),
    "java, client assertion": ("java", java_client_assertion),
}
"""The client of each way, and its options."""

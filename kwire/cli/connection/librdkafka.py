"""librdkafka's names of connection properties, as Java's clients spell them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kwire.cli.connection.errors import CommandError

_NAMES: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
}
_PEM_FILES: Final = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
_PEM_TEXTS: Final = {
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
_STORES: Final = {"ssl.truststore.certificates": "ssl.truststore.type", "ssl.keystore.key": "ssl.keystore.type"}
_PACKAGE: Final = "org.apache.kafka.common.security."


def java_names(given: Mapping[str, str]) -> dict[str, str]:
    """Properties with Java's names; those that have them already stay. `CommandError`."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if name in _PEM_FILES:
            found[_PEM_FILES[name]] = _read(name, value)
        elif name in _PEM_TEXTS:
            found[_PEM_TEXTS[name]] = value
        else:
            found[_NAMES.get(name, name)] = value
    for content, kind in _STORES.items():
        if content in found:
            found.setdefault(kind, "PEM")
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    if found.get("enable.ssl.certificate.verification", "true").lower() == "false":
        raise CommandError("enable.ssl.certificate.verification=false: kwire always verifies certificates")
    if "sasl.jaas.config" not in found and (login := _login(found)) is not None:
        found["sasl.jaas.config"] = login
    return found


def _read(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name}: {path}: {getattr(error, 'strerror', None) or error}") from None


def _login(found: Mapping[str, str]) -> str | None:
    """The login module's configuration, for the properties that librdkafka has in its place."""
    mechanism = found.get("sasl.mechanism", "")
    if "sasl.username" in found:
        if "sasl.password" not in found:
            raise CommandError("sasl.username: needs sasl.password beside it")
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        return _module(module, username=found["sasl.username"], password=found["sasl.password"])
    if mechanism == "OAUTHBEARER" and found.get("sasl.oauthbearer.method", "").lower() == "oidc":
        options = {
            "clientId": found.get("sasl.oauthbearer.client.id"),
            "clientSecret": found.get("sasl.oauthbearer.client.secret"),
            "scope": found.get("sasl.oauthbearer.scope"),
        }
        return _module(
            "oauthbearer.OAuthBearerLoginModule", **{key: value for key, value in options.items() if value is not None}
        )
    return None


def _module(name: str, **options: str) -> str:
    words = "".join(f" {key}={_quoted(value)}" for key, value in options.items())
    return f"{_PACKAGE}{name} required{words};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

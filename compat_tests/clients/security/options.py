"""One description of how a client secures its connections, in the words of each client library."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, NamedTuple

from harness.processes.certificates import Identity


class Security(NamedTuple):
    """``protocol`` as in Kafka; ``mechanism``, ``user`` and ``password`` with SASL; ``ca``: whom a client trusts."""

    protocol: str
    mechanism: str = ""
    user: str = ""
    password: str = ""
    ca: Path | None = None
    identity: Identity | None = None


def options_of(client: str, security: Security) -> dict[str, Any]:
    """The options of a client of `compat_tests.clients.drivers.CLIENTS`."""
    makers = {
        "kafka-python": _kafka_python,
        "aiokafka": _aiokafka,
        "confluent": _librdkafka,
        "kcat": _librdkafka,
        "java": _java,
    }
    return makers[client](security)


def _kafka_python(security: Security) -> dict[str, Any]:
    chosen = _python_sasl(security)
    if security.ca is not None:
        chosen["ssl_cafile"] = str(security.ca)
    if security.identity is not None:
        chosen |= {"ssl_certfile": str(security.identity.chain), "ssl_keyfile": str(security.identity.key)}
    return chosen


def _aiokafka(security: Security) -> dict[str, Any]:
    chosen = _python_sasl(security)
    if security.ca is not None:
        context = ssl.create_default_context(cafile=security.ca)
        if security.identity is not None:
            context.load_cert_chain(security.identity.pem)
        chosen["ssl_context"] = context
    return chosen


def _python_sasl(security: Security) -> dict[str, Any]:
    chosen = {"security_protocol": security.protocol}
    if security.mechanism:
        chosen["sasl_mechanism"] = security.mechanism
        chosen |= {"sasl_plain_username": security.user, "sasl_plain_password": security.password}
    return chosen


def _librdkafka(security: Security) -> dict[str, Any]:
    chosen = {"security.protocol": security.protocol, "broker.address.family": "v4"}
    if security.mechanism:
        chosen["sasl.mechanism"] = security.mechanism
        chosen |= {"sasl.username": security.user, "sasl.password": security.password}
    if security.ca is not None:
        chosen["ssl.ca.location"] = str(security.ca)
    if security.identity is not None:
        chosen["ssl.certificate.location"] = str(security.identity.chain)
        chosen["ssl.key.location"] = str(security.identity.key)
    return chosen


def _java(security: Security) -> dict[str, Any]:
    chosen = {"security.protocol": security.protocol}
    if security.mechanism:
        kind = "plain.Plain" if security.mechanism == "PLAIN" else "scram.Scram"
        login = f'username="{security.user}" password="{security.password}"'
        chosen["sasl.mechanism"] = security.mechanism
        chosen["sasl.jaas.config"] = f"org.apache.kafka.common.security.{kind}LoginModule required {login};"
    if security.ca is not None:
        chosen |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(security.ca)}
    if security.identity is not None:
        chosen |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(security.identity.pem)}
    return chosen

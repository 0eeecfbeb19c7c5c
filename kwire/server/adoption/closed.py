"""Whether adopting a directory would open a cluster that was closed: what Apache Kafka demanded of its clients, beside
what the configuration of kwire demands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.cluster.kraft.metadata import KafkaMetadata

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's security protocols by their code."""

_STRENGTH: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 2}
"""What a client needs: nothing, perhaps a certificate, or credentials."""


def why_open(metadata: KafkaMetadata, config: KafkaConfig, node_id: int | None) -> str | None:
    """What would be open to all that was not, in words; None if nothing would."""
    if metadata.unknown:
        kinds = ", ".join(f"{count} of {record}" for record, count in sorted(metadata.unknown.items()))
        return f"its metadata has records that Apache Kafka 4.3.1 does not know ({kinds}), which may restrict access"
    if metadata.acls and not config.authorizer_class_name:
        return f"it has ACLs ({len(metadata.acls)}), and the configuration names no authorizer.class.name"
    before = _protocols_before(metadata, node_id)
    after = {endpoint.security_protocol for endpoint in config.endpoints()}
    if _weakest(after) < _weakest(before):
        return f"its listeners were {_words(before)}, those of the configuration are {_words(after)}"
    return None


def _protocols_before(metadata: KafkaMetadata, node_id: int | None) -> set[str]:
    """The security protocols with which clients reached the broker of this directory."""
    own = metadata.brokers.get(-1 if node_id is None else node_id)
    brokers = list(metadata.brokers.values()) if own is None else [own]
    found = {
        PROTOCOLS[endpoint.security_protocol] if 0 <= endpoint.security_protocol < len(PROTOCOLS) else "SASL_SSL"
        for broker in brokers
        for endpoint in broker.end_points
    }
    if not found and (metadata.users or metadata.tokens):
        return {"SASL_SSL"}
    return found or {"PLAINTEXT"}


def _weakest(protocols: Iterable[str]) -> int:
    return min((_STRENGTH[each] for each in protocols), default=max(_STRENGTH.values()))


def _words(protocols: Iterable[str]) -> str:
    return " and ".join(sorted(protocols)) or "none"

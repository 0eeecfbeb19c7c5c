"""Adopting does not open to all what was closed."""

from __future__ import annotations

import pytest

from campaigns.adoption.kraft_files import acl, broker, token, user
from kwire.base.config import KafkaConfig
from kwire.cluster.kraft.metadata import KafkaMetadata
from kwire.cluster.kraft.records import UnknownRecord
from kwire.codec.message import Message
from kwire.server.adoption.closed import why_open

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
SECURED = {"listeners": "SASL_SSL://localhost:9093"}
TLS = {"listeners": "SSL://localhost:9093"}


def reason(records: list[Message | UnknownRecord], properties: dict[str, str]) -> str | None:
    metadata = KafkaMetadata()
    for each in records:
        metadata.replay(each)
    return why_open(metadata, KafkaConfig({"node.id": "1", **properties}), 1)


CLOSED: dict[str, tuple[list[Message | UnknownRecord], dict[str, str], str]] = {
    "ACLs": ([acl()], {}, "it has ACLs (1)"),
    "TLS": ([broker(1, 1)], {}, "its listeners were SSL, those of the configuration are PLAINTEXT"),
    "logins": ([broker(1, 3)], TLS, "its listeners were SASL_SSL, those of the configuration are SSL"),
    "logins beside TLS": ([broker(1, 3, 1)], {}, "its listeners were SASL_SSL and SSL"),
    "users": ([user()], {}, "its listeners were SASL_SSL"),
    "tokens": ([token()], {}, "its listeners were SASL_SSL"),
    "a protocol of the future": ([broker(1, 9)], {}, "its listeners were SASL_SSL"),
    "the brokers of another directory": ([broker(2, 2)], {}, "its listeners were SASL_PLAINTEXT"),
    "an unknown record": ([UnknownRecord(100, 2)], {**AUTHORIZER, **SECURED}, "1 of type 100"),
}


@pytest.mark.parametrize("name", list(CLOSED))
def test_what_was_closed_is_not_opened(name: str) -> None:
    records, properties, text = CLOSED[name]
    found = reason(records, properties)
    assert found is not None
    assert text in found


OPEN: dict[str, tuple[list[Message | UnknownRecord], dict[str, str]]] = {
    "nothing": ([], {}),
    "an authorizer": ([acl(), broker(1, 0)], AUTHORIZER),
    "the same listeners": ([broker(1, 3), user(), token(), acl()], {**AUTHORIZER, **SECURED}),
    "other logins": ([broker(1, 2)], SECURED),
    "a listener that was open": ([broker(1, 0, 3), user()], {}),
    "another broker": ([broker(1, 0), broker(2, 3)], {}),
}


@pytest.mark.parametrize("name", list(OPEN))
def test_what_was_open_or_stays_closed_is_adopted(name: str) -> None:
    records, properties = OPEN[name]
    assert reason(records, properties) is None

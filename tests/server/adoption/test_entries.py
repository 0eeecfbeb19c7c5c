"""What is taken of Kafka's metadata, what is left out, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from campaigns.adoption.kraft_files import TOPIC_ID, acl, config, quota, some_of_everything, token, user
from harness.random_messages import random_message
from kwire.base.config import KafkaConfig
from kwire.cluster.controller.plan import chunks, value_bytes
from kwire.cluster.kraft.metadata import KafkaMetadata
from kwire.cluster.metadata.acls import acl_key, unpack_acl
from kwire.cluster.metadata.client_quotas import quota_key, unpack_quotas
from kwire.cluster.metadata.credentials import unpack_credential, unpack_token
from kwire.cluster.metadata.image import MetadataCache
from kwire.cluster.store import keys
from kwire.cluster.store.keys import ConfigResource
from kwire.cluster.store.memory import MemoryStore
from kwire.cluster.store.store import Write
from kwire.codec.message import Message
from kwire.codec.messages.producer_ids_record import ProducerIdsRecord
from kwire.codec.messages.topic_record import TopicRecord
from kwire.quotas.entities import QuotaEntity
from kwire.server.adoption.entries import Taken, take
from kwire.server.errors import StartError

SECRET = "top secret"


def metadata_of(*records: Message) -> KafkaMetadata:
    metadata = KafkaMetadata()
    for each in records:
        metadata.replay(each)
    metadata.finish()
    return metadata


def taken(*records: Message, with_security: bool = True, topics: Any = None) -> Taken:
    present = {"orders": TOPIC_ID} if topics is None else topics
    broker = KafkaConfig({"node.id": "1"})
    return take(metadata_of(*records), broker, present, with_security=with_security)


def values(found: Taken, resource: ConfigResource, name: str) -> Any:
    key = keys.config_key(resource, name)
    return keys.unpack(key, found.values[key])["values"] if key in found.values else None


def test_everything_is_taken_as_kwire_stores_it() -> None:
    found = taken(*some_of_everything(), ProducerIdsRecord(next_producer_id=5000))
    assert values(found, ConfigResource.TOPIC, "orders") == {"retention.ms": "1000"}
    assert values(found, ConfigResource.BROKER, "1") == {"listener.name.x.ssl.keystore.password": SECRET}
    (key,) = (each for each in found.values if each.startswith(keys.ACLS))
    binding = unpack_acl(key, found.values[key])
    assert acl_key(binding) == key
    assert (binding.principal, binding.resource_name) == ("User:alice", "orders")
    assert keys.ACL_CHANGE in found.values
    key = keys.scram_key(1, "alice")
    assert unpack_credential(key, found.values[key]) == (b"salt", b"s" * 32, b"k" * 32, 4096)
    key = keys.delegation_token_key("dG9rZW4")
    assert str(unpack_token(key, found.values[key]).renewers[0]) == "User:bob"
    alice = QuotaEntity.of({"user": "alice"})
    key = quota_key(alice)
    assert unpack_quotas(key, found.values[key]) == (alice, {"producer_byte_rate": 1000.0})
    assert keys.unpack(keys.PRODUCER_IDS, found.values[keys.PRODUCER_IDS])["next"] == 5000
    assert found.left_out == []


def test_without_security_who_may_do_what_is_left_out_and_named() -> None:
    found = taken(*some_of_everything(), with_security=False)
    assert values(found, ConfigResource.TOPIC, "orders") == {"retention.ms": "1000"}
    prefixes = (keys.ACLS, keys.ACL_CHANGE, keys.SCRAM, keys.DELEGATION_TOKENS)
    assert not [each for each in found.values if each.startswith(prefixes)]
    assert [each.partition(":")[0] for each in found.left_out] == [
        "ACLs (1)",
        "SCRAM credentials (1)",
        "delegation tokens (1)",
    ]


@pytest.mark.parametrize(
    "record",
    [
        acl(resource_type=99),
        acl(resource_type=1),
        acl(pattern_type=2),
        acl(operation=1),
        acl(permission_type=0),
        acl(principal="alice"),
        acl(resource_name=""),
        acl(resource_name="x" * 20_000),
    ],
)
def test_an_acl_that_kwire_cannot_have_is_not_left_out_in_silence(record: Message) -> None:
    with pytest.raises(StartError, match="cannot take an ACL"):
        taken(record)
    assert taken(record, with_security=False).left_out == ["ACLs (1): --without-security"]


def test_the_same_acl_under_two_ids_is_taken_once() -> None:
    assert taken(acl(1), acl(2)).counts["ACLs"] == 1


LEFT_OUT: dict[str, tuple[list[Message], str]] = {
    "another broker": ([config(4, "2", "background.threads", "11")], "configuration of broker 2: this is broker 1"),
    "another topic": ([config(2, "there", "retention.ms", "1")], "topic there: the topic is not in this directory"),
    "an older topic": (
        [TopicRecord(name="orders", topic_id=b"2" * 16), config(2, "orders", "retention.ms", "1")],
        "topic orders: the topic is not in this directory",
    ),
    "a type": ([config(64, "x", "a", "b")], "configuration of x: resource type 64 is not known"),
    "a property": ([config(2, "orders", "retention.ms", "soon")], "topic orders: retention.ms=soon"),
    "a fixed property": ([config(4, "1", "node.id", SECRET)], "broker 1: node.id"),
    "a host name": ([quota({"ip": "no address"}, "connection_creation_rate", 1.0)], "quotas of ip no address: "),
    "a mechanism": ([user("alice", 9)], "user alice: unknown mechanism"),
    "a user without a name": ([user("")], "user : Username must not be empty"),
    "a token": ([token("../x")], "delegation token ../x: it is not an id of a token"),
}


@pytest.mark.parametrize("name", list(LEFT_OUT))
def test_what_kwire_cannot_have_is_left_out_and_named(name: str) -> None:
    records, line = LEFT_OUT[name]
    topic = TopicRecord(name="orders", topic_id=TOPIC_ID)
    found = taken(topic, *records)
    assert len(found.left_out) == 1
    assert line in found.left_out[0]
    assert SECRET not in found.left_out[0]
    assert not [each for each in found.values if each.startswith((keys.SCRAM, keys.CLIENT_QUOTAS, "delegation"))]


def test_the_other_properties_of_a_resource_are_kept() -> None:
    topic = TopicRecord(name="orders", topic_id=TOPIC_ID)
    found = taken(topic, config(2, "orders", "retention.ms", "soon"), config(2, "orders", "segment.bytes", "2000000"))
    assert values(found, ConfigResource.TOPIC, "orders") == {"segment.bytes": "2000000"}


def test_all_brokers_always_have_a_minimum_of_in_sync_replicas() -> None:
    found = taken(config(4, "", "log.cleaner.delete.retention.ms", "42"))
    expected = {"log.cleaner.delete.retention.ms": "42", "min.insync.replicas": "1"}
    assert values(found, ConfigResource.BROKER, "") == expected


def somewhere_near(rng: random.Random) -> Message:
    """A record that is adopted, with some fields of a random one."""
    record = rng.choice([*some_of_everything(), ProducerIdsRecord(next_producer_id=7)])
    strange = random_message(type(record), 0, rng, unknown_tags=False)
    names: Sequence[str] = record.__slots__
    for name in names:
        if rng.random() < 0.3:
            setattr(record, name, getattr(strange, name))
    return record


@pytest.mark.parametrize("seed", range(20))
async def test_no_record_that_decodes_makes_a_store_that_cannot_be_read(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        records = [somewhere_near(rng) for _ in range(12)]
        try:
            found = taken(*records, with_security=rng.random() < 0.7)
        except StartError as error:
            assert "\n" not in str(error)
            continue
        store = MemoryStore()
        await store.open()
        for chunk in chunks(found.values, value_bytes):
            await store.commit([], [Write(*item) for item in chunk.items()])
        metadata = MetadataCache(store)
        await metadata.start()
        metadata.close()
        await store.close()
        assert not [line for line in found.left_out if "\n" in line]

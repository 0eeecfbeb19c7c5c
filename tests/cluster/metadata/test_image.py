"""The image that is built from the store's feed."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.base.uuids import uuid_to_text
from kwire.cluster.metadata.acls import acl_key, pack_acl
from kwire.cluster.metadata.image import ClusterImage, ConfigResource, Delta, MetadataCache
from kwire.cluster.store import keys
from kwire.cluster.store.keys import PartitionState
from kwire.cluster.store.memory import MemoryStore
from kwire.cluster.store.store import Change, Entry, Event, Listener, StoreFormatError, Write
from kwire.security.acls.bindings import AclBinding, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType

ID = b"i" * 16
OTHER = b"j" * 16


class Feed:
    """A store whose feed has the events that a test sends."""

    def __init__(self) -> None:
        store: Any = self
        self.cache = MetadataCache(store)
        self.deltas: list[Delta] = []
        self.cache.add_listener(lambda image, delta: self.deltas.append(delta))
        self._listeners: list[Listener] = []
        self._revision = 0

    async def subscribe(self, listener: Listener) -> Feed:
        self._listeners.append(listener)
        return self

    def send(self, *changes: tuple[str, bytes | None], consistent: bool = True) -> None:
        self._revision += 1
        entries = [
            Change(key, None if value is None else Entry(value, self._revision, self._revision))
            for key, value in changes
        ]
        for listener in self._listeners:
            listener(Event(entries, self._revision, consistent=consistent))

    @property
    def image(self) -> ClusterImage:
        return self.cache.image


@pytest.fixture
async def feed() -> Feed:
    made = Feed()
    await made.cache.start()
    return made


def topic(name: str, topic_id: bytes = ID) -> tuple[str, bytes]:
    return keys.topic_key(name), keys.pack(id=uuid_to_text(topic_id))


def shard(number: int, count: int, topic_id: bytes = ID, epoch: int = 0) -> tuple[str, bytes]:
    states = [PartitionState((1,), (1,), 1, epoch, epoch)] * count
    return keys.shard_key(topic_id, number), keys.pack_shard(states)


async def test_listeners_get_no_delta_before_the_state_is_consistent(feed: Feed) -> None:
    feed.send(topic("a"), shard(0, 64), consistent=False)
    assert feed.image.topics == {}
    assert feed.deltas == []
    feed.send(shard(1, 6))
    assert len(feed.image.topics["a"].partitions) == 70
    assert [delta.changed for delta in feed.deltas] == [["a"]]


async def test_versions_are_those_of_the_newest_event_even_if_it_is_not_consistent(feed: Feed) -> None:
    feed.send(topic("a"))
    feed.send(topic("a"), consistent=False)
    assert feed.cache.version("topics/a") == 2
    assert feed.cache.version("topics/b") == 0


async def test_a_snapshot_does_not_change_when_the_cluster_does(feed: Feed) -> None:
    feed.send(topic("a"), shard(0, 1))
    before = feed.image
    feed.send(shard(0, 2))
    feed.send((keys.config_key(ConfigResource.TOPIC, "a"), keys.pack(values={"x": "y"})))
    assert (len(before.topics["a"].partitions), before.topic_config("a")) == (1, {})
    assert (len(feed.image.topics["a"].partitions), feed.image.topic_config("a")) == (2, {"x": "y"})


async def test_a_topic_replaced_within_one_event_is_both_deleted_and_changed(feed: Feed) -> None:
    feed.send(topic("a"), shard(0, 1))
    feed.send(topic("a", OTHER), shard(0, 3, OTHER), (shard(0, 1)[0], None))
    assert [old.id for old in feed.deltas[-1].deleted] == [ID]
    assert feed.deltas[-1].changed == ["a"]
    assert list(feed.image.topics_by_id) == [OTHER]
    assert len(feed.image.topics["a"].partitions) == 3


async def test_shards_of_a_deleted_topic_do_not_bring_it_back(feed: Feed) -> None:
    feed.send(topic("a"), shard(0, 1))
    feed.send(("topics/a", None))
    feed.send(shard(0, 2))
    assert (feed.image.topics, feed.image.topics_by_id) == ({}, {})
    assert feed.deltas[-1].changed == []


async def test_a_removed_configuration_is_in_the_delta(feed: Feed) -> None:
    key = keys.config_key(ConfigResource.BROKER, "1")
    feed.send((key, keys.pack(values={"a": "b"})))
    feed.send((key, None))
    assert feed.deltas[-1].configs == [(ConfigResource.BROKER, "1")]
    assert feed.image.config(ConfigResource.BROKER, "1") == {}


async def test_wait_for_ends_when_the_image_has_the_revision() -> None:
    store = MemoryStore()
    cache = MetadataCache(store)
    await cache.start()
    revision = await store.commit([], [Write(*topic("a"))])
    await cache.wait_for(revision)
    assert "a" in cache.image.topics


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b"\xff", b'{"v":2,"id":"x"}'])
async def test_values_that_are_not_kwires_are_refused_with_their_key(value: bytes) -> None:
    with pytest.raises(StoreFormatError, match="topics/a"):
        keys.unpack("topics/a", value)


async def test_access_control_entries_are_the_same_object_until_one_changes(feed: Feed) -> None:
    binding = AclBinding(
        ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.READ, PermissionType.ALLOW
    )
    feed.send((acl_key(binding), pack_acl(binding)))
    first = feed.image.acls
    assert list(first.values()) == [binding]
    feed.send(topic("other"))
    assert feed.image.acls is first
    feed.send((acl_key(binding), None))
    assert feed.image.acls == {}
    assert list(first.values()) == [binding]


async def test_a_delta_names_the_partitions_that_changed(feed: Feed) -> None:
    feed.send(topic("a"), shard(0, 64), shard(1, 6))
    assert list(feed.deltas[-1].partitions["a"]) == list(range(70))
    before = feed.image.topics["a"].partitions
    states = [PartitionState((1,), (1,), 1, 0, 0)] * 5 + [PartitionState((1,), (1,), 1, 1, 1)]
    feed.send((keys.shard_key(ID, 1), keys.pack_shard(states)))
    assert feed.deltas[-1].partitions == {"a": [69]}
    after = feed.image.topics["a"].partitions
    assert after[69] == states[5]
    assert all(new is old for new, old in zip(after[:69], before[:69], strict=True))
    feed.send(shard(1, 8))
    assert feed.deltas[-1].partitions == {"a": [69, 70, 71]}


async def test_an_isr_of_all_replicas_is_no_second_tuple(feed: Feed) -> None:
    states = [PartitionState((1, 2), (1, 2), 1, 0, 0), PartitionState((1, 2), (2,), 2, 0, 0)]
    feed.send(topic("a"), (keys.shard_key(ID, 0), keys.pack_shard(states)))
    whole, part = feed.image.topics["a"].partitions
    assert [whole, part] == states
    assert whole.isr is whole.replicas


async def test_names_that_collide_are_found(feed: Feed) -> None:
    feed.send(topic("a.b_c"), topic("a_b.c", OTHER), topic("d_e", b"k" * 16))
    assert feed.cache.collision("a.b.c") in ("a.b_c", "a_b.c")
    assert feed.cache.collision("d.e") == "d_e"
    assert feed.cache.collision("a.b") is None
    feed.send((keys.topic_key("a.b_c"), None))
    assert feed.cache.collision("a_b_c") == "a_b.c"
    feed.send((keys.topic_key("a_b.c"), None))
    assert feed.cache.collision("a_b_c") is None

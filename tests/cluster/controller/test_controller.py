"""The controller's decisions, on the memory store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from harness.waiting import PATIENCE_S
from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller.controller import ChangeConfig, ConfigUpdate, CreatedTopic, NewPartitions
from kwire.cluster.controller.leaders import PREFERRED, UNCLEAN
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.metadata.image import ConfigResource
from kwire.cluster.store import keys
from kwire.cluster.store.memory import MemoryStore
from kwire.cluster.store.store import Check, Write
from tests.cluster.helpers import Node, membership_of, node

TOPIC = ConfigResource.TOPIC


Outcome = CreatedTopic | KafkaError


async def create(
    made: Node, *topics: NewTopic | str, validate_only: bool = False, timeout_ms: int | None = None
) -> dict[str, Outcome]:
    return await made.controller.create_topics(
        [t if isinstance(t, NewTopic) else NewTopic(t) for t in topics],
        validate_only=validate_only,
        timeout_ms=timeout_ms,
    )


def created(outcome: Outcome) -> CreatedTopic:
    assert isinstance(outcome, CreatedTopic)
    return outcome


def code_of(result: object) -> ErrorCode:
    return result.code if isinstance(result, KafkaError) else ErrorCode.NONE


async def test_a_created_topic_is_in_the_image_when_create_topics_returns() -> None:
    made = await node(num_partitions="3")
    result = (await create(made, "a"))["a"]
    assert isinstance(result, CreatedTopic)
    topic = made.image.topics["a"]
    assert (topic.id, len(topic.partitions)) == (result.id, 3)
    assert made.image.topics_by_id[result.id] is topic
    assert topic.partitions[2][:5] == ((1,), (1,), 1, 0, 0)


async def test_topics_larger_than_a_shard_come_back_in_order_from_the_store() -> None:
    made = await node()
    await create(made, NewTopic("a", partitions=150))
    await made.controller.create_partitions([NewPartitions("a", 200)])
    again = await node(made.store, 2, join=False)
    assert again.image.topics == made.image.topics
    assert len(again.image.topics["a"].partitions) == 200


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("ä"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a\n"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("x" * 249), ErrorCode.NONE),
        (NewTopic("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("with_dot"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (NewTopic("a", partitions=0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("a", partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("a", partitions=10_001), ErrorCode.POLICY_VIOLATION),
        (NewTopic("a", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("a", replication_factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("a", partitions=1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("a", replication_factor=1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (NewTopic("a", assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [9])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [1]), (2, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("a", assignments=[(1, [1]), (0, [1])]), ErrorCode.NONE),
    ],
)
async def test_an_impossible_topic_is_refused_with_kafkas_code(topic: NewTopic, code: ErrorCode) -> None:
    made = await node()
    await create(made, "there", "with.dot")
    assert code_of((await create(made, topic))[topic.name]) == code
    assert (topic.name in made.image.topics) == (code == ErrorCode.NONE or topic.name == "there")


async def test_topics_of_one_request_are_independent() -> None:
    made = await node()
    results = await create(made, "a.b", "a_b", NewTopic("bad", partitions=0), "good")
    assert [code_of(results[name]).name for name in ("a.b", "a_b", "bad", "good")] == [
        "NONE",
        "NONE",
        "INVALID_PARTITIONS",
        "NONE",
    ]


async def test_validate_only_creates_nothing() -> None:
    made = await node(num_partitions="4")
    results = await create(made, "a", NewTopic("b", partitions=0), validate_only=True)
    assert (created(results["a"]).partitions, created(results["a"]).replication_factor) == (4, 1)
    assert code_of(results["b"]) == ErrorCode.INVALID_PARTITIONS
    assert made.image.topics == {}


@pytest.mark.parametrize(
    "configs", [{"nonsense": "1"}, {"retention.ms": "abc"}, {"retention.ms": None}, {"segment.bytes": "5"}]
)
async def test_topic_properties_are_validated_before_the_numbers(configs: dict[str, str | None]) -> None:
    made = await node()
    results = await create(made, NewTopic("a", partitions=0, configs=configs), NewTopic("b"))
    assert code_of(results["a"]) == ErrorCode.INVALID_CONFIG
    if None not in configs.values():
        given = {name: value for name, value in configs.items() if value is not None}
        update = ConfigUpdate(TOPIC, "b", lambda old: given)
        assert code_of((await made.controller.alter_configs([update]))[TOPIC, "b"]) == ErrorCode.INVALID_CONFIG


async def test_topic_properties_are_kept() -> None:
    made = await node()
    results = await create(made, NewTopic("b", configs={"retention.ms": "5"}))
    assert created(results["b"]).configs == made.image.topic_config("b") == {"retention.ms": "5"}


async def test_deleting_takes_the_topic_its_shards_and_its_configuration() -> None:
    made = await node()
    outcomes = await create(made, NewTopic("a", partitions=100, configs={"retention.ms": "5"}), "b")
    topic_id = created(outcomes["a"]).id
    results = await made.controller.delete_topics([topic_id, b"x" * 16])
    assert results[topic_id] is None
    assert code_of(results[b"x" * 16]) == ErrorCode.UNKNOWN_TOPIC_ID
    assert list(made.image.topics) == ["b"]
    assert made.image.topic_config("a") == {}
    left = (await made.store.read(""))[1]
    assert [key for key in left if key.startswith((keys.TOPICS, keys.CONFIGS))] == ["topics/b"]
    assert len([key for key in left if key.startswith(keys.PARTITIONS)]) == 1


async def test_a_recreated_topic_has_another_id() -> None:
    made = await node()
    first = created((await create(made, "a"))["a"]).id
    await made.controller.delete_topics([first])
    assert created((await create(made, "a"))["a"]).id != first


@pytest.mark.parametrize(
    ("grow", "code"),
    [
        (NewPartitions("a", 2), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("a", 1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("a", -1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("none", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("a", 4, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("a", 3, [[7]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("a", 3, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("a", 3, [[1]]), ErrorCode.NONE),
        (NewPartitions("a", 70), ErrorCode.NONE),
    ],
)
async def test_partitions_can_only_be_added(grow: NewPartitions, code: ErrorCode) -> None:
    made = await node()
    await create(made, NewTopic("a", partitions=2))
    error = (await made.controller.create_partitions([grow]))[grow.name]
    assert (ErrorCode.NONE if error is None else error.code) == code
    assert len(made.image.topics["a"].partitions) == (2 if error else grow.total)


def setting(name: str, value: str) -> ChangeConfig:
    return lambda old: {**old, name: value}


async def test_concurrent_config_changes_do_not_undo_each_other() -> None:
    made = await node()
    await create(made, "a")
    names = ["retention.ms", "segment.ms", "retention.bytes", "flush.ms", "index.interval.bytes", "segment.index.bytes"]
    await asyncio.gather(
        *(made.controller.alter_configs([ConfigUpdate(TOPIC, "a", setting(name, "10"))]) for name in names)
    )
    assert dict(made.image.topic_config("a")) == dict.fromkeys(names, "10")


async def test_configs_of_any_resource_name_survive_the_store() -> None:
    made = await node()
    name = "grün/%41 ü\x00"
    update = ConfigUpdate(ConfigResource.GROUP, name, lambda old: {"consumer.session.timeout.ms": "50000"})
    everyone = ConfigUpdate(
        ConfigResource.BROKER, "", lambda old: {"log.retention.ms": "1", "min.insync.replicas": "1"}
    )
    assert set((await made.controller.alter_configs([update, everyone])).values()) == {None}
    again = await node(made.store, 2, join=False)
    assert again.image.config(ConfigResource.GROUP, name) == {"consumer.session.timeout.ms": "50000"}
    assert again.image.config(ConfigResource.BROKER, "") == {"log.retention.ms": "1", "min.insync.replicas": "1"}


async def test_configs_of_a_topic_that_does_not_exist_are_refused() -> None:
    made = await node()
    results = await made.controller.alter_configs([ConfigUpdate(TOPIC, "none", lambda old: {"retention.ms": "1"})])
    assert code_of(results[TOPIC, "none"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_producer_id_blocks_never_overlap_not_even_after_a_restart() -> None:
    made = await node()
    blocks = await asyncio.gather(*(made.controller.allocate_producer_ids() for _ in range(5)))
    await made.membership.leave()
    again = await node(made.store)
    blocks.append(await again.controller.allocate_producer_ids())
    assert [(block.start, len(block)) for block in blocks] == [(n * 1000, 1000) for n in range(6)]


async def test_only_the_controller_decides() -> None:
    made = await node()
    other = await node(made.store, 2)
    with pytest.raises(KafkaError) as caught:
        await create(other, "a")
    assert caught.value.code == ErrorCode.NOT_CONTROLLER


async def test_the_store_stops_a_controller_that_has_not_noticed_its_successor() -> None:
    made = await node()
    made.metadata.close()  # it gets no events any more: paused, or cut off
    await made.store.commit([], [Write(keys.CONTROLLER, keys.pack(broker=2, epoch=9))])
    attempt = asyncio.create_task(create(made, "a"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (await made.store.read(keys.TOPICS))[1] == {}
    attempt.cancel()


async def test_a_decision_that_conflicts_with_another_change_is_made_again() -> None:
    made = await node()
    await create(made, "a")
    store = made.store
    commit = store.commit
    conflicting: list[int] = []

    async def commit_second(checks: Sequence[Check], writes: Sequence[Write]) -> int:
        if not conflicting:
            conflicting.append(
                await commit([], [Write(keys.config_key(TOPIC, "a"), keys.pack(values={"segment.ms": "1"}))])
            )
        return await commit(checks, writes)

    store.commit = commit_second  # type: ignore[method-assign]
    await made.controller.alter_configs([ConfigUpdate(TOPIC, "a", lambda old: {**old, "flush.ms": "2"})])
    assert made.image.topic_config("a") == {"segment.ms": "1", "flush.ms": "2"}


async def test_a_store_that_fails_is_a_timeout_for_the_client() -> None:
    made = await node()
    made.store.available = False
    with pytest.raises(KafkaError) as caught:
        await create(made, "a")
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_request_that_waits_longer_than_its_client_times_out() -> None:
    made = await node()
    await made.controller._decisions._turn.acquire()
    with pytest.raises(KafkaError) as caught:
        await create(made, "a", timeout_ms=1)
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
    made.controller._decisions._turn.release()
    assert code_of((await create(made, "b", timeout_ms=5000))["b"]) == ErrorCode.NONE


async def test_a_request_with_timeout_zero_changes_nothing() -> None:
    made = await node()
    with pytest.raises(KafkaError) as caught:
        await create(made, "a", timeout_ms=0)
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert made.image.topics == {}


async def test_auto_creation_gives_internal_topics_their_properties_and_skips_impossible_ones() -> None:
    made = await node(offsets_topic_num_partitions="5", transaction_state_log_replication_factor="3")
    await made.controller.auto_create(["a", "__consumer_offsets", "__transaction_state", "b/d"])
    assert sorted(made.image.topics) == ["__consumer_offsets", "a"]  # the other one needs three brokers
    assert len(made.image.topics["__consumer_offsets"].partitions) == 5
    assert made.image.topic_config("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


async def test_an_election_is_not_needed_if_there_is_a_leader() -> None:
    made = await node()
    await create(made, NewTopic("a", partitions=2))
    for kind in (PREFERRED, UNCLEAN):
        results = await made.controller.leaders.elect_leaders(kind, [("a", 0), ("a", 5), ("none", 0)])
        assert [code_of(error).name for error in results.values()] == [
            "ELECTION_NOT_NEEDED",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]
        assert await made.controller.leaders.elect_leaders(kind, None) == {}


async def test_the_preferred_replica_is_elected_when_another_leads() -> None:
    made = await node()
    await node(made.store, 2)
    topic = created((await create(made, NewTopic("a", assignments=[(0, [1, 2])])))["a"])
    state = keys.PartitionState((1, 2), (1, 2), 2, 1, 1)
    revision = await made.store.commit([], [Write(keys.shard_key(topic.id, 0), keys.pack_shard([state]))])
    await made.metadata.wait_for(revision)
    assert await made.controller.leaders.elect_leaders(PREFERRED, None) == {("a", 0): None}
    assert made.state("a", 0)[:5] == ((1, 2), (1, 2), 1, 2, 2)


async def test_a_new_isr_has_no_fenced_or_leaving_brokers() -> None:
    made = await node()
    second, third = await node(made.store, 2), await node(made.store, 3)
    await second.membership.leave()
    await third.membership.announce_leaving()
    await made.metadata.until(lambda image: set(image.brokers) == {1, 3} and image.brokers[3].leaving, PATIENCE_S)
    result = await create(
        made,
        NewTopic("three", partitions=1, replication_factor=3),
        NewTopic("by-hand", assignments=[(0, [2, 3, 1])]),
        NewTopic("nobody", assignments=[(0, [1]), (1, [2])]),
        NewTopic("four", partitions=1, replication_factor=4),
    )
    assert sorted(made.state("three", 0).replicas) == [1, 2, 3]
    assert made.state("three", 0)[1:5] == ((1,), 1, 0, 0)
    assert made.state("by-hand", 0)[:5] == ((2, 3, 1), (1,), 1, 0, 0)
    assert code_of(result["nobody"]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code_of(result["four"]) == ErrorCode.INVALID_REPLICATION_FACTOR
    more = await made.controller.create_partitions(
        [NewPartitions("three", 2), NewPartitions("nobody", 2), NewPartitions("by-hand", 2, [[2, 3, 4]])]
    )
    assert [code_of(more[name]) for name in ("three", "nobody", "by-hand")] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ]
    assert made.state("three", 1).isr == (1,)


async def test_a_fenced_broker_stays_registered_until_it_is_unregistered() -> None:
    made = await node()
    second = await node(made.store, 2)
    await second.membership.leave()
    assert set(made.image.brokers) == {1}
    assert set(made.image.registered) == {1, 2}
    assert made.image.registered[2].endpoints == second.image.registered[2].endpoints
    await made.controller.unregister_broker(2)
    assert set(made.image.registered) == {1}
    with pytest.raises(KafkaError) as caught:
        await made.controller.unregister_broker(2)
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    await node(made.store, 2)
    assert set(made.image.registered) == set(made.image.brokers) == {1, 2}


async def test_a_running_broker_that_is_unregistered_takes_no_part_until_it_joins_again() -> None:
    made = await node()
    second = await node(made.store, 2)
    await create(made, NewTopic("a", assignments=[(0, [2, 1])]))
    await made.controller.unregister_broker(2)
    await made.controller.leaders.settle_leaders()
    assert made.state("a", 0)[:4] == ((2, 1), (1,), 1, 1)
    assert second.membership.alive
    assert second.membership.broker_epoch == 0
    await second.membership.announce_leaving()
    with pytest.raises(KafkaError) as caught:
        await second.controller.allocate_producer_ids()
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    await made.membership.leave()
    assert not await second.membership.claim_controllership()
    assert set(second.image.brokers) == set()
    await second.membership.leave()
    again = await node(made.store, 2)
    assert again.controller.active


async def test_a_controller_that_is_unregistered_loses_the_controllership() -> None:
    made = await node()
    second = await node(made.store, 2)
    await made.controller.unregister_broker(1)
    assert second.image.controller_id == -1
    assert not await made.membership.claim_controllership()
    assert await second.membership.claim_controllership()
    with pytest.raises(KafkaError) as caught:
        await made.controller.unregister_broker(2)
    assert caught.value.code == ErrorCode.NOT_CONTROLLER


async def test_a_restart_gets_a_higher_broker_epoch_and_new_leader_epochs() -> None:
    made = await node()
    await create(made, "a")
    epoch = made.membership.broker_epoch
    await made.membership.leave()
    assert made.image.brokers == {}
    assert made.image.controller_id == -1
    again = await node(made.store)
    assert again.membership.broker_epoch > epoch > 0
    assert again.state("a", 0)[:5] == ((1,), (1,), 1, 1, 1)
    assert again.image.controller_epoch == 2


async def test_two_live_brokers_cannot_have_one_id() -> None:
    made = await node()
    with pytest.raises(KafkaError) as caught:
        await node(made.store, 1, lease_ms=50)  # it waits two leases for an earlier session to end
    assert caught.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


async def test_another_clusters_data_directory_is_refused() -> None:
    made = await node(join=False)
    assert await made.membership.join(cluster_id="mine") == "mine"
    other = await node(made.store, 2, join=False)
    with pytest.raises(KafkaError) as caught:
        await other.membership.join(cluster_id="other")
    assert caught.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID


async def test_on_loss_is_called_before_the_keys_are_gone() -> None:
    store = MemoryStore()
    made = await node(store, join=False)
    alive: list[bool] = []
    membership = membership_of(made.doors, store, made.metadata, on_loss=lambda: alive.append(membership.alive))
    await membership.join()
    store.expire(next(iter(store.sessions)))
    assert alive == [False]
    assert made.image.brokers == {}

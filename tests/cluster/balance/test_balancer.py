"""Preferred leaders and moves to new brokers, on the memory store."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.waiting import until
from kwire.cluster.balance import balancer as balancing
from kwire.cluster.balance.balancer import Balancer
from kwire.cluster.controller import decisions
from kwire.cluster.controller.controller import TOPIC_WORK, ConfigUpdate
from kwire.cluster.controller.elections import led_by, with_isr
from kwire.cluster.controller.plan import Plan
from kwire.cluster.controller.reassignment import is_moving
from kwire.cluster.controller.topics import NewTopic, Reassignment
from kwire.cluster.even_placement import ReplicaCounts
from kwire.cluster.metadata.image import ConfigResource, TopicImage
from kwire.cluster.replication.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from kwire.cluster.store import keys
from kwire.cluster.store.keys import BalanceState, PartitionState
from tests.cluster.helpers import Node, node

RATES = {LEADER_RATE: "1000", FOLLOWER_RATE: "1000"}


@pytest.fixture(autouse=True)
def no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancing, "SETTLE_S", 0.0)
    monkeypatch.setattr(balancing, "RETRY_S", 0.01)


async def first() -> tuple[Node, Balancer]:
    """The controller of a cluster whose partitions are balanced."""
    made = await node(kwire_balance_enable="true", kwire_balance_throttled_rate="1000")
    balancer = Balancer(made.config, made.controller, made.metadata)
    await until(lambda: made.image.balance.brokers == (1,))
    return made, balancer


async def write(made: Node, topic: str, states: dict[int, PartitionState]) -> None:
    plan = Plan(made.metadata)
    plan.write_states({topic: states})
    assert await plan.commit(made.store)


async def replicate(made: Node, topic: str) -> int:
    """What followers and leaders do: added replicas join the ISR. Returns how many partitions were being moved."""
    moving = {i: s for i, s in enumerate(made.image.topics[topic].partitions) if is_moving(s)}
    changed = {i: with_isr(s, tuple(dict.fromkeys((*s.isr, *s.adding))), 1) for i, s in moving.items()}
    await write(made, topic, changed)
    await made.controller.leaders.settle_leaders([topic])
    return len(moving)


async def cordon(made: Node, broker: int, directories: str) -> None:
    """Set `cordoned.log.dirs` of a broker."""
    values = {"cordoned.log.dirs": directories}
    update = ConfigUpdate(ConfigResource.BROKER, str(broker), lambda _: values)
    assert set((await made.controller.alter_configs([update])).values()) == {None}


def leaders(made: Node, topic: str) -> list[int]:
    return [state.leader for state in made.image.topics[topic].partitions]


async def test_partitions_are_moved_to_a_new_broker_with_a_throttle_that_is_removed() -> None:
    made, balancer = await first()
    await made.controller.create_topics([NewTopic("t", 5)])
    assert leaders(made, "t") == [1] * 5
    await node(made.store, 2)
    await until(lambda: any(map(is_moving, made.image.topics["t"].partitions)))
    assert made.image.config(ConfigResource.BROKER, "1") == made.image.config(ConfigResource.BROKER, "2") == RATES
    assert made.image.topic_config("t") == {LEADER_REPLICAS: "3:1,4:1", FOLLOWER_REPLICAS: "3:2,4:2"}
    assert made.image.balance == BalanceState((1,), ("t",), (1, 2))
    assert await replicate(made, "t") == 2
    await until(lambda: made.image.balance == BalanceState((1, 2)))
    assert leaders(made, "t") == [1, 1, 1, 2, 2]
    assert [state.replicas for state in made.image.topics["t"].partitions] == [(1,), (1,), (1,), (2,), (2,)]
    assert not made.image.topic_config("t")
    assert not made.image.config(ConfigResource.BROKER, "1")
    await balancer.close()


async def test_an_operators_throttles_are_kept() -> None:
    made, balancer = await first()
    await made.controller.create_topics([NewTopic("t", 2)])
    own = {LEADER_RATE: "5", "min.insync.replicas": "1"}
    replicas = {LEADER_REPLICAS: "*"}
    updates = [
        ConfigUpdate(ConfigResource.BROKER, "", lambda _: own),
        ConfigUpdate(ConfigResource.TOPIC, "t", lambda _: replicas),
    ]
    assert set((await made.controller.alter_configs(updates)).values()) == {None}
    await node(made.store, 2)
    await until(lambda: any(map(is_moving, made.image.topics["t"].partitions)))
    assert made.image.balance == BalanceState((1,))
    await replicate(made, "t")
    await until(lambda: made.image.balance.brokers == (1, 2))
    assert made.image.config(ConfigResource.BROKER, "") == own
    assert made.image.topic_config("t") == replicas
    await balancer.close()


async def test_the_next_controller_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balancing, "BATCH", 1)
    made, balancer = await first()
    await made.controller.create_topics([NewTopic("t", 6)])
    second = await node(made.store, 2, kwire_balance_enable="true")
    await until(lambda: any(map(is_moving, made.image.topics["t"].partitions)))
    await balancer.close()
    await made.membership.leave()
    successor = Balancer(second.config, second.controller, second.metadata)
    assert await second.membership.claim_controllership()
    assert second.image.balance.brokers == (1,)  # broker 1 holds partitions and is away
    again = await node(made.store, 1, kwire_balance_enable="true")
    for _ in range(3):
        await until(lambda: any(map(is_moving, second.image.topics["t"].partitions)))
        await replicate(second, "t")
    await until(lambda: second.image.balance == BalanceState((1, 2)))
    assert sorted(state.replicas[0] for state in again.image.topics["t"].partitions) == [1, 1, 1, 2, 2, 2]
    assert not second.image.topic_config("t")
    await successor.close()


async def test_a_broker_that_joins_while_partitions_move_gets_as_many_as_the_others() -> None:
    made, balancer = await first()
    await made.controller.create_topics([NewTopic("t", 6)])
    await node(made.store, 2)
    await until(lambda: any(map(is_moving, made.image.topics["t"].partitions)))
    await node(made.store, 3)
    for _ in range(3):
        await until(
            lambda: any(map(is_moving, made.image.topics["t"].partitions)) or made.image.balance.brokers == (1, 2, 3)
        )
        await replicate(made, "t")
    await until(lambda: made.image.balance == BalanceState((1, 2, 3)))
    assert Counter(state.replicas for state in made.image.topics["t"].partitions) == {(1,): 2, (2,): 2, (3,): 2}
    await balancer.close()


async def test_a_cancelled_move_is_not_begun_again() -> None:
    made, balancer = await first()
    await made.controller.create_topics([NewTopic("t", 2)])
    await node(made.store, 2)
    await until(lambda: any(map(is_moving, made.image.topics["t"].partitions)))
    await made.controller.leaders.alter_partition_reassignments([Reassignment("t", 1, None)])
    await until(lambda: made.image.balance == BalanceState((1, 2)))
    assert leaders(made, "t") == [1, 1]
    await balancer.close()


async def test_what_an_operator_places_is_left_there() -> None:
    made, balancer = await first()
    await node(made.store, 2)
    await until(lambda: made.image.balance.brokers == (1, 2))
    assignments = [(index, (1,)) for index in range(4)]
    await made.controller.create_topics([NewTopic("t", assignments=assignments)])
    await made.membership.announce_leaving()
    await until(lambda: made.image.brokers[1].leaving)
    assert [state.replicas for state in made.image.topics["t"].partitions] == [(1,)] * 4
    assert made.image.balance == BalanceState((1, 2))
    await balancer.close()


async def test_topics_made_while_a_broker_is_away_are_spread_when_it_is_back() -> None:
    made, balancer = await first()
    second = await node(made.store, 2)
    await until(lambda: made.image.balance.brokers == (1, 2))
    await second.membership.leave()
    await until(lambda: 2 not in made.image.brokers)
    await made.controller.create_topics([NewTopic("t", 4)])
    assert leaders(made, "t") == [1] * 4
    assert made.image.balance.brokers == (1,)
    await node(made.store, 2)
    await until(lambda: any(map(is_moving, made.image.topics["t"].partitions)))
    assert await replicate(made, "t") == 2
    await until(lambda: made.image.balance == BalanceState((1, 2)))
    await balancer.close()


async def test_a_cordoned_broker_gets_partitions_once_it_is_released() -> None:
    made, balancer = await first()
    await made.controller.create_topics([NewTopic("t", 4)])
    await cordon(made, 2, "*")
    await node(made.store, 2)
    await until(lambda: 2 in made.image.brokers)
    await node(made.store, 3)
    await until(lambda: any(map(is_moving, made.image.topics["t"].partitions)))
    assert await replicate(made, "t") == 2
    await until(lambda: made.image.balance == BalanceState((1, 3)))
    assert sorted(leaders(made, "t")) == [1, 1, 3, 3]
    await cordon(made, 2, "")
    await until(lambda: any(map(is_moving, made.image.topics["t"].partitions)))
    await replicate(made, "t")
    await until(lambda: made.image.balance == BalanceState((1, 2, 3)))
    assert set(leaders(made, "t")) == {1, 2, 3}
    await balancer.close()


async def test_topics_made_while_a_broker_is_cordoned_are_spread_when_it_is_released() -> None:
    made, balancer = await first()
    await node(made.store, 2)
    await until(lambda: made.image.balance.brokers == (1, 2))
    await cordon(made, 2, "*")
    await made.controller.create_topics([NewTopic("t", 2)])
    assert leaders(made, "t") == [1, 1]
    assert made.image.balance.brokers == (1,)
    await cordon(made, 2, "")
    await until(lambda: any(map(is_moving, made.image.topics["t"].partitions)))
    await replicate(made, "t")
    await until(lambda: made.image.balance == BalanceState((1, 2)))
    await balancer.close()


async def test_a_preferred_leader_that_is_in_sync_again_is_elected() -> None:
    made, balancer = await first()
    await node(made.store, 2)
    await made.controller.create_topics([NewTopic("t", assignments=[(0, (2, 1)), (1, (1, 2))])])
    state = made.state("t", 0)
    await write(made, "t", {0: led_by(state, 1)._replace(isr=(1,))})
    await write(made, "t", {1: led_by(made.state("t", 1), 2)})
    await until(lambda: leaders(made, "t") == [1, 1])  # broker 2 is not in sync in partition 0
    await write(made, "t", {0: made.state("t", 0)._replace(isr=(1, 2))})
    await until(lambda: leaders(made, "t") == [2, 1])
    await balancer.close()


async def test_a_topic_goes_where_every_ready_broker_is_known() -> None:
    """The image may be older than the registration of a broker that is ready."""
    made, balancer = await first()
    await node(made.store, 2)
    await made.controller.create_topics([NewTopic("t", 2)])
    assert sorted(leaders(made, "t")) == [1, 2]
    await balancer.close()


def test_the_stored_value_is_read_back() -> None:
    state = BalanceState((1, 2), ("a", "b"), (2,))
    assert keys.unpack_balance(keys.pack_balance(state)) == state


async def test_creating_topics_counts_each_topic_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for many topics is several decisions, each of which places its topics beside all others."""
    monkeypatch.setattr(decisions, "PART_WORK", 2 * TOPIC_WORK)
    counted: list[str] = []
    add = ReplicaCounts._add

    def noted(counts: ReplicaCounts, topic: TopicImage, number: int) -> None:
        counted.append(topic.name)
        add(counts, topic, number)

    monkeypatch.setattr(ReplicaCounts, "_add", noted)
    made, balancer = await first()
    await node(made.store, 2, kwire_balance_enable="true")
    names = [f"t{number}" for number in range(10)]
    await made.controller.create_topics([NewTopic(name, 1, 1) for name in names])
    await made.controller.create_topics([NewTopic("last", 1, 1)])
    assert counted == names
    led = Counter(topic.partitions[0].leader for topic in made.image.topics.values())
    assert sorted(led.values()) == [5, 6]
    await balancer.close()

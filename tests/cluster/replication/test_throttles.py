"""Throttled replicas and their rates, from the properties of brokers and topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kwire.base.metrics import MetricsRegistry
from kwire.base.quota import UNLIMITED
from kwire.cluster.controller.controller import ConfigUpdate
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.metadata.image import ConfigResource
from kwire.cluster.replication.throttles import ReplicationQuota, Throttles
from tests.cluster.helpers import Node, node

ME = 1


@dataclass(kw_only=True)
class ThrottledNode(Node):
    """A broker with its quotas."""

    throttles: Throttles


async def followed(**properties: Any) -> ThrottledNode:
    plain = await node(**properties)
    made = ThrottledNode(**vars(plain), throttles=Throttles(plain.config, plain.metadata, ME, lambda: 0.0))
    made.throttles.start()
    await made.controller.create_topics([NewTopic("t", partitions=3)])
    return made


async def set_for_topic(made: Node, topic: str = "t", **values: str) -> None:
    texts = {name.replace("_", "."): value for name, value in values.items()}
    outcome = await made.controller.alter_configs(
        [ConfigUpdate(ConfigResource.TOPIC, topic, lambda _: texts)], validate_only=False
    )
    assert set(outcome.values()) == {None}


def throttled(quota: ReplicationQuota) -> list[int]:
    return [index for index in range(3) if quota.is_throttled("t", index)]


async def test_a_star_throttles_every_partition_of_the_topic() -> None:
    made = await followed()
    await set_for_topic(made, leader_replication_throttled_replicas="*")
    assert throttled(made.throttles.leader) == [0, 1, 2]
    assert throttled(made.throttles.follower) == []
    assert not made.throttles.leader.is_throttled("another", 0)


async def test_pairs_throttle_only_the_brokers_they_name() -> None:
    made = await followed()
    await set_for_topic(made, follower_replication_throttled_replicas="0:1,1:2,2:01, 2:3")
    assert throttled(made.throttles.follower) == [0, 2]


async def test_numbers_that_cannot_exist_are_ignored() -> None:
    made = await followed()
    await set_for_topic(made, leader_replication_throttled_replicas=f"{'9' * 9000}:1,1:1,")
    assert throttled(made.throttles.leader) == [1]


async def test_a_removed_property_ends_the_throttling() -> None:
    made = await followed()
    assert made.throttles.leader.idle
    await set_for_topic(made, leader_replication_throttled_replicas="*")
    await set_for_topic(made)
    assert throttled(made.throttles.leader) == []
    assert made.throttles.leader.idle


async def test_a_deleted_topic_is_not_throttled() -> None:
    made = await followed()
    await set_for_topic(made, leader_replication_throttled_replicas="*")
    await made.controller.delete_topics([made.image.topics["t"].id])
    assert made.throttles.leader.idle


async def test_rates_follow_the_dynamic_properties_of_the_broker_and_the_defaults() -> None:
    made = await followed()
    quotas = (made.throttles.leader, made.throttles.follower, made.throttles.log_dirs)
    assert [each.rate for each in quotas] == [UNLIMITED] * 3
    made.config.apply_dynamic(
        {"leader.replication.throttled.rate": "7", "follower.replication.throttled.rate": "8"},
        {"leader.replication.throttled.rate": "9", "replica.alter.log.dirs.io.max.bytes.per.second": "10"},
    )
    assert [each.rate for each in quotas] == [9, 8, 10]
    made.config.apply_dynamic({}, {})
    assert [each.rate for each in quotas] == [UNLIMITED] * 3


async def test_rates_in_the_static_configuration_are_ignored() -> None:
    made = await followed(leader_replication_throttled_rate="5")
    assert made.throttles.leader.rate == UNLIMITED


async def test_the_rates_are_among_the_metrics() -> None:
    made = await followed()
    metrics = MetricsRegistry()
    made.throttles.add_metrics(metrics)
    made.throttles.follower.record(500)
    values = metrics.snapshot()
    assert values["kafka.server:type=FollowerReplication,name=byte-rate"] == 500
    assert values["kafka.server:type=LeaderReplication,name=byte-rate"] == 0
    assert values["kafka.server:type=AlterLogDirsReplication,name=byte-rate"] == 0

"""The admin APIs of three client libraries: their results are the same on both brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until

NewName = Callable[[str], str]


def error_of(future: Any) -> str | None:
    """The name of the error with which a future of confluent-kafka fails."""
    try:
        future.result(30)
    except KafkaException as error:
        return str(error.args[0].name())
    return None


def fill(broker: Broker, topic: str, partitions: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index in range(count):
        producer.produce(topic, b"v%d" % index, partition=index % partitions)
    assert producer.flush(30) == 0


def commit(broker: Broker, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Commit as a consumer that is no member of the group."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, *place) for place in offsets.items()], asynchronous=False)
    consumer.close()


class TestConfluent:
    """librdkafka's admin client."""

    def test_topics(self, admin: Any, topic: str, observe: Observations) -> None:
        new = NewTopic(topic, 2, 1, config={"retention.ms": "5000"})
        observe("validate only", error_of(admin.create_topics([new], validate_only=True)[topic]))
        assert topic not in admin.list_topics(timeout=20).topics
        observe("create", error_of(admin.create_topics([new], operation_timeout=20)[topic]))
        observe("again", error_of(admin.create_topics([new])[topic]))
        observe("too many replicas", error_of(admin.create_topics([NewTopic(f"{topic}-r", 1, 3)])[f"{topic}-r"]))
        observe("more", error_of(admin.create_partitions([NewPartitions(topic, 4)])[topic]))
        observe("fewer", error_of(admin.create_partitions([NewPartitions(topic, 3)])[topic]))
        wait_until(lambda: len(admin.list_topics(topic, timeout=20).topics[topic].partitions) == 4, 20, "4 partitions")
        described = admin.describe_topics(_topics(topic))[topic].result(20)
        shown = [(one.id, one.leader.id, [node.id for node in one.isr]) for one in described.partitions]
        observe("described", [described.name, described.is_internal, shown])
        observe("delete", error_of(admin.delete_topics([topic], operation_timeout=20)[topic]))
        wait_until(lambda: topic not in admin.list_topics(timeout=20).topics, 20, "the topic's end")
        observe("delete again", error_of(admin.delete_topics([topic])[topic]))

    def test_configurations(self, admin: Any, make_topic: Callable[..., str], observe: Observations) -> None:
        topic = make_topic(configs={"cleanup.policy": "compact"})
        resource = ConfigResource(ResourceType.TOPIC, topic)

        def shown() -> dict[str, Any]:
            entries = admin.describe_configs([resource])[resource].result(20).values()
            return {
                one.name: [one.value, one.source, one.is_read_only, one.is_default, one.is_sensitive]
                + [[synonym.name, synonym.value, synonym.source] for synonym in one.synonyms.values()]
                for one in entries
            }

        observe("described", shown())
        change = [
            ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.APPEND),
            ConfigEntry("retention.ms", "1234", incremental_operation=AlterConfigOpType.SET),
        ]
        altered = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=change)
        observe("altered", error_of(admin.incremental_alter_configs([altered])[altered]))
        wait_until(lambda: shown()["retention.ms"][0] == "1234", 20, "the new value")
        observe("described again", shown())
        wrong = [ConfigEntry("retention.ms", "x", incremental_operation=AlterConfigOpType.SET)]
        refused = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=wrong)
        observe("refused", error_of(admin.incremental_alter_configs([refused])[refused]))
        missing = ConfigResource(ResourceType.TOPIC, f"{topic}-missing")
        observe("missing", error_of(admin.describe_configs([missing])[missing]))

    def test_groups(
        self, broker: Broker, admin: Any, make_topic: Callable[..., str], new_name: NewName, observe: Observations
    ) -> None:
        topic, group = make_topic(2), new_name("group")
        commit(broker, group, topic, {0: 4, 1: 2})
        listed = admin.list_consumer_groups().result(20)
        observe(
            "listed", [(one.state.name, one.is_simple_consumer_group) for one in listed.valid if one.group_id == group]
        )
        described = admin.describe_consumer_groups([group])[group].result(20)
        observe("described", [described.state.name, described.partition_assignor, described.members])
        unknown = admin.describe_consumer_groups([f"{group}-unknown"])[f"{group}-unknown"]
        try:
            observe("unknown", unknown.result(20).state.name)
        except KafkaException as error:
            observe("unknown", error.args[0].name())
        change = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
        admin.alter_consumer_group_offsets([change])[group].result(20)
        found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
        observe("offsets", sorted((one.partition, one.offset) for one in found.topic_partitions))
        observe("delete", error_of(admin.delete_consumer_groups([group])[group]))
        observe("delete again", error_of(admin.delete_consumer_groups([group])[group]))

    def test_the_cluster(self, broker: Broker, admin: Any, observe: Observations) -> None:
        described = admin.describe_cluster().result(20)
        nodes = [(node.id, node.rack) for node in described.nodes]
        observe("cluster", [nodes, described.controller.id, len(described.cluster_id)])
        assert f"{described.nodes[0].host}:{described.nodes[0].port}" == broker.bootstrap


def _topics(topic: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection([topic])


class TestKafkaPython:
    """kafka-python's admin client."""

    @pytest.fixture
    def client(self, broker: Broker) -> Iterator[Any]:
        from kafka import KafkaAdminClient

        client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        yield client
        client.close()

    def test_topics(self, client: Any, topic: str, observe: Observations) -> None:
        from kafka.admin import NewPartitions as More
        from kafka.admin import NewTopic as New
        from kafka.errors import KafkaError

        def outcome(call: Callable[[], Any]) -> str:
            try:
                call()
            except KafkaError as error:
                return type(error).__name__
            return "done"

        new = New(name=topic, num_partitions=2, replication_factor=1, topic_configs={"retention.ms": "5000"})
        observe("validate only", outcome(lambda: client.create_topics([new], validate_only=True)))
        observe("create", outcome(lambda: client.create_topics([new])))
        observe("again", outcome(lambda: client.create_topics([new])))
        wait_until(lambda: topic in client.list_topics(), 20, "the topic")
        observe("more", outcome(lambda: client.create_partitions({topic: More(4)})))
        wait_until(lambda: len(client.describe_topics([topic])[0]["partitions"]) == 4, 20, "4 partitions")
        (described,) = client.describe_topics([topic])
        observe("described", [_scalar(one) for one in described["partitions"]])
        observe("delete", outcome(lambda: client.delete_topics([topic])))
        wait_until(lambda: topic not in client.list_topics(), 20, "the topic's end")
        observe("delete again", outcome(lambda: client.delete_topics([topic])))

    def test_configurations(self, client: Any, make_topic: Callable[..., str], observe: Observations) -> None:
        from kafka.admin import ConfigResource as Resource
        from kafka.admin import ConfigResourceType as Type

        topic = make_topic(configs={"max.message.bytes": "2000"})
        observe("all", client.describe_configs([Resource(Type.TOPIC, topic)], config_filter="all"))
        client.alter_configs([Resource(Type.TOPIC, topic, {"retention.bytes": "77"})])
        wait_until(lambda: "77" in str(client.describe_configs([Resource(Type.TOPIC, topic)])), 20, "the new value")
        observe("modified", client.describe_configs([Resource(Type.TOPIC, topic)], include_synonyms=True))
        client.reset_configs([Resource(Type.TOPIC, topic, {"retention.bytes": None})])
        wait_until(lambda: "77" not in str(client.describe_configs([Resource(Type.TOPIC, topic)])), 20, "the old value")
        observe("resources", _resources(client.list_config_resources()))

    def test_groups(
        self, broker: Broker, client: Any, make_topic: Callable[..., str], new_name: NewName, observe: Observations
    ) -> None:
        topic, group = make_topic(2), new_name("group")
        commit(broker, group, topic, {0: 4, 1: 2})
        listed = [one for one in client.list_groups() if one["group_id"] == group]
        observe("listed", listed)
        observe("described", client.describe_groups([group]))
        observe("unknown", client.describe_groups([f"{group}-unknown"]))
        observe("offsets", _by_name(client.list_group_offsets({group: None})))
        observe("deleted", client.delete_groups([group]))

    def test_records_log_dirs_and_producers(
        self, broker: Broker, client: Any, make_topic: Callable[..., str], observe: Observations
    ) -> None:
        from kafka import OffsetSpec
        from kafka import TopicPartition as Partition

        topic = make_topic(2)
        fill(broker, topic, 2, 20)
        observe("deleted", _by_name(client.delete_records({Partition(topic, 0): 4})))
        specs = {Partition(topic, index): OffsetSpec.EARLIEST for index in (0, 1)}
        observe("earliest", _by_name(client.list_partition_offsets(specs)))
        dirs = client.describe_log_dirs(topic_partitions={topic: [0, 1]})
        observe("log dirs", str(dirs).count("'partition_index'") or str(dirs).count("partition"))
        observe("partitions", _without_ids(client.describe_topic_partitions([topic])))

    def test_the_cluster(self, broker: Broker, client: Any, observe: Observations) -> None:
        described = client.describe_cluster()
        assert str(broker.port) in str(described)
        observe("brokers", [one.get("broker_id", one.get("node_id")) for one in described["brokers"]])


def _scalar(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if not name.startswith("_")}


def _resources(found: Any) -> list[str]:
    """Names of the listed resources, without topics, since other tests leave some behind."""
    return sorted(str(one) for one in found if "topic" not in str(one).lower())


def _by_name(found: Any) -> Any:
    if isinstance(found, dict):
        return {str(key): _by_name(value) for key, value in found.items()}
    return found if isinstance(found, int | str | None) else str(found)


def _without_ids(found: Any) -> Any:
    """Remove topic ids, which are random."""
    if isinstance(found, dict):
        return {name: _without_ids(value) for name, value in found.items() if name != "topic_id"}
    if isinstance(found, list):
        return [_without_ids(value) for value in found]
    return found if isinstance(found, int | str | float | None) else str(found)


class TestAioKafka:
    """aiokafka's admin client."""

    @pytest.fixture
    async def client(self, broker: Broker) -> AsyncIterator[Any]:
        from aiokafka.admin import AIOKafkaAdminClient

        client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await client.start()
        yield client
        await client.close()

    async def test_topics(self, client: Any, topic: str, observe: Observations) -> None:
        from aiokafka.admin import NewPartitions as More
        from aiokafka.admin import NewTopic as New

        created = await client.create_topics([New(topic, num_partitions=1, replication_factor=1)])
        observe("created", [tuple(one)[:2] for one in created.topic_errors])
        again = await client.create_topics([New(topic, num_partitions=1, replication_factor=1)])
        observe("again", [tuple(one)[:2] for one in again.topic_errors])
        more = await client.create_partitions({topic: More(3)})
        observe("more", [tuple(one)[:2] for one in more.topic_errors])
        deleted = await client.delete_topics([topic])
        observe("deleted", [tuple(one)[:2] for one in deleted.topic_error_codes])

    async def test_configurations(self, client: Any, make_topic: Callable[..., str], observe: Observations) -> None:
        from aiokafka.admin.config_resource import ConfigResource as Resource
        from aiokafka.admin.config_resource import ConfigResourceType as Type

        topic = make_topic(configs={"max.message.bytes": "2000"})
        (described,) = await client.describe_configs([Resource(Type.TOPIC, topic)], include_synonyms=True)
        observe("described", [[*one[:4], sorted(one[4])] for one in map(tuple, described.resources)])
        (altered,) = await client.alter_configs([Resource(Type.TOPIC, topic, {"retention.ms": "9"})])
        observe("altered", [next(iter(one)) for one in altered.resources])

    async def test_groups_and_the_cluster(
        self,
        broker: Broker,
        client: Any,
        make_topic: Callable[..., str],
        new_name: NewName,
        observe: Observations,
    ) -> None:
        topic, group = make_topic(1), new_name("group")
        commit(broker, group, topic, {0: 4})
        observe("listed", [one for one in await client.list_consumer_groups() if one[0] == group])
        (described,) = await client.describe_consumer_groups([group])
        observe("described", repr(described.groups))
        offsets = await client.list_consumer_group_offsets(group)
        observe("offsets", {str(place): [one.offset, one.metadata] for place, one in offsets.items()})
        observe("coordinator", await client.find_coordinator(group))
        cluster = await client.describe_cluster()
        assert [one["port"] for one in cluster["brokers"]] == [broker.port]

"""Topics: their list, sizes, one of them with its partitions and configurations, and its producers."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kwire.base.uuids import uuid_to_text
from kwire.cli.configs.requests import SOURCES, TYPES, is_own
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codec.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kwire.console.api.sizes import bytes_of_leaders, log_dirs, of_brokers, offsets
from kwire.console.calls import Call
from kwire.console.failures import bad_request
from kwire.console.records.places import topic_metadata

NAMES_MAX: Final = 100
"""Topics whose sizes are asked at once."""


class TopicRow(NamedTuple):
    """A topic of the list. ``under_replicated``, ``offline``: numbers of partitions."""

    name: str
    partitions: int
    replication_factor: int
    internal: bool
    under_replicated: int
    offline: int


class TopicSize(NamedTuple):
    """What a topic holds: offsets between first and end, and bytes of its leaders. None: not all brokers answer."""

    name: str
    records: int | None
    bytes: int | None


class PartitionRow(NamedTuple):
    """A partition. ``leader``, ``start``, ``end``, ``bytes``: None without a leader that answers."""

    partition: int
    leader: int | None
    epoch: int
    replicas: list[int]
    isr: list[int]
    start: int | None
    end: int | None
    bytes: int | None


class ConfigRow(NamedTuple):
    """A configuration. ``default``: it was not set for this resource itself. ``value``: None if it is sensitive."""

    name: str
    value: str | None
    default: bool
    source: str
    sensitive: bool
    read_only: bool
    documentation: str | None


class Topic(NamedTuple):
    """A topic. ``configs``: None if they cannot be had, and ``configs_error`` says why."""

    name: str
    id: str
    internal: bool
    partitions: list[PartitionRow]
    configs: list[ConfigRow] | None
    configs_error: str | None


class ProducerRow(NamedTuple):
    """A producer of a partition. ``transaction_start``: the first offset of its open transaction, or None."""

    partition: int
    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start: int | None


async def list_topics(cluster: Cluster, call: Call) -> list[TopicRow]:
    """All topics in alphabetical order, from one Metadata response."""
    metadata = await cluster.metadata()
    rows = []
    for topic in metadata.topics:
        if topic.error_code:
            continue
        replicas = [len(each.replica_nodes) for each in topic.partitions]
        behind = sum(len(each.isr_nodes) < len(each.replica_nodes) for each in topic.partitions)
        offline = sum(each.leader_id < 0 for each in topic.partitions)
        rows.append(TopicRow(topic.name, len(replicas), max(replicas, default=0), topic.is_internal, behind, offline))
    return sorted(rows)


async def sizes(cluster: Cluster, call: Call) -> list[TopicSize]:
    """The sizes of some topics (``names``, with commas between them); without those that do not exist."""
    names = [name for name in call.query["names"].split(",") if name]
    if len(names) > NAMES_MAX:
        raise bad_request(f"names: {len(names)} topics, of which {NAMES_MAX} are asked at once")
    if not names:
        return []
    topics = [each for each in (await cluster.metadata(names)).topics if not each.error_code]
    found = await offsets(cluster, topics)
    held = bytes_of_leaders(topics, await log_dirs(cluster, topics))
    rows = []
    for topic in topics:
        here = [(topic.name, each.partition_index) for each in topic.partitions]
        records = sum(found[each][1] - found[each][0] for each in here) if all(each in found for each in here) else None
        size = sum(held[each] for each in here) if all(each in held for each in here) else None
        rows.append(TopicSize(topic.name, records, size))
    return rows


async def one_topic(cluster: Cluster, call: Call) -> Topic:
    """A topic with its partitions and configurations. `CommandError`."""
    topic = await topic_metadata(cluster, call.path["topic"])
    found = await offsets(cluster, [topic])
    held = bytes_of_leaders([topic], await log_dirs(cluster, [topic]))
    rows = []
    for each in sorted(topic.partitions, key=lambda each: int(each.partition_index)):
        here = (topic.name, each.partition_index)
        start, end = found.get(here, (None, None))
        leader = each.leader_id if each.leader_id >= 0 else None
        replicas, isr = list(each.replica_nodes), list(each.isr_nodes)
        rows.append(
            PartitionRow(each.partition_index, leader, each.leader_epoch, replicas, isr, start, end, held.get(here))
        )
    configs, reason = None, None
    try:
        configs = await configurations(cluster, "topic", topic.name)
    except CommandError as error:
        reason = str(error)
    return Topic(topic.name, uuid_to_text(topic.topic_id), topic.is_internal, rows, configs, reason)


async def configurations(cluster: Cluster, kind: str, name: str, node: int | None = None) -> list[ConfigRow]:
    """The configurations of a resource, with their documentation. `CommandError`."""
    resource = DescribeConfigsResource(resource_type=TYPES[kind], resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_documentation=True)
    [result] = (await cluster.call(request, node)).results
    check(result.error_code, f"{kind} {name}", result.error_message)
    rows = []
    for each in result.configs:
        source = each.config_source
        words = SOURCES[source] if 0 <= source < len(SOURCES) else str(source)
        own = is_own(kind, each)
        rows.append(
            ConfigRow(each.name, each.value, not own, words, each.is_sensitive, each.read_only, each.documentation)
        )
    return sorted(rows)


async def producers(cluster: Cluster, call: Call) -> list[ProducerRow]:
    """The producers that the leaders of a topic's partitions know. `CommandError`."""
    topic = await topic_metadata(cluster, call.path["topic"])
    by_leader: dict[int, list[int]] = {}
    for each in topic.partitions:
        if each.leader_id >= 0:
            by_leader.setdefault(each.leader_id, []).append(each.partition_index)
    requests = [
        (node, DescribeProducersRequest(topics=[TopicRequest(name=topic.name, partition_indexes=indexes)]))
        for node, indexes in by_leader.items()
    ]
    rows = []
    for answer in (await of_brokers(cluster, requests)).values():
        for result in answer.topics:
            for partition in result.partitions:
                check(partition.error_code, f"{result.name}-{partition.partition_index}", partition.error_message)
                rows += [_producer(partition.partition_index, each) for each in partition.active_producers]
    return sorted(rows)


def _producer(partition: int, producer: Any) -> ProducerRow:
    start, epoch = producer.current_txn_start_offset, producer.coordinator_epoch
    return ProducerRow(
        partition,
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_timestamp,
        epoch if epoch >= 0 else None,
        start if start >= 0 else None,
    )

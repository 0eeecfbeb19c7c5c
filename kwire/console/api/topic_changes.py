"""What the page changes in topics: it creates, enlarges, configures and deletes them, and writes messages."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli.configs.requests import DELETE, SET, Change, alter_resource
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import leaders
from kwire.cli.records.json_lines import Parsed, parse_line
from kwire.cli.records.writing.encoding import Rows, encode_batch
from kwire.cli.records.writing.partitioner import Partitioner
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.console.calls import Call
from kwire.console.failures import Refusal, bad_request, unknown
from kwire.console.records.places import topic_metadata

_PRODUCE_VERSION: Final = 12
"""The last version of Produce that names topics; those after it have their ids."""
_MESSAGE_FIELDS: Final = ("key", "value", "headers", "partition")


class Created(NamedTuple):
    """A new topic."""

    name: str
    partitions: int
    replication_factor: int


class Written(NamedTuple):
    """Where a message has been written."""

    partition: int
    offset: int


async def create_topic(cluster: Cluster, call: Call) -> Created:
    """Create a topic; -1 partitions or replicas: as many as the cluster's default. `CommandError`, `Refusal`."""
    name = call.field("name", str)
    topic = CreatableTopic(
        name=name,
        num_partitions=_count(call, "partitions"),
        replication_factor=_count(call, "replication_factor"),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in _configs(call, "configs").items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=call.timeout_ms)

    async def attempt() -> Any:
        [result] = (await cluster.call(request)).topics
        check(result.error_code, f"topic {name}", result.error_message)
        return result

    made = await cluster.until_done(attempt)
    return Created(made.name, made.num_partitions, made.replication_factor)


async def delete_topic(cluster: Cluster, call: Call) -> dict[str, str]:
    """Delete a topic. `CommandError`."""
    name = call.path["topic"]
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=call.timeout_ms)

    async def attempt() -> None:
        [result] = (await cluster.call(request)).responses
        check(result.error_code, f"topic {name}", result.error_message)

    await cluster.until_done(attempt)
    return {"name": name}


async def add_partitions(cluster: Cluster, call: Call) -> dict[str, Any]:
    """Let a topic have ``count`` partitions. `CommandError`, `Refusal`."""
    name, count = call.path["topic"], call.field("count", int)
    if not 0 < count < 2**31:
        raise bad_request(f"count={count}: not a number of partitions")
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=call.timeout_ms)

    async def attempt() -> None:
        [result] = (await cluster.call(request)).results
        check(result.error_code, f"topic {name}", result.error_message)

    await cluster.until_done(attempt)
    return {"name": name, "partitions": count}


async def alter_configs(cluster: Cluster, call: Call) -> dict[str, Any]:
    """Set configurations of a topic, and take others back. `CommandError`, `Refusal`."""
    name, values, removed = call.path["topic"], _configs(call, "set"), call.field("delete", list, [])
    if not all(isinstance(each, str) for each in removed):
        raise bad_request("the field delete is not a list of names")
    changes = [Change(key, SET, value) for key, value in values.items()]
    changes += [Change(key, DELETE, None) for key in removed]
    if not changes:
        raise bad_request("nothing to change: the body has set or delete")
    await alter_resource(cluster, "topic", name, changes)
    return {"name": name, "set": values, "delete": removed}


def _count(call: Call, name: str) -> int:
    count: int = call.field(name, int, -1)
    if count != -1 and not 0 < count < (2**31 if name == "partitions" else 2**15):
        raise bad_request(f"{name}={count}: not a positive number")
    return count


def _configs(call: Call, name: str) -> Mapping[str, str]:
    """Configurations by name; numbers and booleans as Kafka writes them."""
    found = {}
    for key, value in call.field(name, dict, {}).items():
        if isinstance(value, dict | list | None):
            raise bad_request(f"{name}: {key} has neither a text nor a number")
        found[key] = value if isinstance(value, str) else json.dumps(value)
    return found


async def write_message(cluster: Cluster, call: Call) -> Written:
    """Write a message; without ``partition`` where Kafka's clients would. `CommandError`, `Refusal`."""
    name = call.path["topic"]
    parsed = _message(call)
    count = len((await topic_metadata(cluster, name)).partitions)
    if parsed.partition is not None and parsed.partition >= count:
        raise unknown("partition", f"topic {name} has no partition {parsed.partition}")
    partition = _partition(parsed, count)
    now_ms = time.time_ns() // 1_000_000
    headers: Sequence[Any] = [parsed.headers]
    content = encode_batch(Rows([parsed.value], [parsed.key], headers), now_ms)
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=partition, records=content)])
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=call.timeout_ms, topic_data=[data])

    async def attempt() -> int:
        [leader] = await leaders(cluster, [(name, partition)])
        try:
            [topic] = (await cluster.call(request, leader, _PRODUCE_VERSION)).responses
        except CommandError as error:
            if error.code == ErrorCode.NETWORK_EXCEPTION:  # another attempt might write it twice
                raise Refusal(504, "timeout", f"{error}: the message may or may not be written") from None
            raise
        [result] = topic.partition_responses
        check(result.error_code, f"{name}-{partition}", result.error_message)
        return int(result.base_offset)

    return Written(partition, await cluster.until_done(attempt))


def _message(call: Call) -> Parsed:
    """The message of a body, as a line of `kwire produce --input jsonl`. `Refusal`."""
    if not isinstance(call.body, dict):
        raise bad_request("the body is not a JSON object")
    fields = {key: value for key, value in call.body.items() if key in _MESSAGE_FIELDS}
    try:
        return parse_line(json.dumps(fields).encode())
    except ValueError as error:
        raise bad_request(f"the message {error}") from None


def _partition(parsed: Parsed, count: int) -> int:
    if parsed.partition is not None:
        return parsed.partition
    return Partitioner(count).partitions([parsed.key])[0]

"""Topics for tests, created with Kafka's own requests."""

from __future__ import annotations

import time
from collections.abc import Mapping

from kwire.base.errors import ErrorCode
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.testing.blocking_client import BlockingClient

_CREATE_TOPICS_VERSION = 5
_METADATA_VERSION = 9


class TopicError(Exception):
    """The topic was not created, or has no leaders in time; the text gives the reason."""


def create_topic(
    bootstrap_server: str,
    name: str,
    partitions: int,
    config: Mapping[str, str],
    timeout_s: float,
    properties: Mapping[str, str] | None = None,
) -> None:
    """Create a topic with the broker's default replication factor, and wait until its partitions have leaders.
    ``properties``: those of a client, for a secured broker.

    `TopicError` if the broker refuses it or the leaders take longer than ``timeout_s``.
    """
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=int(timeout_s * 1000))
    with BlockingClient(bootstrap_server, properties=properties) as client:
        result = client.call(request, _CREATE_TOPICS_VERSION).topics[0]
        if result.error_code:
            reason = f": {result.error_message}" if result.error_message else ""
            raise TopicError(f"{name}: {ErrorCode(result.error_code).name}{reason}")
        _await_leaders(client, name, partitions, timeout_s)


def _await_leaders(client: BlockingClient, name: str, partitions: int, timeout_s: float) -> None:
    """A single kwire broker responds to CreateTopics once the partitions have leaders; Apache Kafka, and any cluster,
    may respond a little earlier."""
    deadline = time.monotonic() + timeout_s
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    while True:
        topic = client.call(request, _METADATA_VERSION).topics[0]
        led = sum(each.leader_id >= 0 and not each.error_code for each in topic.partitions)
        if led == partitions:
            return
        if time.monotonic() > deadline:
            raise TopicError(f"{name}: {led} of {partitions} partitions have a leader after {timeout_s:g} s")
        time.sleep(0.01)

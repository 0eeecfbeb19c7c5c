"""Topics for tests, made with Kafka's own requests."""

from __future__ import annotations

import time
from collections.abc import Mapping

from kwire.base.errors import ErrorCode
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.testing.wire import call

_CREATE_TOPICS_VERSION = 5
_METADATA_VERSION = 9


class TopicError(Exception):
    """The broker refused to make a topic; the text has its reason."""


def create_topic(
    bootstrap_server: str, name: str, partitions: int, config: Mapping[str, str], timeout_s: float
) -> None:
    """Make a topic with the broker's default replication factor, and wait until its partitions are led."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=int(timeout_s * 1000))
    result = call(bootstrap_server, request, _CREATE_TOPICS_VERSION).topics[0]
    if result.error_code:
        reason = f": {result.error_message}" if result.error_message else ""
        raise TopicError(f"{name}: {ErrorCode(result.error_code).name}{reason}")
    _await_leaders(bootstrap_server, name, partitions, timeout_s)


def _await_leaders(bootstrap_server: str, name: str, partitions: int, timeout_s: float) -> None:
    """kwire answers CreateTopics when the topic is led; Apache Kafka, and every cluster, a little before."""
    deadline = time.monotonic() + timeout_s
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    while True:
        topic = call(bootstrap_server, request, _METADATA_VERSION).topics[0]
        led = sum(each.leader_id >= 0 and not each.error_code for each in topic.partitions)
        if led == partitions:
            return
        if time.monotonic() > deadline:
            raise TopicError(f"{name}: {led} of {partitions} partitions have a leader after {timeout_s:g} s")
        time.sleep(0.01)

"""Raw administration requests: building them, and the parts of a response that must be equal on both brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.processes.brokers import wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic

# Fields that differ between the brokers, or may: ids, messages for people, addresses.
VARIABLE = frozenset({"topic_id", "error_message", "port", "cluster_id", "throttle_time_ms", "unknown_tags"})


def facts(message: Any, *, leave_out: frozenset[str] | set[str] = frozenset()) -> Any:
    """A message as plain data, without the fields that may differ."""
    if isinstance(message, list):
        return [facts(item, leave_out=leave_out) for item in message]
    slots = [name for kind in type(message).__mro__ for name in getattr(kind, "__slots__", ())]
    if not slots or isinstance(message, int | str | bytes):
        return message
    hidden = VARIABLE | leave_out
    return {name: facts(getattr(message, name), leave_out=leave_out) for name in slots if name not in hidden}


def new_topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    assignments: Sequence[tuple[int, list[int]]] = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> CreatableTopic:
    """One topic of a CreateTopics request; with assignments, both numbers should be -1."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in assignments],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


TopicReference = str | bytes | tuple[str | None, bytes]
"""A topic by its name, by its id, or by both."""


def name_and_id(topic: TopicReference) -> dict[str, Any]:
    """The fields of a request that refer to a topic."""
    if isinstance(topic, str):
        return {"name": topic}
    name, topic_id = (None, topic) if isinstance(topic, bytes) else topic
    return {"name": name, "topic_id": topic_id}


class Wire:
    """A connection that reopens after the broker has closed it."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._client = WireClient(bootstrap)

    def call(self, request: Any, version: int) -> Any:
        """The response, or the text "closed" if the broker closed the connection instead."""
        try:
            return self._client.call(request, version)
        except ConnectionError:
            self._client.close()
            self._client = WireClient(self._bootstrap)
            return "closed"

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def create(self, *topics: CreatableTopic, version: int = 7, timeout_ms: int = 10_000, **fields: Any) -> Any:
        """The results of CreateTopics by name, once Metadata has the topics (with Apache Kafka a moment later)."""
        request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, **fields)
        results = self.call(request, version).topics
        assert len({result.name for result in results}) == len(results)
        if not fields.get("validate_only"):
            self.await_topics(*(result.name for result in results if not result.error_code))
        return {result.name: result for result in results}

    def await_topics(self, *names: str, partitions: int = 1) -> None:
        """Wait until Metadata has the topics with at least ``partitions`` partitions, each with a leader."""

        def there() -> bool:
            return all(
                len(topic["partitions"]) >= partitions and not any(each["error_code"] for each in topic["partitions"])
                for topic in self.describe(*names).values()
            )

        wait_until(there, 10, f"{names} in Metadata")

    def codes(self, *topics: CreatableTopic, **options: Any) -> dict[str, int]:
        """The error codes of CreateTopics by name."""
        return {name: result.error_code for name, result in self.create(*topics, **options).items()}

    def describe(self, *names: str, version: int = 13, **fields: Any) -> dict[str, Any]:
        """The topics in Metadata by name, without automatic creation."""
        topics = [MetadataRequestTopic(name=name) for name in names]
        options: dict[str, Any] = {"allow_auto_topic_creation": False} if version >= 4 else {}
        response = self.call(MetadataRequest(topics=topics, **options, **fields), version)
        return {topic.name: facts(topic) for topic in response.topics}

    def id_of(self, name: str) -> bytes:
        """The id of a topic in Metadata."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        return bytes(self.call(request, 13).topics[0].topic_id)


def by_key(items: Sequence[Any], *keys: str) -> list[Any]:
    """Sorted by some fields, since no order is promised."""
    return sorted(items, key=lambda item: tuple(str(getattr(item, key)) for key in keys))

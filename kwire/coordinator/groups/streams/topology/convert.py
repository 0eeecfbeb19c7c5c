"""Topologies from StreamsGroupHeartbeat, from and to the record StreamsGroupTopology, and in StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.codec.messages import streams_group_describe_response as described
from kwire.codec.messages import streams_group_heartbeat_request as sent
from kwire.codec.messages import streams_group_topology_value as stored
from kwire.coordinator.groups.streams.topology.configured import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    InternalTopic,
)
from kwire.coordinator.groups.streams.topology.faults import impossible
from kwire.coordinator.groups.streams.topology.model import (
    CopartitionGroup,
    StreamsTopology,
    Subtopology,
    TopicInfo,
)
from kwire.coordinator.runtime.java_hash import string_order


def from_heartbeat(topology: sent.Topology) -> StreamsTopology:
    """The topology in a request. Raises UNKNOWN_SERVER_ERROR if its epoch is negative or an id is there twice."""
    return _topology(topology.epoch, topology.subtopologies)


def from_record(value: stored.StreamsGroupTopologyValue) -> StreamsTopology:
    """The topology in a record, with the same errors."""
    return _topology(value.epoch, value.subtopologies)


def to_record(topology: StreamsTopology) -> stored.StreamsGroupTopologyValue:
    """The value of the record, with everything in the order in which it was sent."""
    return stored.StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            stored.Subtopology(
                subtopology_id=one.id,
                source_topics=list(one.source_topics),
                source_topic_regex=list(one.source_topic_regex),
                state_changelog_topics=[_stored_topic(topic) for topic in one.state_changelog_topics],
                repartition_sink_topics=list(one.repartition_sink_topics),
                repartition_source_topics=[_stored_topic(topic) for topic in one.repartition_source_topics],
                copartition_groups=[
                    stored.CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in one.copartition_groups
                ],
            )
            for one in topology.subtopologies.values()
        ],
    )


def describe(topology: StreamsTopology, configured: ConfiguredTopology | None) -> described.Topology:
    """The topology in StreamsGroupDescribe, sorted: with the real numbers of partitions if it is ready, otherwise as
    it was sent."""
    if configured is not None and configured.problem is None and configured.subtopologies is not None:
        subtopologies = [_describe_configured(one, each) for one, each in configured.subtopologies.items()]
        return described.Topology(epoch=configured.epoch, subtopologies=subtopologies)
    ordered = [topology.subtopologies[one] for one in sorted(topology.subtopologies, key=string_order)]
    return described.Topology(epoch=topology.epoch, subtopologies=[_describe_sent(each) for each in ordered])


def _topology(epoch: int, subtopologies: Iterable[sent.Subtopology | stored.Subtopology]) -> StreamsTopology:
    if epoch < 0:
        raise impossible(f"The topology epoch {epoch} is negative.")
    found: dict[str, Subtopology] = {}
    for one in subtopologies:
        if one.subtopology_id in found:
            raise impossible(f"The topology has the subtopology {one.subtopology_id} twice.")
        found[one.subtopology_id] = _subtopology(one)
    return StreamsTopology(epoch, found)


def _subtopology(one: sent.Subtopology | stored.Subtopology) -> Subtopology:
    return Subtopology(
        one.subtopology_id,
        tuple(one.source_topics),
        tuple(one.source_topic_regex),
        tuple(_topic(topic) for topic in one.state_changelog_topics),
        tuple(one.repartition_sink_topics),
        tuple(_topic(topic) for topic in one.repartition_source_topics),
        tuple(
            CopartitionGroup(
                tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
            )
            for group in one.copartition_groups
        ),
    )


def _topic(topic: sent.TopicInfo | stored.TopicInfo) -> TopicInfo:
    configs = tuple((config.key, config.value) for config in topic.topic_configs)
    return TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def _stored_topic(topic: TopicInfo) -> stored.TopicInfo:
    return stored.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[stored.TopicConfig(key=key, value=value) for key, value in topic.configs],
    )


def _describe_sent(one: Subtopology) -> described.Subtopology:
    return described.Subtopology(
        subtopology_id=one.id,
        source_topics=sorted(one.source_topics, key=string_order),
        repartition_sink_topics=sorted(one.repartition_sink_topics, key=string_order),
        state_changelog_topics=_described_topics(one.state_changelog_topics),
        repartition_source_topics=_described_topics(one.repartition_source_topics),
    )


def _describe_configured(subtopology_id: str, one: ConfiguredSubtopology) -> described.Subtopology:
    return described.Subtopology(
        subtopology_id=subtopology_id,
        source_topics=sorted(one.source_topics, key=string_order),
        repartition_sink_topics=sorted(one.repartition_sink_topics, key=string_order),
        state_changelog_topics=_described_topics(map(_as_sent, one.state_changelog_topics.values())),
        repartition_source_topics=_described_topics(map(_as_sent, one.repartition_source_topics.values())),
    )


def _as_sent(topic: InternalTopic) -> TopicInfo:
    return TopicInfo(topic.name, topic.partitions, topic.replication_factor, tuple(topic.configs.items()))


def _described_topics(topics: Iterable[TopicInfo]) -> list[described.TopicInfo]:
    return [
        described.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[described.KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics, key=lambda topic: string_order(topic.name))
    ]

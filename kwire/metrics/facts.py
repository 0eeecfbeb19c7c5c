"""Facts of partitions, topics and groups as series: under Kafka's MBeans' names, and under those of kafka-exporter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kwire import __version__
from kwire.metrics.mbeans import Sample

Ends = Mapping[tuple[str, int], int]


def gauge(name: str, labels: Mapping[str, str], value: float) -> Sample:
    """A sample of a gauge."""
    return Sample(name, "gauge", "", labels, value)


def of_partition(row: list[Any]) -> Iterator[Sample]:
    """The series of a replica (`kwire.server.metrics_endpoint.snapshot`)."""
    topic, index, size, segments, start, end, stable, high = row[1:9]
    labels = {"topic": topic, "partition": str(index)}
    for name, value in (("size", size), ("numlogsegments", segments), ("logstartoffset", start), ("logendoffset", end)):
        yield gauge(f"kafka_log_log_{name}", labels, value)
    if len(row) <= 9:
        return
    replicas, in_sync, minimum = row[9:]
    for name, value in (
        ("replicascount", replicas),
        ("insyncreplicascount", in_sync),
        ("underreplicated", int(in_sync < replicas)),
        ("underminisr", int(in_sync < minimum)),
        ("atminisr", int(in_sync == minimum)),
        ("laststableoffsetlag", max(high - stable, 0)),
    ):
        yield gauge(f"kafka_cluster_partition_{name}", labels, value)
    yield gauge("kafka_topic_partition_current_offset", labels, high)
    yield gauge("kafka_topic_partition_oldest_offset", labels, start)


def of_topic(row: list[Any]) -> Iterator[Sample]:
    """kafka-exporter's series of a topic of the cluster."""
    topic, partitions = row[1:]
    yield gauge("kafka_topic_partitions", {"topic": topic}, len(partitions))
    for index, (leader, preferred, replicas, in_sync) in enumerate(partitions):
        labels = {"topic": topic, "partition": str(index)}
        for name, value in (
            ("leader", leader),
            ("leader_is_preferred", int(leader == preferred)),
            ("replicas", replicas),
            ("in_sync_replica", in_sync),
            ("under_replicated_partition", int(in_sync < replicas)),
        ):
            yield gauge(f"kafka_topic_partition_{name}", labels, value)


def of_group(row: list[Any], ends: Ends) -> Iterator[Sample]:
    """kafka-exporter's series of a group, from its coordinator. Without a leader in ``ends`` a partition has no lag."""
    group, members, offsets = row[1:]
    yield gauge("kafka_consumergroup_members", {"consumergroup": group}, members)
    sums: dict[str, list[int]] = {}
    for topic, index, offset in offsets:
        labels = {"consumergroup": group, "topic": topic, "partition": str(index)}
        yield gauge("kafka_consumergroup_current_offset", labels, offset)
        total = sums.setdefault(topic, [0, 0])
        total[0] += offset
        if (topic, index) in ends:
            lag = max(ends[topic, index] - offset, 0)
            total[1] += lag
            yield gauge("kafka_consumergroup_lag", labels, lag)
    for topic, (offset, lag) in sums.items():
        labels = {"consumergroup": group, "topic": topic}
        yield gauge("kafka_consumergroup_current_offset_sum", labels, offset)
        yield gauge("kafka_consumergroup_lag_sum", labels, lag)


def of_broker(facts: Mapping[str, Any]) -> Iterator[Sample]:
    """kafka-exporter's series of the cluster, as a broker sees it. All brokers with their addresses: from one of them.

    Strimzi's dashboard of kafka-exporter takes its variables from `kafka_exporter_build_info`.
    """
    yield gauge("kafka_exporter_build_info", {"version": __version__}, 1)
    yield gauge("kafka_brokers", {}, facts["brokers"])
    for broker_id, address in facts["addresses"]:
        yield gauge("kafka_broker_info", {"id": str(broker_id), "address": address}, 1)


def ends_of(rows: Sequence[list[Any]]) -> dict[tuple[str, int], int]:
    """The high watermarks of partitions: as their leaders have them, or else as brokers were told by leaders."""
    told = {(row[1], index): end for row in rows if row[0] == "end" for index, end in row[2]}
    return told | {(row[1], row[2]): row[8] for row in rows if row[0] == "partition" and len(row) > 9}

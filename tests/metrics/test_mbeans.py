"""Kafka's MBeans have the names that the JMX exporter's example for KRaft gives them."""

from __future__ import annotations

import pytest

from kwire.metrics.mbeans import parse, samples

METER = {"Count": 7, "MeanRate": 0.5}


@pytest.mark.parametrize(
    ("name", "value", "series", "labels"),
    [
        (
            "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec",
            METER,
            "kafka_server_brokertopicmetrics_messagesin_total",
            {},
        ),
        (
            "kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=o.r-d",
            METER,
            "kafka_server_brokertopicmetrics_bytesin_total",
            {"topic": "o.r-d"},
        ),
        (
            "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Produce,version=12",
            METER,
            "kafka_network_requestmetrics_requests_total",
            {"request": "Produce", "version": "12"},
        ),
        (
            "kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions",
            7,
            "kafka_server_replicamanager_underreplicatedpartitions",
            {},
        ),
        (
            "kafka.coordinator.group:type=GroupMetadataManager,name=NumGroups",
            7,
            "kafka_coordinator_group_groupmetadatamanager_numgroups",
            {},
        ),
        (
            "kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory=/a,b/c=d",
            7,
            "kafka_log_logmanager_logdirectoryoffline",
            {"logDirectory": "/a,b/c=d"},
        ),
        (
            "kafka.server:type=group-coordinator-metrics,name=group-count,protocol=classic",
            7,
            "kafka_server_group_coordinator_metrics_protocol_classic_group_count",
            {},
        ),
        (
            "kafka.server:type=Produce,user=al,client-id=c",
            {"byte-rate": 7},
            "kafka_server_quota_byte_rate",
            {"resource": "Produce", "user": "al", "clientId": "c"},
        ),
    ],
)
def test_names_and_labels_are_those_of_the_jmx_exporter(
    name: str, value: object, series: str, labels: dict[str, str]
) -> None:
    [sample] = samples(name, value)
    assert (sample.family + sample.suffix, sample.labels, sample.value) == (series, labels, 7)


def test_a_histogram_is_a_summary_with_quantiles() -> None:
    value = {"Count": 4, "Min": 0, "Max": 9, "Mean": 2.5, "50thPercentile": 2, "999thPercentile": 9}
    found = {
        (sample.suffix, sample.labels.get("quantile")): sample.value
        for sample in samples("kafka.network:type=RequestMetrics,name=TotalTimeMs,request=Fetch", value)
    }
    assert found == {("", "0.50"): 2, ("", "0.999"): 9, ("_sum", None): 10.0, ("_count", None): 4}


def test_a_meter_of_idle_time_is_a_ratio() -> None:
    name = "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent"
    found = {sample.family: sample.value for sample in samples(name, METER)}
    prefix = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle"
    assert found == {f"{prefix}_percent": 0.5, f"{prefix}percent_count": 7}


def test_what_a_source_counts_is_a_gauge() -> None:
    name = "kafka.server:type=SharePartitionMetrics,name=InFlightBatchCount,group=g,topic=t,partition=0"
    [sample] = samples(name, {"Value": 3})
    assert (sample.kind, sample.value) == ("gauge", 3)
    assert sample.labels == {"group": "g", "topic": "t", "partition": "0"}


def test_a_comma_in_the_last_tag_belongs_to_it() -> None:
    assert parse("kafka.log:type=T,name=N,logDirectory=/a,b").tags == {"logDirectory": "/a,b"}


def test_mbeans_that_strimzis_dashboards_query_have_strimzis_names_too() -> None:
    idle = samples("kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent", 0.9)
    prefix = "kafka_network_socketserver_networkprocessoravgidle"
    assert {sample.family: sample.value for sample in idle} == {f"{prefix}percent": 0.9, f"{prefix}_percent": 0.9}
    name = "kafka.server:type=socket-server-metrics,listener=TLS,networkProcessor=0,name=connection-count"
    [connections] = samples(name, 4)
    assert connections.family == "kafka_server_socket_server_metrics_connection_count"
    assert connections.labels == {"listener": "TLS", "networkProcessor": "0"}
    quorum = samples("kafka.server:type=raft-metrics", {"current-leader": 2})
    assert [sample.family for sample in quorum] == [
        "kafka_server_raftmetrics_current_leader",
        "kafka_server_raft_metrics_current_leader",
    ]

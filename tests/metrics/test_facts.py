"""Facts of partitions, topics and groups become the series of Kafka and of kafka-exporter."""

from __future__ import annotations

import os

from kwire.metrics.facts import ends_of, of_broker, of_group, of_partition, of_topic
from kwire.metrics.process import of_process

LED = ["partition", "t", 1, 4096, 2, 3, 12, 9, 10, 3, 2, 2]
FOLLOWED = ["partition", "t", 2, 4096, 2, 3, 12, 9, 10]


def test_a_leader_knows_its_replicas() -> None:
    found = {sample.family: sample.value for sample in of_partition(LED)}
    assert found["kafka_log_log_size"] == 4096
    assert found["kafka_log_log_logendoffset"] == 12
    assert found["kafka_cluster_partition_underreplicated"] == 1
    assert found["kafka_cluster_partition_atminisr"] == 1
    assert found["kafka_cluster_partition_underminisr"] == 0
    assert found["kafka_cluster_partition_laststableoffsetlag"] == 1
    assert found["kafka_topic_partition_current_offset"] == 10


def test_a_follower_has_a_log_only() -> None:
    assert {sample.family for sample in of_partition(FOLLOWED)} == {
        "kafka_log_log_size",
        "kafka_log_log_numlogsegments",
        "kafka_log_log_logstartoffset",
        "kafka_log_log_logendoffset",
    }


def test_the_lag_of_a_group_counts_to_the_high_watermark() -> None:
    group = ["offsets", "g", 2, [["t", 1, 4], ["t", 2, 9], ["t", 3, 5]]]
    found = list(of_group(group, ends_of([LED, FOLLOWED])))
    values = {(each.family, each.labels.get("partition")): each.value for each in found}
    assert values["kafka_consumergroup_members", None] == 2
    assert values["kafka_consumergroup_lag", "1"] == 6
    assert ("kafka_consumergroup_lag", "2") not in values  # nobody here leads it
    assert values["kafka_consumergroup_current_offset", "2"] == 9
    assert values["kafka_consumergroup_lag_sum", None] == 6
    assert values["kafka_consumergroup_current_offset_sum", None] == 18


def test_a_topic_of_the_cluster_has_its_leaders() -> None:
    found = {
        (each.family, each.labels.get("partition")): each.value for each in of_topic(["topic", "t", [[2, 1, 3, 2]]])
    }
    assert found["kafka_topic_partitions", None] == 1
    assert found["kafka_topic_partition_leader", "0"] == 2
    assert found["kafka_topic_partition_leader_is_preferred", "0"] == 0
    assert found["kafka_topic_partition_under_replicated_partition", "0"] == 1


def test_ends_that_leaders_have_told_serve_for_partitions_without_a_leader_here() -> None:
    group = ["offsets", "g", 2, [["t", 1, 4], ["t", 2, 9], ["t", 3, 5]]]
    told = ["end", "t", [[1, 5], [2, 11]]]  # the leader of partition 1 is here, and knows better
    lags = {
        each.labels["partition"]: each.value
        for each in of_group(group, ends_of([LED, FOLLOWED, told]))
        if each.family == "kafka_consumergroup_lag"
    }
    assert lags == {"1": 6, "2": 2}


def test_the_controller_knows_the_addresses_of_all_brokers() -> None:
    found = list(of_broker({"brokers": 2, "addresses": [[1, "a:9092"], [2, "b:9092"]]}))
    assert [each.labels for each in found if each.family == "kafka_broker_info"] == [
        {"id": "1", "address": "a:9092"},
        {"id": "2", "address": "b:9092"},
    ]
    assert {each.family: each.value for each in found}["kafka_brokers"] == 2


def test_a_process_has_processor_time_memory_files_and_disk_bytes() -> None:
    found = {each.family + each.suffix: each.value for each in of_process(os.getpid())}
    assert found["process_open_fds"] >= 3
    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_cpu_seconds_total"] > 0
    assert found["kafka_server_kafkaserver_linux_disk_write_bytes"] >= 0
    assert list(of_process(0)) == []  # no such process

"""What published dashboards for Apache Kafka query: their expressions and the names of their series, as facts.

The selectors of an expression are left out where they only name the cluster, the pod or the job; `SELECTORS` says which
labels they are, and the test puts them back into each selector. ```` marks the place. What depends on a dashboard's
variable has `$topic`, `$partition` or `$group`.

- Strimzi's `examples/metrics/grafana-dashboards/`: `strimzi-kafka.json`, `strimzi-kraft.json` and
  `strimzi-kafka-exporter.json` (commits 036c855, 1b5ce12, 5aa6bf0 of strimzi/strimzi-kafka-operator). The last is
  Grafana's dashboard 7589.
- kafka-exporter's `kafka_exporter_overview.json` and `kafka-mixin/dashboards/kafka-overview.json` (commits 0f5fc55,
  1d7b7f0 of danielqsj/kafka_exporter).
- The JMX exporter publishes no dashboard for Kafka but rules (`example_configs/kafka-kraft-3_0_0.yml`), whose names
  `compat_tests/comparisons/metrics` compares. Grafana's dashboard 11962, "Kafka Metrics", is made for such names; it is
  older than KRaft.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import Template
from typing import Final, NamedTuple


class Query(NamedTuple):
    """An expression of a dashboard."""

    dashboard: str
    expression: str


STRIMZI_KAFKA: Final = "strimzi-kafka"
STRIMZI_KRAFT: Final = "strimzi-kraft"
STRIMZI_EXPORTER: Final = "strimzi-kafka-exporter"
EXPORTER: Final = "kafka_exporter_overview"
MIXIN: Final = "kafka-mixin"
JMX: Final = "11962"

_POD: Final = 'namespace="$namespace",strimzi_io_cluster="$cluster",kubernetes_pod_name=~"$cluster-.*"'
SELECTORS: Final = {
    STRIMZI_KAFKA: _POD,
    STRIMZI_KRAFT: _POD,
    MIXIN: 'instance=~"$instance"',
    JMX: 'job=~"$job",instance=~"$instance"',
}
"""How the expressions of a dashboard select targets, by labels that Prometheus gives them."""
VARIABLES: Final = {
    "namespace": "shop",
    "cluster": "events",
    "job": "kafka",
    "instance": ".+",
    "topic": ".+",
    "partition": ".*",
    "group": ".+",
}
"""The dashboards' variables: one namespace and one cluster, and all of the rest."""
_SERIES: Final = re.compile(r"\b((?:kafka|process)_\w+)(\{)?")

_OF_TOPICS: Final = (
    "bytesin",
    "bytesout",
    "messagesin",
    "totalproducerequests",
    "failedproducerequests",
    "totalfetchrequests",
    "failedfetchrequests",
)
_EXPRESSIONS: Final = {
    STRIMZI_KAFKA: (
        "count(kafka_server_replicamanager_leadercount)",
        "sum(kafka_controller_kafkacontroller_activecontrollercount)",
        "sum(irate(kafka_controller_controllerstats_uncleanleaderelections_total[5m]))",
        "sum(kafka_server_replicamanager_partitioncount)",
        "sum(kafka_server_replicamanager_underreplicatedpartitions)",
        "sum(kafka_cluster_partition_atminisr)",
        "sum(kafka_cluster_partition_underminisr)",
        "sum(kafka_controller_kafkacontroller_offlinepartitionscount)",
        "process_open_fds",
        *(
            f'sum(irate(kafka_server_brokertopicmetrics_{name}_total{{topic=~"$topic",topic!=""}}[1m]))'
            for name in _OF_TOPICS
        ),
        "kafka_network_socketserver_networkprocessoravgidle_percent*100",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent*100",
        "irate(kafka_server_kafkaserver_linux_disk_write_bytes[1m])",
        "irate(kafka_server_kafkaserver_linux_disk_read_bytes[1m])",
        "sum(kafka_server_socket_server_metrics_connection_count) by (kubernetes_pod_name, listener)",
        'kafka_log_log_size{topic=~"$topic",partition=~"$partition"}',
        "kafka_cluster_partition_replicascount",  # the values of a variable
    ),
    STRIMZI_KRAFT: (
        "sum(process_open_fds) by (kubernetes_pod_name)",
        *(
            f"sum(kafka_server_raftmetrics_{name}) by (kubernetes_pod_name)"
            for name in ("current_leader", "current_epoch", "high_watermark", "log_end_offset")
        ),
    ),
    STRIMZI_EXPORTER: (
        'count(kafka_topic_partitions{topic=~"$topic"})',
        'sum(kafka_topic_partitions{topic=~"$topic"})',
        'sum(kafka_topic_partition_replicas{topic=~"$topic"})',
        'sum(kafka_topic_partition_in_sync_replica{topic=~"$topic"})',
        'sum(kafka_topic_partition_under_replicated_partition{topic=~"$topic"})',
        'sum(kafka_cluster_partition_atminisr{topic=~"$topic"})',
        'sum(kafka_cluster_partition_underminisr{topic=~"$topic"})',
        'count(kafka_topic_partition_leader_is_preferred{topic=~"$topic"}<1)',  # the test's cluster has such a leader
        'sum(rate(kafka_topic_partition_current_offset{topic=~"$topic"}[1m])) by (topic)',
        'sum(delta(kafka_consumergroup_current_offset{consumergroup=~"$group",topic=~"$topic"}[1m])/60)'
        " by (consumergroup, topic)",
        'sum(kafka_consumergroup_lag{consumergroup=~"$group",topic=~"$topic"}) by (consumergroup, topic)',
        'sum(kafka_consumergroup_current_offset{consumergroup=~"$group",topic=~"$topic"})'
        " by (consumergroup,partition,topic)",
        'sum(kafka_consumergroup_lag{consumergroup=~"$group",topic=~"$topic"}) by (consumergroup,partition,topic)',
        'sum(kafka_topic_partitions{topic=~"$topic"}) by (topic)',
        'sum(kafka_topic_partition_current_offset{topic=~"$topic"}) by (partition,topic)',
        'sum(kafka_topic_partition_oldest_offset{topic=~"$topic"}) by (partition,topic)',
        'kafka_exporter_build_info{namespace="$namespace"}',  # the values of variables
        'kafka_consumergroup_current_offset{namespace="$namespace",strimzi_io_cluster="$cluster"}',
        'kafka_topic_partition_current_offset{namespace="$namespace",strimzi_io_cluster="$cluster"}',
    ),
    EXPORTER: (
        'sum(rate(kafka_topic_partition_current_offset{topic!="__consumer_offsets"}[1m])) by (topic)',
        "sum(kafka_consumergroup_lag) by (consumergroup, topic)",
        'sum by(topic) (kafka_topic_partitions{topic!="__consumer_offsets"})',
    ),
    MIXIN: (
        'sum(delta(kafka_topic_partition_current_offset{topic=~"$topic"}[5m])/5) by (topic)',
        'sum(delta(kafka_consumergroup_current_offset{consumergroup=~"$group",topic=~"$topic"}[5m])/5)'
        " by (consumergroup, topic, partition)",
        'sum(kafka_consumergroup_current_offset{topic=~"$topic",consumergroup=~"$group"})'
        " by (consumergroup, topic, partition)",
        "kafka_consumergroup_members",  # the values of a variable
    ),
    JMX: (
        "sum(kafka_controller_kafkacontroller_activecontrollercount)",
        "sum(kafka_controller_kafkacontroller_globaltopiccount)",
        "sum(kafka_server_replicamanager_underreplicatedpartitions)",
        "sort(sum(kafka_server_replicamanager_partitioncount) by (instance))",
        "sum(kafka_controller_kafkacontroller_offlinepartitionscount)",
        "(kafka_server_replicamanager_leadercount / kafka_server_replicamanager_partitioncount) * 100",
        "count(kafka_cluster_partition_replicascount >= 1) by (instance)",
        "100 - (kafka_network_socketserver_networkprocessoravgidle_percent*100)",
        *(
            f'avg(kafka_network_requestmetrics_totaltimems{{request="{request}",quantile="0.99"}}) by ({label})'
            for request in ("Produce", "FetchConsumer", "FetchFollower")
            for label in ("request", "instance")
        ),
        *(
            f'sum(rate(kafka_server_brokertopicmetrics_{name}_total{{topic!=""}}[1m])) by ({label})'
            for name in _OF_TOPICS
            for label in ("topic", "instance")
        ),
        *(
            f'sum(rate(kafka_network_requestmetrics_requests_total{{request=~"{request}"}}[1m])) by (instance)'
            for request in ("Produce", "FetchConsumer", "FetchFollower")
        ),
        "sum(irate(kafka_server_replicamanager_isrshrinks_total[1m]))",
        "sum(irate(kafka_server_replicamanager_isrexpands_total[1m]))",
        "sum(irate(kafka_log_logflushstats_logflushrateandtimems_count[5m])) by (instance)",
        'kafka_cluster_partition_replicascount{topic=~"$topic"}',
        "sort(sum(kafka_log_log_size) by (instance))",
        "rate(process_cpu_seconds_total[1m])",
    ),
}

_JVM: Final = "about the Java virtual machine; kwire has none"
_KUBERNETES: Final = "measured by Kubernetes about containers and volumes, not by Kafka or an exporter for it"
_RAFT: Final = "about KRaft's metadata log and its voters; kwire has a metadata store (DescribeQuorum is told above)"
_ZOOKEEPER: Final = "of Kafka's controllers and brokers on ZooKeeper; Kafka 4 has no such MBean"
_FORK: Final = "of Grafana Labs' fork of kafka-exporter; the exporter itself has no such series"

NAMED_BY_JMX: Final = tuple(
    f'sum(kafka_server_delayedoperationpurgatory_purgatorysize{{delayedOperation="{operation}"}}) by (instance)'
    for operation in ("Fetch", "Produce")
)
"""Expressions of 11962 that have data with `kwire.metrics.names=jmx` only: promtool objects to the label, which is
`delayed_operation` otherwise."""

NOT_ABOUT_KAFKA: Final = {
    STRIMZI_KAFKA: {
        "container_memory_usage_bytes": _KUBERNETES,
        "container_cpu_usage_seconds_total": _KUBERNETES,
        "kubelet_volume_stats_available_bytes": _KUBERNETES,
        "jvm_memory_bytes_used": _JVM,
        "jvm_gc_collection_seconds_sum": _JVM,
        "jvm_gc_collection_seconds_count": _JVM,
        "jvm_threads_current": _JVM,
    },
    STRIMZI_KRAFT: {
        "container_memory_usage_bytes": _KUBERNETES,
        "container_cpu_usage_seconds_total": _KUBERNETES,
        "kubelet_volume_stats_available_bytes": _KUBERNETES,
        "jvm_memory_bytes_used": _JVM,
        "jvm_gc_collection_seconds_sum": _JVM,
        "jvm_gc_collection_seconds_count": _JVM,
        "jvm_threads_current": _JVM,
        "kafka_server_raftmetrics_append_records_rate": _RAFT,
        "kafka_server_raftmetrics_fetch_records_rate": _RAFT,
        "kafka_server_raftmetrics_commit_latency_avg": _RAFT,
        "kafka_server_raftmetrics_current_vote": _RAFT,
        "kafka_server_raftchannelmetrics_incoming_byte_total": _RAFT,
        "kafka_server_raftchannelmetrics_outgoing_byte_total": _RAFT,
        "kafka_server_raftchannelmetrics_request_total": _RAFT,
        "kafka_server_raftchannelmetrics_response_total": _RAFT,
    },
    MIXIN: {
        "kafka_consumer_lag_millis": f"an estimate {_FORK}",
        "kafka_consumergroup_uncommitted_offsets": f"the name of kafka_consumergroup_lag {_FORK}",
    },
    JMX: {
        "kafka_controller_controllerstats_leaderelectionrateandtimems_count": _ZOOKEEPER,
        "kafka_controller_kafkacontroller_controllerstate": f"{_ZOOKEEPER}; it gives two variables their values",
        "kafka_server_sessionexpirelistener_zookeeperdisconnects_total": _ZOOKEEPER,
        "kafka_server_sessionexpirelistener_zookeeperexpires_total": _ZOOKEEPER,
        "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms": _ZOOKEEPER,
        "jvm_memory_bytes_used": _JVM,
        "jvm_gc_collection_seconds_sum": _JVM,
        "jvm_threads_current": _JVM,
    },
}
"""Series of the dashboards that kwire does not have, with the reason."""


def queries() -> Iterator[Query]:
    """All expressions that must have data, with their variables set."""
    for dashboard, expressions in _EXPRESSIONS.items():
        for expression in expressions:
            selected = _select(expression, SELECTORS.get(dashboard, ""))
            yield Query(dashboard, Template(selected).substitute(VARIABLES))


def _select(expression: str, selector: str) -> str:
    """The expression with a selector at each series."""
    if not selector:
        return expression
    return _SERIES.sub(lambda found: found[1] + "{" + selector + ("," if found[2] else "}"), expression)

"""Series that only one of the two has, with the reason. A name counts by its first pattern that matches as a whole."""

from __future__ import annotations

from typing import Final, NamedTuple

_NOT_MEASURED = "kwire does not measure it"
_NO_THREADS = "kwire has one event loop, and no queues, threads or purgatories of this kind"

ONLY_KAFKA: Final = (
    (
        r".*_count_total",
        "the exporter's name since 1.0 for what its rules and dashboards call _count; kwire has _count",
    ),
    (r"kafka_controller_controllereventmanager_.*", _NO_THREADS),
    (r"kafka_controller_kafkacontroller_(last(applied|committed)|eventqueue|ignoredstatic).*", "KRaft's log and queue"),
    (
        r"kafka_controller_kafkacontroller_(brokerregistrationstate|controlledshutdownbrokercount|metadataerrorcount"
        r"|newactivecontrollerscount|timedoutbrokerheartbeatcount|timesincelastheartbeatreceivedms)",
        _NOT_MEASURED,
    ),
    (r"kafka_log_log_retentionsizeinpercent", _NOT_MEASURED),
    (r"kafka_network_(acceptor|processor)_.*", _NO_THREADS),
    (r"kafka_network_requestchannel_responsequeuesize", _NO_THREADS),
    (r"kafka_network_requestmetrics_(messageconversionstimems|temporarymemorybytes)", "kwire converts no records"),
    (r"kafka_network_requestmetrics_responsequeuetimems", _NO_THREADS),
    (r"kafka_network_socketserver_(expiredconnectionskilledcount|memorypool.*)", _NO_THREADS),
    (
        r"kafka_server_(addpartitions|alter_partition|directory_assignments|forwarding|heartbeat|txn_marker|raft|persister|"
        r"socket_server|broker_to_controller|broker_metadata|node|registration_metrics|app_info|client|kafka_metrics_count).*",
        "attributes of Kafka's own client library, network threads and Raft log",
    ),
    (
        r"kafka_server_(assignmentsmanager|brokermetadatalistener|metadataloader|snapshotemitter|controllerserver)_.*",
        "KRaft",
    ),
    (r"kafka_server_brokertopicmetrics_(fetch|produce)messageconversions_total", "kwire converts no records"),
    (r"kafka_server_brokertopicmetrics_reassignmentbytes(in|out)_total", _NOT_MEASURED),
    (r"kafka_server_request_client_id_1_\w+", "requests of Kafka's broker to its controller; kwire's is part of it"),
    (r"kafka_server_delayed\w+metrics_.*", _NOT_MEASURED),
    (r"kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", _NOT_MEASURED),
    (r"kafka_server_(group|share|transaction)_coordinator_metrics_.*", f"rates; else {_NO_THREADS}"),
    (r"kafka_server_kafkarequesthandlerpool_controller.*", "kwire's controller is part of each broker"),
    (r"kafka_server_kafkaserver_yammer_metrics_count", "the number of metrics of one of Kafka's two libraries"),
    (r"kafka_server_replicaalterlogdirsmanager_.*", _NOT_MEASURED),
    (r"kafka_server_replicafetchermanager_(deadthreadcount|failedpartitionscount|minfetchrate)", _NOT_MEASURED),
    (r"kafka_server_replicamanager_(partitionswithlatetransactionscount|produceridcount)", _NOT_MEASURED),
    (r"kafka_server_(sharegroupmetrics|sharesessioncache)_.*", "shown from the first share session on"),
    (r"kafka_utils_throttler_.*", _NOT_MEASURED),
)

ONLY_KWIRE: Final = (
    (r"kafka_(brokers|broker_info|consumergroup_\w+|exporter_build_info|topic_\w+)", "kafka-exporter's series"),
    (
        r"kafka_(network_\w+avgidle_percent|server_raftmetrics_\w+)",
        "the names of Strimzi's rules, beside the example's",
    ),
    (r"kwire_\w+", "kwire's own"),
    (
        r"kafka_(log_logflushstats|network_requestmetrics)_\w+timems_(count|sum)",
        "see _count_total; the rules leave sums out",
    ),
    (r"kafka_network_requestmetrics_responsebytes", "kwire's own, beside Kafka's RequestBytes"),
    (r"kafka_server_(alterlogdirs|follower|leader)replication_byte_rate", "shown in Kafka with the first throttle"),
    (r"kafka_server_group_coordinator_metrics_\w+", "Kafka makes some of them with the first group of their kind"),
    (r"kafka_server_kafkarequesthandlerpool_\w+_count", "see _count_total"),
    (
        r"kafka_server_socket_server_metrics_connection_count",
        "as Strimzi's rules name it; the example's have the listener in the name",
    ),
)

OTHER_LABELS: Final = {
    "kafka_network_requestmetrics_requestbytes": "kwire counts bytes and keeps no histogram of them",
}
"""Series with different labels, beside those of topics, which kwire has from a topic's first request on."""


class Change(NamedTuple):
    """What `kwire.metrics.names=prometheus` makes of a series: its labels, and its name if that is another."""

    labels: tuple[str, ...]
    name: str = ""


FOR_PROMETHEUS: Final = {
    "kafka_log_logcleanermanager_time_since_last_run_ms": Change(
        (), "kafka_log_logcleanermanager_time_since_last_run_seconds"
    ),
    "kafka_log_logcleanermanager_uncleanable_bytes": Change(("log_directory",)),
    "kafka_log_logcleanermanager_uncleanable_partitions_count": Change(("log_directory",)),
    "kafka_log_logmanager_logdirectorycordoned": Change(("log_directory",)),
    "kafka_log_logmanager_logdirectoryoffline": Change(("log_directory",)),
    "kafka_server_delayedoperationpurgatory_numdelayedoperations": Change(("delayed_operation",)),
    "kafka_server_delayedoperationpurgatory_purgatorysize": Change(("delayed_operation",)),
    "kafka_server_replicafetchermanager_maxlag": Change(("client_id",)),
    "kafka_server_socket_server_metrics_connection_count": Change(("listener", "network_processor")),
}
"""Series of the exporter's that have other names by default, because `promtool check metrics` objects to capital
letters in labels and to abbreviated units."""

HELD: Final = (
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_controller_kafkacontroller_activebrokercount",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_fencedbrokercount",
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "kafka_controller_kafkacontroller_globaltopiccount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "kafka_log_log_logendoffset",
    "kafka_log_log_logstartoffset",
    "kafka_log_log_size",
    "kafka_log_logflushstats_logflushrateandtimems",
    "kafka_network_requestmetrics_errors_total",
    "kafka_network_requestmetrics_requests_total",
    "kafka_network_requestmetrics_throttletimems",
    "kafka_network_requestmetrics_totaltimems",
    "kafka_network_socketserver_networkprocessoravgidlepercent",
    "kafka_server_controllermutation_client_id_shop_mutation_rate",
    "kafka_server_controllermutation_client_id_shop_throttle_time",
    "kafka_server_controllermutation_client_id_shop_tokens",
    "kafka_server_controllermutation_queue_size",
    "kafka_server_fetch_client_id_shop_byte_rate",
    "kafka_server_fetch_client_id_shop_throttle_time",
    "kafka_server_fetch_queue_size",
    "kafka_server_produce_client_id_shop_byte_rate",
    "kafka_server_produce_client_id_shop_throttle_time",
    "kafka_server_produce_queue_size",
    "kafka_server_request_client_id_shop_request_time",
    "kafka_server_request_client_id_shop_throttle_time",
    "kafka_server_request_exempt_request_time",
    "kafka_server_request_queue_size",
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    "kafka_server_kafkarequesthandlerpool_brokerrequesthandleravgidle_percent",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_server_kafkaserver_brokerstate",
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    "kafka_server_raft_metrics_current_epoch",
    "kafka_server_raft_metrics_current_leader",
    "kafka_server_raft_metrics_high_watermark",
    "kafka_server_raft_metrics_log_end_offset",
    "kafka_server_replicafetchermanager_maxlag",
    "kafka_server_replicamanager_atminisrpartitioncount",
    "kafka_server_replicamanager_isrexpands_total",
    "kafka_server_replicamanager_isrshrinks_total",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_offlinereplicacount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underminisrpartitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_server_share_coordinator_metrics_partition_load_time_avg",
    "kafka_server_share_coordinator_metrics_partition_load_time_max",
    "kafka_server_share_coordinator_metrics_write_latency_avg",
    "kafka_server_share_coordinator_metrics_write_latency_max",
    "kafka_server_share_coordinator_metrics_write_rate",
    "kafka_server_share_coordinator_metrics_write_total",
)
"""Names that dashboards query: both must have them, with the same labels."""

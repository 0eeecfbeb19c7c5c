"""Names that `promtool check metrics` remarks on, and which are prescribed: dashboards query them under these names.

Each remark has names as regular expressions, with what prescribes them. kwire's own names (`kwire_*`) get no remark.
"""

from __future__ import annotations

from typing import Final

KAFKA: Final = "the JMX exporter's name of Kafka's MBean, with its example for KRaft"
KAFKA_EXPORTER: Final = "kafka-exporter's name"
STRIMZI: Final = "the name that Strimzi's rules for the JMX exporter give Kafka's attribute"

REMARKS: Final = {
    "label names should be written in 'snake_case' not 'camelCase'": {
        r"kafka_log_logcleanermanager_uncleanable_(bytes|partitions_count)": KAFKA,  # logDirectory
        r"kafka_log_logmanager_logdirectory(offline|cordoned)": KAFKA,  # logDirectory
        r"kafka_server_delayedoperationpurgatory_(numdelayedoperations|purgatorysize)": KAFKA,  # delayedOperation
        r"kafka_server_replicafetchermanager_maxlag": KAFKA,  # clientId
        r"kafka_server_socket_server_metrics_connection_count": STRIMZI,  # networkProcessor
    },
    'non-histogram and non-summary metrics should not have "_count" suffix': {
        r"kafka_log_logcleanermanager_uncleanable_partitions_count": KAFKA,
        r"kafka_server_group_coordinator_metrics_protocol_(classic|consumer|share|streams)_group_count": KAFKA,
        r"kafka_server_group_coordinator_metrics_state_\w+_(consumer|share|streams)_group_count": KAFKA,
        r"kafka_server_group_coordinator_metrics_offset_(commit|deletion|expiration)_count": KAFKA,
        r"kafka_server_group_coordinator_metrics_(group_completed|share_group|streams_group)_rebalance_count": KAFKA,
        r"kafka_server_kafkarequesthandlerpool_(broker)?requesthandleravgidlepercent_count": KAFKA,
        r"kafka_server_socket_server_metrics_connection_count": STRIMZI,
    },
    'non-histogram and non-summary metrics should not have "_sum" suffix': {
        r"kafka_consumergroup_(current_offset|lag)_sum": KAFKA_EXPORTER,
    },
    "metric names should not contain abbreviated units": {
        r"kafka_log_logcleanermanager_time_since_last_run_ms": KAFKA,
    },
}

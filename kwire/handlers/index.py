"""Which module handles which API, and what must be known of each before its first request.

Generated from the handlers' declarations by `python -m tools.handler_index`: do not edit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kwire.codec.protocol import ApiKey


class Entry(NamedTuple):
    """What `kwire.handlers.<module>` declares: the versions in ApiVersions (None: not in it), and whether the next
    request of a connection may start while one is pending."""

    module: str
    advertised: tuple[int, int] | None
    pipelined: bool = False


INDEX: Final[dict[int, Entry]] = {
    ApiKey.PRODUCE: Entry("data.produce.handler", (0, 13), pipelined=True),
    ApiKey.FETCH: Entry("data.fetch.handler", (4, 18)),
    ApiKey.LIST_OFFSETS: Entry("data.list_offsets", (1, 11)),
    ApiKey.METADATA: Entry("topics.metadata", (0, 13)),
    ApiKey.OFFSET_COMMIT: Entry("groups.offset_commit", (2, 10)),
    ApiKey.OFFSET_FETCH: Entry("groups.offset_fetch", (1, 10)),
    ApiKey.FIND_COORDINATOR: Entry("groups.find_coordinator", (0, 6)),
    ApiKey.JOIN_GROUP: Entry("groups.join_group", (0, 9)),
    ApiKey.HEARTBEAT: Entry("groups.heartbeat", (0, 4)),
    ApiKey.LEAVE_GROUP: Entry("groups.leave_group", (0, 5)),
    ApiKey.SYNC_GROUP: Entry("groups.sync_group", (0, 5)),
    ApiKey.DESCRIBE_GROUPS: Entry("groups.describe_groups", (0, 6)),
    ApiKey.LIST_GROUPS: Entry("groups.list_groups", (0, 5)),
    ApiKey.SASL_HANDSHAKE: Entry("security.sasl_handshake", (0, 1)),
    ApiKey.API_VERSIONS: Entry("cluster.api_versions", (0, 4)),
    ApiKey.CREATE_TOPICS: Entry("topics.create_topics", (2, 7)),
    ApiKey.DELETE_TOPICS: Entry("topics.delete_topics", (1, 6)),
    ApiKey.DELETE_RECORDS: Entry("data.delete_records", (0, 2)),
    ApiKey.INIT_PRODUCER_ID: Entry("transactions.init_producer_id", (0, 5)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Entry("data.offset_for_leader_epoch", (2, 4)),
    ApiKey.ADD_PARTITIONS_TO_TXN: Entry("transactions.add_partitions_to_txn", (0, 5)),
    ApiKey.ADD_OFFSETS_TO_TXN: Entry("transactions.add_offsets_to_txn", (0, 4)),
    ApiKey.END_TXN: Entry("transactions.end_txn", (0, 5)),
    ApiKey.WRITE_TXN_MARKERS: Entry("transactions.write_txn_markers", (1, 2)),
    ApiKey.TXN_OFFSET_COMMIT: Entry("transactions.txn_offset_commit", (0, 5)),
    ApiKey.DESCRIBE_ACLS: Entry("security.describe_acls", (1, 3)),
    ApiKey.CREATE_ACLS: Entry("security.create_acls", (1, 3)),
    ApiKey.DELETE_ACLS: Entry("security.delete_acls", (1, 3)),
    ApiKey.DESCRIBE_CONFIGS: Entry("configs.describe_configs", (1, 4)),
    ApiKey.ALTER_CONFIGS: Entry("configs.alter_configs", (0, 2)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Entry("cluster.alter_replica_log_dirs", (1, 2)),
    ApiKey.DESCRIBE_LOG_DIRS: Entry("cluster.describe_log_dirs", (1, 5)),
    ApiKey.SASL_AUTHENTICATE: Entry("security.sasl_authenticate", (0, 2)),
    ApiKey.CREATE_PARTITIONS: Entry("topics.create_partitions", (0, 3)),
    ApiKey.CREATE_DELEGATION_TOKEN: Entry("security.create_delegation_token", (1, 3)),
    ApiKey.RENEW_DELEGATION_TOKEN: Entry("security.renew_delegation_token", (1, 2)),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Entry("security.expire_delegation_token", (1, 2)),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Entry("security.describe_delegation_token", (1, 3)),
    ApiKey.DELETE_GROUPS: Entry("groups.delete_groups", (0, 2)),
    ApiKey.ELECT_LEADERS: Entry("topics.elect_leaders", (0, 2)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Entry("configs.incremental_alter_configs", (0, 1)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Entry("topics.alter_partition_reassignments", (0, 1)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Entry("topics.list_partition_reassignments", (0, 0)),
    ApiKey.OFFSET_DELETE: Entry("groups.offset_delete", (0, 0)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Entry("configs.describe_client_quotas", (0, 1)),
    ApiKey.ALTER_CLIENT_QUOTAS: Entry("configs.alter_client_quotas", (0, 1)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Entry("security.describe_user_scram_credentials", (0, 0)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Entry("security.alter_user_scram_credentials", (0, 0)),
    ApiKey.DESCRIBE_QUORUM: Entry("cluster.describe_quorum", (0, 2)),
    ApiKey.UPDATE_FEATURES: Entry("cluster.update_features", (0, 2)),
    ApiKey.ENVELOPE: Entry("cluster.envelope", None),
    ApiKey.DESCRIBE_CLUSTER: Entry("cluster.describe_cluster", (0, 2)),
    ApiKey.DESCRIBE_PRODUCERS: Entry("transactions.describe_producers", (0, 0)),
    ApiKey.UNREGISTER_BROKER: Entry("cluster.unregister_broker", (0, 0)),
    ApiKey.DESCRIBE_TRANSACTIONS: Entry("transactions.describe_transactions", (0, 0)),
    ApiKey.LIST_TRANSACTIONS: Entry("transactions.list_transactions", (0, 2)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Entry("groups.consumer_group_heartbeat", (0, 1)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Entry("groups.consumer_group_describe", (0, 1)),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Entry("telemetry.get_telemetry_subscriptions", (0, 0)),
    ApiKey.PUSH_TELEMETRY: Entry("telemetry.push_telemetry", (0, 0)),
    ApiKey.LIST_CONFIG_RESOURCES: Entry("configs.list_config_resources", (0, 1)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Entry("topics.describe_topic_partitions", (0, 0)),
    ApiKey.SHARE_GROUP_HEARTBEAT: Entry("groups.share.share_group_heartbeat", (1, 1)),
    ApiKey.SHARE_GROUP_DESCRIBE: Entry("groups.share.share_group_describe", (1, 1)),
    ApiKey.SHARE_FETCH: Entry("share.share_fetch", (1, 2)),
    ApiKey.SHARE_ACKNOWLEDGE: Entry("share.share_acknowledge", (1, 2)),
    ApiKey.ADD_RAFT_VOTER: Entry("cluster.add_raft_voter", (0, 1)),
    ApiKey.REMOVE_RAFT_VOTER: Entry("cluster.remove_raft_voter", (0, 0)),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Entry("share_state.initialize_share_group_state", (0, 0)),
    ApiKey.READ_SHARE_GROUP_STATE: Entry("share_state.read_share_group_state", (0, 0)),
    ApiKey.WRITE_SHARE_GROUP_STATE: Entry("share_state.write_share_group_state", (0, 1)),
    ApiKey.DELETE_SHARE_GROUP_STATE: Entry("share_state.delete_share_group_state", (0, 0)),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Entry("share_state.read_share_group_state_summary", (0, 1)),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Entry("groups.streams.streams_group_heartbeat", (0, 0)),
    ApiKey.STREAMS_GROUP_DESCRIBE: Entry("groups.streams.streams_group_describe", (0, 0)),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Entry("groups.share.describe_share_group_offsets", (0, 1)),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Entry("groups.share.alter_share_group_offsets", (0, 0)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Entry("groups.share.delete_share_group_offsets", (0, 0)),
}

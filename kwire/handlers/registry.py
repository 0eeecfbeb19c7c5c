"""The table of all APIs: one handler module each, and a refusal for what Kafka serves and kwire does not yet.

A module of `MODULES` declares ``API``; what it declares is all that ApiVersions and the dispatcher know.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Final

from kwire.codec.protocol import API_FACTS
from kwire.handlers.api import Api

MODULES: Final = (
    "transactions.add_offsets_to_txn",
    "transactions.add_partitions_to_txn",
    "configs.alter_configs",
    "topics.alter_partition_reassignments",
    "cluster.alter_replica_log_dirs",
    "cluster.api_versions",
    "groups.consumer_group_describe",
    "groups.consumer_group_heartbeat",
    "topics.create_partitions",
    "topics.create_topics",
    "groups.delete_groups",
    "data.delete_records",
    "topics.delete_topics",
    "cluster.describe_cluster",
    "configs.describe_configs",
    "groups.describe_groups",
    "cluster.describe_log_dirs",
    "transactions.describe_producers",
    "cluster.describe_quorum",
    "topics.describe_topic_partitions",
    "transactions.describe_transactions",
    "topics.elect_leaders",
    "transactions.end_txn",
    "data.fetch.handler",
    "groups.find_coordinator",
    "groups.heartbeat",
    "configs.incremental_alter_configs",
    "transactions.init_producer_id",
    "groups.join_group",
    "groups.leave_group",
    "configs.list_config_resources",
    "groups.list_groups",
    "data.list_offsets",
    "topics.list_partition_reassignments",
    "transactions.list_transactions",
    "topics.metadata",
    "groups.offset_commit",
    "groups.offset_delete",
    "groups.offset_fetch",
    "data.offset_for_leader_epoch",
    "data.produce.handler",
    "groups.sync_group",
    "transactions.txn_offset_commit",
    "cluster.unregister_broker",
    "cluster.update_features",
    "transactions.write_txn_markers",
)


class Registry:
    """The APIs of a broker by key."""

    def __init__(self, apis: dict[int, Api]) -> None:
        self._apis = dict(sorted(apis.items()))
        self.pipelined_keys = frozenset(key for key, api in apis.items() if api.pipelined)

    @classmethod
    def load(cls) -> Registry:
        """All APIs that Kafka's brokers serve."""
        from kwire.handlers.refusals import refusal

        apis: dict[int, Api] = {}
        for name in MODULES:
            api: Api = import_module(f"kwire.handlers.{name}").API
            apis[api.key] = api
        from kwire.handlers.forwarding import forwarded

        for api in apis.values():
            if api.by_controller and api.handle.__name__ != "handle_or_forward":
                api.handle = forwarded(api.handle)
        for key, facts in API_FACTS.items():
            if "broker" in facts.listeners and key not in apis:
                apis[key] = refusal(key)
        return cls(apis)

    def get(self, key: int) -> Api | None:
        """The API of a key; None if a Kafka broker would not know it either."""
        return self._apis.get(key)

    def __iter__(self) -> Iterator[Api]:
        return iter(self._apis.values())

    def advertised(self) -> list[tuple[int, int, int]]:
        """What ApiVersions tells: (key, first version, last version), by key."""
        return [(key, *api.advertised) for key, api in self._apis.items() if api.advertised is not None]

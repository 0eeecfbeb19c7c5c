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
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "alter_configs",
    "alter_partition_reassignments",
    "alter_replica_log_dirs",
    "api_versions",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "create_partitions",
    "create_topics",
    "delete_groups",
    "delete_records",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_groups",
    "describe_log_dirs",
    "describe_producers",
    "describe_quorum",
    "describe_topic_partitions",
    "describe_transactions",
    "elect_leaders",
    "end_txn",
    "fetch",
    "find_coordinator",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "join_group",
    "leave_group",
    "list_config_resources",
    "list_groups",
    "list_offsets",
    "list_partition_reassignments",
    "list_transactions",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "produce",
    "sync_group",
    "txn_offset_commit",
    "unregister_broker",
    "update_features",
    "write_txn_markers",
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

"""Quotas of a running cluster: DescribeClientQuotas, AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.cli.connection import check
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kwire.codec.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from kwire.quotas.entities import QuotaEntity, Quotas, listing_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.cli.connection.cluster import Cluster
    from kwire.quotas.rules import Changes

VERSION: Final = 1
EXACT, DEFAULT = 0, 1


class RunningQuotas:
    """The quotas of a running cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def select(self, names: Mapping[str, str | None]) -> dict[QuotaEntity, Quotas]:
        """The quotas of the entities that have all of these names, in alphabetical order. `CommandError`."""
        components = [
            ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
            for kind, name in names.items()
        ]
        response = await self._cluster.call(DescribeClientQuotasRequest(components=components), max_version=VERSION)
        check(response.error_code, "quotas", response.error_message)
        found = {
            QuotaEntity.of({each.entity_type: each.entity_name for each in entry.entity}): {
                each.key: each.value for each in entry.values
            }
            for entry in response.entries
        }
        return {entity: found[entity] for entity in sorted(found, key=listing_order)}

    async def alter(self, entity: QuotaEntity, changes: Changes) -> None:
        """Set limits of an entity, and remove those that are None. `CommandError`."""
        entry = EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.names],
            ops=[OpData(key=key, value=limit or 0.0, remove=limit is None) for key, limit in changes.items()],
        )
        response = await self._cluster.call(AlterClientQuotasRequest(entries=[entry]), max_version=VERSION)
        for result in response.entries:
            check(result.error_code, "quotas", result.error_message)

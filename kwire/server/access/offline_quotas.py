"""Quotas of a cluster that is not running, written into its metadata store.

What lives elsewhere: the same in a running cluster (`kwire.handlers.configs`), the command (`kwire.cli.quota`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kwire.base.errors import KafkaError
from kwire.cluster.controller.client_quotas import altered
from kwire.cluster.metadata.client_quotas import pack_quotas, quota_key, unpack_quotas
from kwire.cluster.store import keys
from kwire.cluster.store.store import ABSENT, Check, Conflict, Write
from kwire.quotas.entities import QuotaEntity, Quotas, listing_order
from kwire.quotas.rules import check_quotas
from kwire.server.errors import StartError
from kwire.server.offline import offline_store, write_access

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cluster.store.store import MetadataStore
    from kwire.quotas.rules import Changes


class OfflineQuotas:
    """The quotas in a metadata store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def select(self, names: Mapping[str, str | None]) -> dict[QuotaEntity, Quotas]:
        """The quotas of the entities that have all of these names, in alphabetical order."""
        _, stored = await self._store.read(keys.CLIENT_QUOTAS)
        found = dict(unpack_quotas(key, entry.value) for key, entry in stored.items())
        wanted = names.items()
        return {
            entity: found[entity] for entity in sorted(found, key=listing_order) if wanted <= entity.by_type().items()
        }

    async def alter(self, entity: QuotaEntity, changes: Changes) -> None:
        """Set limits of an entity, and remove those that are None. `StartError` for what is not valid."""
        try:
            check_quotas(entity.by_type(), changes)
        except KafkaError as error:
            raise StartError(error.message) from None
        key = quota_key(entity)
        stored = (await self._store.read(key))[1].get(key)
        present = {} if stored is None else unpack_quotas(key, stored.value)[1]
        after = altered(present, changes)
        if after != present:
            await self._write(
                Check(key, ABSENT if stored is None else stored.version),
                Write(key, pack_quotas(entity, after) if after else None),
            )

    async def _write(self, check: Check, write: Write) -> None:
        try:
            await write_access(self._store, [check], [write])
        except Conflict:
            raise StartError("quotas were changed at the same time; try again") from None


@asynccontextmanager
async def offline_quotas(config: KafkaConfig, doors: Doors, *, create: bool) -> AsyncIterator[OfflineQuotas]:
    """The quotas in the store that the configuration names. ``create``: the store may be new. `StartError` in one line,
    also if a broker uses the embedded store."""
    async with offline_store(config, doors, create=create) as store:
        yield OfflineQuotas(store)

"""Access control entries of a cluster that is not running, written into its metadata store.

So nobody needs to be a super user for long: the first entries can exist before the first broker starts. What lives
elsewhere: the same in a running cluster (`kwire.handlers.security`), the command (`kwire.cli.acl`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kwire.base.errors import KafkaError
from kwire.cluster.controller.plan import chunks, value_bytes
from kwire.cluster.metadata.acls import acl_key, pack_acl, unpack_acl
from kwire.cluster.store import keys
from kwire.cluster.store.store import ABSENT, Check, Conflict, Write
from kwire.handlers.security.create_acls import check
from kwire.server.errors import StartError
from kwire.server.offline import offline_store, write_access

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cluster.store.store import Entry, MetadataStore
    from kwire.security.acls.bindings import AclBinding, AclFilter


class OfflineAcls:
    """The entries in a metadata store."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def select(self, filters: Iterable[AclFilter]) -> list[AclBinding]:
        """The entries that any of the filters selects, in alphabetical order."""
        entries = [unpack_acl(key, entry.value) for key, entry in (await self._read()).items()]
        chosen = list(filters)
        return sorted(each for each in entries if any(one.matches(each) for one in chosen))

    async def add(self, bindings: Iterable[AclBinding]) -> list[AclBinding]:
        """Add entries; those that were not there before. `StartError` for one that is not valid."""
        wanted = {acl_key(each): each for each in bindings}
        for each in wanted.values():
            try:
                check(each)
            except KafkaError as error:
                raise StartError(error.message) from None
        present = await self._read()
        new = {key: each for key, each in wanted.items() if key not in present}
        for chunk in chunks({key: pack_acl(each) for key, each in new.items()}, value_bytes):
            await self._write([Check(key, ABSENT) for key in chunk], [Write(*item) for item in chunk.items()])
        return list(new.values())

    async def remove(self, filters: Iterable[AclFilter]) -> list[AclBinding]:
        """Delete the entries that any of the filters selects; which they were."""
        found = await self.select(filters)
        present = await self._read()
        for chunk in chunks({acl_key(each): b"" for each in found}, value_bytes):
            checks = [Check(key, present[key].version) for key in chunk if key in present]
            await self._write(checks, [Write(key, None) for key in chunk])
        return found

    async def _read(self) -> dict[str, Entry]:
        return (await self._store.read(keys.ACLS))[1]

    async def _write(self, checks: list[Check], writes: list[Write]) -> None:
        try:
            await write_access(self._store, checks, [*writes, Write(keys.ACL_CHANGE, keys.pack())])
        except Conflict:
            raise StartError("ACLs were changed at the same time; try again") from None


@asynccontextmanager
async def offline_acls(config: KafkaConfig, doors: Doors, *, create: bool) -> AsyncIterator[OfflineAcls]:
    """The entries in the store that the configuration names. ``create``: the store may be new. `StartError` in one
    line, also if a broker uses the embedded store."""
    async with offline_store(config, doors, create=create) as store:
        yield OfflineAcls(store)

"""The metadata store of a cluster that is not running, for the commands that prepare or mend one.

With the embedded store no broker may run on the data directory; a store that several brokers share can be changed at
any time. What lives elsewhere: what is changed (`users`, `access`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kwire.base.errors import KafkaError
from kwire.cluster.metadata import features
from kwire.cluster.store import keys
from kwire.cluster.store.store import Check, StoreError, Write
from kwire.log.common.log_dirs import LogDirectory, LogDirectoryError
from kwire.server.directories.layout import metadata_directory, refuse_several
from kwire.server.errors import StartError
from kwire.server.storage import create_store, reason_of

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cluster.store.store import MetadataStore


@asynccontextmanager
async def offline_store(config: KafkaConfig, doors: Doors, *, create: bool) -> AsyncIterator[MetadataStore]:
    """The open store that the configuration names. ``create``: it may be new. `StartError` in one line, also if a
    broker uses the embedded store."""
    directory = None
    shared = config.kwire_metadata_dir or metadata_directory(doors.files, config)
    if not config.zookeeper_connect and shared is None:
        directory = _lock(config, doors, create=create)
    store = _store(config, doors, shared)
    try:
        await store.open()
        try:
            yield store
        finally:
            await store.close()
    except StoreError as error:
        raise StartError(str(error)) from error
    finally:
        if directory is not None:
            directory.unlock()


async def write_access(store: MetadataStore, checks: Sequence[Check], writes: Sequence[Write]) -> None:
    """Commit entries of access control, credentials or quotas, with the feature level that they need. `Conflict`;
    `StartError` if a registered broker does not know that level."""
    level_checks, level_writes = await _access_level(store)
    await store.commit([*checks, *level_checks], [*writes, *level_writes])


async def _access_level(store: MetadataStore) -> tuple[list[Check], list[Write]]:
    """What finalises `ACCESS_VERSION`: nothing if it is finalised, or will be with the cluster's first broker."""
    found = (await store.read(keys.FEATURES))[1].get(keys.FEATURES)
    if found is None:
        return [], []
    levels = features.read_levels(keys.unpack(keys.FEATURES, found.value)["levels"])
    if levels.get(features.ACCESS_VERSION):
        return [], []
    registrations = (await store.read(keys.REGISTRATIONS))[1]
    brokers = {}
    for key, each in registrations.items():
        known = features.read_ranges(keys.unpack(key, each.value).get("features", {}))
        brokers[int(key.removeprefix(keys.REGISTRATIONS))] = known
    try:
        after = features.with_access(levels, brokers)
    except KafkaError as error:
        raise StartError(error.message) from None
    checks = [Check(keys.FEATURES, found.version), *(Check(key, each.version) for key, each in registrations.items())]
    return checks, [Write(keys.FEATURES, keys.pack(levels=after))]


def _store(config: KafkaConfig, doors: Doors, shared: str | None) -> MetadataStore:
    if config.zookeeper_connect or shared is None:
        return create_store(config, doors, _ignore)[0]
    from kwire.cluster.store.shared import SharedStore

    return SharedStore(shared, doors)


def _lock(config: KafkaConfig, doors: Doors, *, create: bool) -> LogDirectory:
    from kwire.cluster.store.embedded import FILE_NAME

    path = config.data_dirs[0]
    if not create and not doors.files.exists(f"{path}/{FILE_NAME}"):
        raise StartError(f"{path} has no metadata store")
    directory = LogDirectory(doors, path)
    try:
        directory.lock()
        refuse_several(doors.files, config, path)
    except StartError:
        directory.unlock()
        raise
    except LogDirectoryError as error:
        raise StartError(f"{error}; to change a running cluster, name a broker with --bootstrap-server") from None
    except OSError as error:
        raise StartError(f"log.dirs: {path} cannot be used: {reason_of(error)}") from None
    return directory


def _ignore(_directory: str, _error: OSError) -> None:
    """The store reports its failures itself."""

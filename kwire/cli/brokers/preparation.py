"""What happens before the brokers of ``kwire start --brokers`` start: the data directories are locked, a single
broker's data is moved into place, and it is decided which brokers there are.

The locks are those that a single broker would take. They keep other commands off the directories for as long as this
process lives; each broker has a lock in a directory of its own besides.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kwire.base.config import ConfigError
from kwire.base.logging import get_logger
from kwire.cli.brokers.cores import usable_cores
from kwire.cli.brokers.numbers import BROKERS_MAX
from kwire.log.common.log_dirs import LogDirectory, LogDirectoryError
from kwire.server.directories.layout import broker_name, first_id, read_layout
from kwire.server.directories.moving import move, single_broker
from kwire.server.errors import StartError
from kwire.server.storage import reason_of

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors

_log = get_logger("kwire.cluster")


def prepare(config: KafkaConfig, wanted: int, doors: Doors) -> list[int]:
    """The ids of the brokers to start, in order. The directories stay locked until this process ends. ``wanted``: how
    many there should be, or `AUTO`. `StartError`, `ConfigError`."""
    try:
        _lock(config, doors)
        single = _single(config, doors)
        layouts = [read_layout(doors.files, path) for path in config.data_dirs]
    except OSError as error:
        path = error.filename or config.data_dirs[0]
        raise StartError(f"log.dirs: {path} cannot be used: {reason_of(error)}") from None
    first = first_id(config, layouts, single)
    holding = {broker for layout in layouts for broker, holds in layout.brokers.items() if holds}
    return broker_ids(config.data_dirs[0], first, wanted, holding)


def broker_ids(directory: str, first: int, wanted: int, holding: Collection[int]) -> list[int]:
    """The ids of ``wanted`` brokers from ``first`` on, and of those that hold partitions. `StartError` if an explicit
    number of brokers leaves out one that does."""
    ids = set(range(first, first + (wanted or automatic_count())))
    left_out = sorted(set(holding) - ids)
    if left_out and (wanted or left_out[0] < first):
        names = ", ".join(broker_name(each) for each in left_out)
        if left_out[0] < first:
            raise StartError(f"node.id={first}: {directory} has partitions in {names}: node.id must be {left_out[0]}")
        least = left_out[-1] - first + 1
        raise StartError(
            f"--brokers {wanted}: {directory} has partitions in {names}, too: start it with --brokers {least} or "
            "--brokers auto, or move them to other brokers first"
        )
    if left_out:
        _log.info("more brokers than cores are started, because they hold partitions", brokers=len(ids | set(holding)))
    return sorted(ids | set(holding))


def automatic_count() -> int:
    """One broker per core, but not more than `BROKERS_MAX`."""
    cores = usable_cores()
    if cores > BROKERS_MAX:
        _log.warning("fewer brokers than cores are started", cores=cores, brokers=BROKERS_MAX)
    return min(cores, BROKERS_MAX)


def _lock(config: KafkaConfig, doors: Doors) -> None:
    for path in config.data_dirs:
        try:
            LogDirectory(doors, path).lock()
        except LogDirectoryError as error:
            raise StartError(str(error)) from None


def _single(config: KafkaConfig, doors: Doors) -> int | None:
    """Move a single broker's data into place; its id, or None if there is none."""
    files, directories = doors.files, config.data_dirs
    broker_id = single_broker(files, directories, config.node_id, has_store=not config.is_clustered)
    if broker_id is None:
        return None
    if config.static.keys() & {"node.id", "broker.id"} and config.node_id != broker_id:
        raise StartError(f"node.id={config.node_id}: {directories[0]} belongs to node {broker_id}")
    if config.kwire_metadata_dir is not None:
        reason = f"must not be set to move the data of a single broker into place, whose store is in {directories[0]}"
        raise ConfigError("kwire.metadata.dir", config.kwire_metadata_dir, reason)
    _log.info("the data of a single broker is moved into place", broker=broker_id, directory=directories[0])
    for path in directories:
        move(files, path, broker_id)
    return broker_id

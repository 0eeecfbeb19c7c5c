"""How the data of several brokers on one host lies in a directory.

``broker-1``, ``broker-2``... are the log directories of the brokers, ``metadata`` has the metadata store that they
share. A single broker's log directory has its partitions, its store and its `meta.properties` directly in it. What
lives elsewhere: turning the second into the first (`moving`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.cluster.store.embedded import FILE_NAME
from kwire.log.common.log_dirs import META_PROPERTIES_FILE
from kwire.log.common.names import CLUSTER_METADATA_TOPIC, parse_directory_name
from kwire.server.errors import StartError

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Files

METADATA: Final = "metadata"
MARKER: Final = ".kwire-moving"
"""The file that is there while a single broker's data is being moved."""

_BROKER: Final = re.compile(r"broker-(0|[1-9][0-9]{0,9})")


class Layout(NamedTuple):
    """What is in one directory of `log.dirs`. ``brokers``: those that have a directory in it, and whether it holds
    partitions. ``store``: whether there is the store of several brokers. ``single``: it is the log directory, or only
    the metadata store, of a single broker. ``moving``: `MARKER` is there."""

    brokers: dict[int, bool]
    store: bool
    single: bool
    moving: bool

    @property
    def of_several(self) -> bool:
        """Whether several brokers use the directory, or will when the move is completed."""
        return bool(self.brokers) or self.moving


def broker_name(broker_id: int) -> str:
    """The name of a broker's directory. A topic called `broker` may have partitions whose directories have this name;
    only a broker's directory has a `meta.properties` in it."""
    return f"broker-{broker_id}"


def is_broker_directory(files: Files, path: str) -> bool:
    """Whether a path is the log directory of a broker."""
    return _BROKER.fullmatch(path.rpartition("/")[2]) is not None and files.exists(f"{path}/{META_PROPERTIES_FILE}")


def read_layout(files: Files, directory: str) -> Layout:
    """Look at a directory, which may not exist. OSError."""
    if not files.is_dir(directory):
        return Layout({}, store=False, single=False, moving=False)
    names = files.listdir(directory)
    brokers = {}
    for name in names:
        path = f"{directory}/{name}"
        if is_broker_directory(files, path):
            brokers[int(name.partition("-")[2])] = _holds_partitions(files, path)
    return Layout(
        dict(sorted(brokers.items())),
        store=files.exists(f"{directory}/{METADATA}/{FILE_NAME}"),
        single=META_PROPERTIES_FILE in names or FILE_NAME in names,
        moving=MARKER in names,
    )


def _holds_partitions(files: Files, directory: str) -> bool:
    found = map(parse_directory_name, files.listdir(directory))
    return any(each is not None and each[0] != CLUSTER_METADATA_TOPIC for each in found)


def refuse_several(files: Files, config: KafkaConfig, path: str) -> None:
    """`StartError` if the data of several brokers is in a directory that a single one is about to use: it would take
    their directories for partitions, and none of their topics would be served. OSError."""
    layout = read_layout(files, path)
    if layout.of_several or (layout.store and not layout.single and not config.is_clustered):
        raise StartError(
            f"{path} holds the data of several brokers: start them with kwire start --brokers auto --data-dir {path}"
        )


def metadata_directory(files: Files, config: KafkaConfig) -> str | None:
    """Where the store lies that the brokers of the first data directory share; None if it is not one of several."""
    path = config.data_dirs[0]
    layout = read_layout(files, path)
    return f"{path}/{METADATA}" if layout.store and not layout.single else None


def first_id(config: KafkaConfig, layouts: Iterable[Layout], single: int | None) -> int:
    """The id of the first broker: as a property says, else that of the directories, else the default."""
    if config.static.keys() & {"node.id", "broker.id"}:
        return config.node_id
    if single is not None:
        return single
    found = [broker for layout in layouts for broker in layout.brokers]
    return min(found, default=config.node_id)

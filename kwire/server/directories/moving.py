"""A single broker's data directory becomes one of several brokers: its files are moved, nothing is copied.

The partitions, checkpoints and `meta.properties` go to ``broker-ID`` in the same directory, the metadata store to
``metadata``. First a marker is written; it is removed when everything is in place. Every step is a rename that can be
repeated: after a kill or a power loss the next start finds the marker and completes the move, whatever is still where
it was. No broker starts beside the marker (`layout.refuse_several`), so nothing is written in between. The caller
holds the directory's lock.

The partitions are gathered in a directory of another name, because one of them may be called ``broker-1`` itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kwire.cluster.store.embedded import FILE_NAME
from kwire.log.common.checkpoints import CLEAN_SHUTDOWN_FILE, SHUTDOWN_COPY_FILE
from kwire.log.common.log_dirs import META_PROPERTIES_FILE, LogDirectoryError, read_meta_properties
from kwire.log.common.names import is_leaving_directory, parse_directory_name
from kwire.server.directories.layout import MARKER, METADATA, broker_name, is_broker_directory, read_layout
from kwire.server.errors import StartError

if TYPE_CHECKING:
    from kwire.base.doors import Files

_STAGING: Final = ".kwire-staging"
_STORE_PREFIX: Final = FILE_NAME.removesuffix(".sqlite") + "."
_FILES: Final = (META_PROPERTIES_FILE, CLEAN_SHUTDOWN_FILE, SHUTDOWN_COPY_FILE)


def single_broker(files: Files, directories: tuple[str, ...], default: int, *, has_store: bool) -> int | None:
    """The id of the broker whose data is directly in the directories, or was before a move that was not completed; None
    if there is no such broker. ``default``: for a metadata store that no broker has used yet. ``has_store``: whether
    the store is to be found there, too. `StartError` if the data cannot be moved, OSError."""
    found: dict[int, str] = {}
    unused = None
    for path in directories:
        layout = read_layout(files, path)
        if layout.moving:
            found.setdefault(_marked(files, path), path)
            continue
        if not layout.single:
            continue
        if layout.brokers or layout.store:
            raise StartError(
                f"{path} holds the data of a single broker and that of several: move one of them to another directory"
            )
        meta = _read_meta(files, path)
        if meta is not None:
            found.setdefault(meta, path)
        else:
            unused = default
    if len(found) > 1:
        raise StartError("log.dirs: " + " and ".join(f"{path} belongs to node {each}" for each, path in found.items()))
    if any(_has_logs(files, path) for path in directories) and (found or unused is not None):
        _check_complete(files, directories, has_store=has_store)
    return next(iter(found), unused)


def _has_logs(files: Files, directory: str) -> bool:
    """Whether a broker has used a directory; otherwise there is at most a metadata store that a command has made."""
    places = (directory, f"{directory}/{_STAGING}")
    return any(files.exists(f"{each}/{META_PROPERTIES_FILE}") for each in places) or bool(
        read_layout(files, directory).brokers
    )


def _read_meta(files: Files, path: str) -> int | None:
    """The node id of a log directory. `StartError` for what must not be moved."""
    try:
        meta = read_meta_properties(files, path)
    except LogDirectoryError as error:
        raise StartError(str(error)) from None
    if meta is None:
        return None
    if meta.node_id is None:
        raise StartError(f"{path}/{META_PROPERTIES_FILE} has no node.id: first run kwire start --data-dir {path}")
    return meta.node_id


def _check_complete(files: Files, directories: tuple[str, ...], *, has_store: bool) -> None:
    """`StartError` unless the single broker's store is there, and all of its directories."""
    layouts = [read_layout(files, path) for path in directories]
    first = directories[0]
    if has_store and not layouts[0].of_several and not files.exists(f"{first}/{FILE_NAME}"):
        raise StartError(f"{first} has logs but no metadata store: Apache Kafka's are adopted with kwire adopt {first}")
    for path, layout in zip(directories, layouts, strict=True):
        if not (layout.single or layout.of_several):
            raise StartError(
                f"log.dirs: {path} is empty, is it mounted? To move the data of the other directories into place, "
                "leave it out of log.dirs for one start"
            )


def move(files: Files, directory: str, broker_id: int) -> None:
    """Move a single broker's data into place, or complete a move that was interrupted; does nothing if all is in
    place. OSError."""
    layout = read_layout(files, directory)
    if not (layout.single or layout.moving):
        return
    marker, staging, metadata = (f"{directory}/{name}" for name in (MARKER, _STAGING, METADATA))
    if not layout.moving:
        files.write_atomic(marker, json.dumps({"v": 1, "broker": broker_id}).encode())
    names = files.listdir(directory)
    _move_all([name for name in names if name.startswith(_STORE_PREFIX)], files, directory, metadata)
    _move_all([name for name in names if _belongs_to_broker(files, directory, name)], files, directory, staging)
    if files.is_dir(staging):
        files.replace(staging, f"{directory}/{broker_name(broker_id)}")
        files.sync_dir(directory)
    files.unlink(marker)
    files.sync_dir(directory)


def _move_all(names: list[str], files: Files, directory: str, target: str) -> None:
    if not names:
        return
    files.makedirs(target)
    files.sync_dir(directory)
    for name in names:
        files.replace(f"{directory}/{name}", f"{target}/{name}")
    files.sync_dir(target)
    files.sync_dir(directory)


def _belongs_to_broker(files: Files, directory: str, name: str) -> bool:
    """Whether a name in a log directory is one of the broker's: what others have put there stays."""
    if name in _FILES or name.endswith("-checkpoint"):
        return True
    if parse_directory_name(name) is None and not is_leaving_directory(name):
        return False
    return files.is_dir(f"{directory}/{name}") and not is_broker_directory(files, f"{directory}/{name}")


def _marked(files: Files, directory: str) -> int:
    path = f"{directory}/{MARKER}"
    try:
        return int(json.loads(files.read(path))["broker"])
    except (ValueError, KeyError, TypeError):
        raise StartError(f"{path} cannot be read: it says which broker's data is being moved") from None

"""A broker's metadata store, copied while the broker uses it.

The broker holds SQLite's locks for as long as it lives, so the files are copied as they are: twice, until both copies
are alike. Then nothing was written between the end of the first and the beginning of the second one, and they are what
a crash would have left at that moment, which SQLite opens.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from kwire.archive.errors import ArchiveError
from kwire.cluster.store import keys
from kwire.cluster.store.embedded import FILE_NAME, FORMAT_VERSION
from kwire.cluster.store.store import StoreFormatError

_TRIES: Final = 100
_PAUSE_S: Final = 0.02
_WAL: Final = "-wal"


class Topic(NamedTuple):
    """A topic's id, as text, its number of partitions, and its own `cleanup.policy`, if it has one."""

    id: str
    partitions: int
    cleanup_policy: str


class Metadata(NamedTuple):
    """``database``: the bytes of the store, as a broker opens it, without sessions."""

    database: bytes
    cluster_id: str
    topics: dict[str, Topic]


def read_metadata(path: str, node_id: int) -> Metadata:
    """The metadata of a data directory whose broker, ``node_id``, is its whole cluster. `ArchiveError`."""
    if not os.path.exists(f"{path}/{FILE_NAME}"):
        raise ArchiveError(
            f"{path}: has no metadata store: a backup is of a kwire broker that is its whole cluster (not of one of"
            " several, nor of Apache Kafka)"
        )
    with tempfile.TemporaryDirectory(prefix="kwire-backup-") as folder:
        os.chmod(folder, 0o700)
        copy = f"{folder}/{FILE_NAME}"
        main, log = _copied(path)
        Path(copy).write_bytes(main)
        if log:
            Path(copy + _WAL).write_bytes(log)
        try:
            return _read(copy, node_id)
        except sqlite3.Error as error:
            raise ArchiveError(f"{path}/{FILE_NAME}: {error}") from None
        except (StoreFormatError, KeyError, TypeError, ValueError) as error:
            raise ArchiveError(f"{path}/{FILE_NAME}: {error}") from None


def _copied(path: str) -> tuple[bytes, bytes]:
    """The database and its write-ahead log, of one moment. `ArchiveError`."""
    before = None
    for _ in range(_TRIES):
        try:
            found = _bytes(f"{path}/{FILE_NAME}"), _bytes(f"{path}/{FILE_NAME}{_WAL}")
        except OSError as error:
            raise ArchiveError(f"{error.filename}: {error.strerror}") from None
        if found == before:
            return found
        before = found
        time.sleep(_PAUSE_S)
    raise ArchiveError(f"{path}/{FILE_NAME}: changes all the time; try again")


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        if path.endswith(_WAL):
            return b""
        raise


def _read(copy: str, node_id: int) -> Metadata:
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # a copy
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version > FORMAT_VERSION:
            raise StoreFormatError(f"has format {version}: it was written by a newer kwire")
        [state] = connection.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise StoreFormatError(f"damaged: {state}")
        connection.executescript("DELETE FROM entries WHERE session IS NOT NULL; DELETE FROM sessions;")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
        rows: list[tuple[str, bytes]] = connection.execute("SELECT key, value FROM entries").fetchall()
    entries = {key: bytes(value) for key, value in rows}
    if keys.CLUSTER not in entries:
        raise StoreFormatError("has no cluster: no broker has started here yet")
    _check_alone(entries, node_id)
    cluster_id = keys.unpack(keys.CLUSTER, entries[keys.CLUSTER])["id"]
    return Metadata(Path(copy).read_bytes(), cluster_id, _topics(entries))


def _check_alone(entries: dict[str, bytes], node_id: int) -> None:
    """`StoreFormatError` unless all data is in the one directory of this broker."""
    for key, value in _below(keys.DIRECTORIES, entries):
        if len(keys.unpack(key, value)["paths"]) > 1:
            raise StoreFormatError("the broker has several log.dirs: a backup is of a broker with one")
    for key, value in _below(keys.PARTITIONS, entries):
        for state in keys.unpack_shard(key, value):
            if set(state.replicas) != {node_id}:
                raise StoreFormatError(
                    f"a topic has replicas on brokers {', '.join(map(str, state.replicas))}: a backup is of a broker"
                    " that is its whole cluster"
                )


def _topics(entries: dict[str, bytes]) -> dict[str, Topic]:
    ids = {key.removeprefix(keys.TOPICS): keys.unpack(key, value)["id"] for key, value in _below(keys.TOPICS, entries)}
    counts = dict.fromkeys(ids.values(), 0)
    for key, value in _below(keys.PARTITIONS, entries):
        topic_id = key.split("/")[1]
        counts[topic_id] = counts.get(topic_id, 0) + len(keys.unpack_shard(key, value))
    policies = {}
    for key, value in _below(keys.CONFIGS, entries):
        resource, name = keys.config_resource(key)
        if resource == keys.ConfigResource.TOPIC:
            policies[name] = keys.unpack(key, value)["values"].get("cleanup.policy", "")
    return {name: Topic(topic_id, counts[topic_id], policies.get(name, "")) for name, topic_id in ids.items()}


def _below(prefix: str, entries: dict[str, bytes]) -> list[tuple[str, bytes]]:
    return [(key, value) for key, value in sorted(entries.items()) if key.startswith(prefix)]

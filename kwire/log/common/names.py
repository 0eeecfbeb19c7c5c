"""File and directory names of a log, as in Kafka. Pure text: no file is touched here."""

from __future__ import annotations

import re

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"

SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

DELETE_DIRECTORY_SUFFIX = "-delete"
STRAY_DIRECTORY_SUFFIX = "-stray"
FUTURE_DIRECTORY_SUFFIX = "-future"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"  # KRaft's metadata log, which kwire does not serve

MAX_FILE_NAME = 255

_RENAMED_AWAY = re.compile(r"-\d+\.[0-9a-f]{32}-(delete|stray|future)$")
_SEGMENT_FILE = re.compile(r"^(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)$")


def file_name(base_offset: int, suffix: str) -> str:
    """``00000000000000000042.log``: twenty digits, so that names sort like offsets."""
    return f"{base_offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """Base offset and suffix of a segment's file or a producer snapshot; None for any other name."""
    match = _SEGMENT_FILE.match(name)
    return (int(match[1]), match[2]) if match else None


def directory_name(topic: str, partition: int) -> str:
    """``topic-0``, which is also how Kafka's messages name a partition."""
    return f"{topic}-{partition}"


def parse_directory_name(name: str) -> tuple[str, int] | None:
    """Topic and partition of a partition's directory; None for any other name, `-delete`, `-stray` and `-future`
    included."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isascii() or not partition.isdigit():
        return None
    return topic, int(partition)


def leaving_directory_name(topic: str, partition: int, unique: bytes, suffix: str = DELETE_DIRECTORY_SUFFIX) -> str:
    """``topic-0.<32 hex digits>-delete``; a long topic name is shortened so that the whole fits a file name."""
    tail = f"-{partition}.{unique.hex()}{suffix}"
    return topic[: MAX_FILE_NAME - len(tail)] + tail


def is_leaving_directory(name: str) -> bool:
    """Whether a directory was renamed because it is deleted (`-delete`), set aside (`-stray`) or moved (`-future`)."""
    return _RENAMED_AWAY.search(name) is not None

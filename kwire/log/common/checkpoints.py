"""The small text files of a log directory: offset checkpoints, partition metadata, the clean-shutdown marker.

All have Kafka's formats and are replaced atomically. `write_text` syncs only on request: what a power loss then takes
is repaired from the log at the next start. The manager decides which values go in.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from itertools import islice

from kwire.base.doors import Files
from kwire.base.topic_partition import TopicPartition
from kwire.base.uuids import uuid_from_text, uuid_to_text
from kwire.codec.crc import crc32c

RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
LOG_START_OFFSET_FILE = "log-start-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
SHUTDOWN_COPY_FILE = ".kwire_shutdown"
PARTITION_METADATA_FILE = "partition.metadata"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"


class CorruptCheckpoint(Exception):
    """A checkpoint file that cannot be parsed; the text names file and line."""


def write_text(files: Files, path: str, text: str, *, sync: bool = False) -> None:
    """Replace a small file as a whole. OSError."""
    if sync:
        files.write_atomic(path, text.encode())
    else:
        write_bytes(files, path, text.encode())


def write_bytes(files: Files, path: str, data: bytes) -> None:
    """Replace a small file as a whole, without a sync. OSError."""
    temporary = path + ".tmp"
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view, position = memoryview(data), 0
        while view:  # a write to a disk that is nearly full may be short
            written = files.pwrite(fd, view, position)
            view, position = view[written:], position + written
    finally:
        files.close(fd)
    files.replace(temporary, path)


def read_lines(files: Files, path: str) -> list[list[str]] | None:
    """The entries of a checkpoint file (version 0, count, one entry a line), split into words; None without the file.
    CorruptCheckpoint."""
    if not files.exists(path):
        return None
    try:
        lines = files.read(path).decode().split("\n")
        if lines == [""]:
            return []  # Kafka creates the file before it has an entry
        version, count = int(lines[0]), int(lines[1])
    except (ValueError, IndexError) as error:
        raise CorruptCheckpoint(f"{path}: does not begin with a version and a number of entries") from error
    if version != 0:
        raise CorruptCheckpoint(f"{path}: version {version} is not known")
    entries = [line.split() for line in lines[2:] if line]
    if len(entries) != count:
        raise CorruptCheckpoint(f"{path}: {len(entries)} entries where {count} are announced")
    return entries


def join_lines(entries: list[str]) -> str:
    """The text of a checkpoint file with these lines."""
    return "\n".join(["0", str(len(entries)), *entries, ""])


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """Read ``topic partition offset`` lines; empty without the file. CorruptCheckpoint."""
    offsets: dict[TopicPartition, int] = {}
    for words in read_lines(files, path) or []:
        try:
            topic, partition, offset = words
            offsets[topic, int(partition)] = int(offset)
        except ValueError as error:
            raise CorruptCheckpoint(f"{path}: {' '.join(words)}") from error
    return offsets


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
    """Replace a checkpoint of offsets. With ``sync`` it waits for the disk. OSError."""
    write_text(files, path, offsets_text(offsets), sync=sync)


def offsets_text(offsets: Mapping[TopicPartition, int]) -> str:
    """The text of a checkpoint of offsets, sorted by topic and partition."""
    return join_lines(_offset_lines(sorted(offsets.items())))


def offsets_text_in_slices(
    offsets: Mapping[TopicPartition, int], slice_lines: int, left_out: int
) -> Generator[None, None, str]:
    """The text of a checkpoint of all offsets but those that are ``left_out``, with a step before every
    ``slice_lines`` lines. They keep their order: sorting ten thousand takes 3 ms."""
    lines: list[str] = []
    items = iter(offsets.items())
    while some := list(islice(items, slice_lines)):
        yield
        lines += _offset_lines(each for each in some if each[1] != left_out)
    return join_lines(lines)


def _offset_lines(offsets: Iterable[tuple[TopicPartition, int]]) -> list[str]:
    return [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets]


def read_topic_id(files: Files, directory: str) -> bytes | None:
    """The topic id in `partition.metadata`; None without the file. CorruptCheckpoint."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    if not files.exists(path):
        return None
    fields: dict[str, str] = {}
    try:
        for line in files.read(path).decode().splitlines():
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
        if fields.get("version") != "0":
            raise CorruptCheckpoint(f"{path}: version {fields.get('version', 'missing')} is not known")
        return uuid_from_text(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error


def write_topic_id(files: Files, directory: str, topic_id: bytes, *, sync: bool = False) -> None:
    """Replace `partition.metadata` of a partition's directory. OSError."""
    write_text(files, f"{directory}/{PARTITION_METADATA_FILE}", topic_id_text(topic_id), sync=sync)


def topic_id_text(topic_id: bytes) -> str:
    """The text of `partition.metadata`."""
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n"


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int = -1) -> None:
    """Write the clean-shutdown marker: every log of the directory was closed, and the next start needs no recovery."""
    text = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
    write_text(files, f"{directory}/{CLEAN_SHUTDOWN_FILE}", text, sync=True)


def take_clean_shutdown(files: Files, directory: str) -> bool:
    """Whether the last shutdown was clean; removes the marker, which must not survive a crash of this start."""
    path = f"{directory}/{CLEAN_SHUTDOWN_FILE}"
    if not files.exists(path):
        return False
    files.unlink(path)
    files.sync_dir(directory)
    return True


def write_shutdown_copy(files: Files, directory: str, texts: Mapping[str, str]) -> None:
    """Keep a copy of the small files' texts at a clean shutdown, with a checksum. Kafka's formats have none, so that a
    corrupted digit in one of them would go unnoticed."""
    import json

    body = json.dumps({"version": 0, "texts": dict(texts)})
    write_text(files, f"{directory}/{SHUTDOWN_COPY_FILE}", f"{crc32c(body.encode()):08x}\n{body}", sync=True)


def take_shutdown_copy(files: Files, directory: str) -> dict[str, str]:
    """The texts of `write_shutdown_copy`, by file; empty without a copy or if it is damaged. Removes the copy, which
    holds for this start only."""
    import json

    path = f"{directory}/{SHUTDOWN_COPY_FILE}"
    if not files.exists(path):
        return {}
    checksum, _, body = files.read(path).partition(b"\n")
    files.unlink(path)
    if checksum != b"%08x" % crc32c(body):
        return {}
    kept = json.loads(body)
    return dict(kept["texts"]) if kept.get("version") == 0 else {}


def restore(files: Files, directory: str, kept: Mapping[str, str]) -> list[str]:
    """Rewrite the small files whose texts differ from those of `take_shutdown_copy`; the paths of those files."""
    restored = []
    for file, text in kept.items():
        path = f"{directory}/{file}"
        if not files.exists(os.path.dirname(path)):
            continue
        found = files.read(path) if files.exists(path) else None
        if found != text.encode() and (found is not None or text != join_lines([])):
            write_text(files, path, text)
            restored.append(path)
    return restored

"""Reading KRaft's metadata from a log directory: the newest snapshot, then the log after it.

The partition ``__cluster_metadata-0`` has ordinary segments and snapshots, ``<end offset>-<epoch>.checkpoint``, which
consist of batches, too, between a header and a footer. A snapshot replaces the log before its end offset. A directory
that is formatted but was never used has its first records in ``bootstrap.checkpoint``. Nothing is written here.

Whatever Kafka has acknowledged is complete on the disk. So a batch that ends with the last segment's file was never
acknowledged, and is left out with a note; any other damage is an error, because an entry that denies access could be in
it. The end of the log may have records that the quorum of several controllers has not confirmed; they are taken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from kwire.base.doors import Files
from kwire.cluster.kraft.metadata import KafkaMetadata, MetadataLogError
from kwire.cluster.kraft.records import decode_metadata_record
from kwire.codec.errors import CodecError
from kwire.codec.records import iter_records
from kwire.codec.records.control import parse_control_key
from kwire.codec.records.header import HEADER_SIZE, parse_header
from kwire.log.common import names
from kwire.log.segment.batch_scan import CorruptLog, ScannedBatch, scan
from kwire.log.segment.damage import next_batch

METADATA_DIRECTORY: Final = names.directory_name(names.CLUSTER_METADATA_TOPIC, 0)
BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
BATCH_BYTES_MAX: Final = 64 << 20
"""Kafka's limit of a batch of metadata records is 8 MiB; decompressed it must not be larger than this."""

_SNAPSHOT: Final = re.compile(r"^(\d{20})-(\d{10})\.checkpoint$")
_SNAPSHOT_HEADER: Final = 3
_SNAPSHOT_FOOTER: Final = 4
_OFFSET_MAX: Final = 2**63 - 1
_ZEROS_CHUNK: Final = 1 << 20


class _Snapshot(NamedTuple):
    end_offset: int
    epoch: int
    name: str


def has_metadata(files: Files, log_dir: str) -> bool:
    """Whether there is KRaft's metadata in an entry of `log.dirs`."""
    return files.is_dir(f"{log_dir}/{METADATA_DIRECTORY}") or files.exists(f"{log_dir}/{BOOTSTRAP_FILE}")


def read_metadata(files: Files, log_dir: str) -> KafkaMetadata:
    """The metadata in an entry of `log.dirs`, or in `metadata.log.dir`. `MetadataLogError`, OSError."""
    directory = f"{log_dir}/{METADATA_DIRECTORY}"
    found = sorted(files.listdir(directory)) if files.is_dir(directory) else []
    snapshots = sorted(
        _Snapshot(int(match[1]), int(match[2]), match[0]) for match in map(_SNAPSHOT.match, found) if match
    )
    segments = [parsed[0] for parsed in map(names.parse_file_name, found) if parsed and parsed[1] == names.LOG_SUFFIX]
    bootstrap = f"{log_dir}/{BOOTSTRAP_FILE}"
    if not snapshots and not segments and not files.exists(bootstrap):
        raise MetadataLogError(f"{directory} has neither segments nor snapshots")
    metadata = KafkaMetadata()
    if snapshots:
        _read_snapshot(files, f"{directory}/{snapshots[-1].name}", metadata)
        metadata.end_offset = snapshots[-1].end_offset
    _read_log(files, directory, segments, metadata)
    if metadata.end_offset == 0 and files.exists(bootstrap):
        _read_snapshot(files, bootstrap, metadata)
    metadata.finish()
    return metadata


def _read_snapshot(files: Files, path: str, metadata: KafkaMetadata) -> None:
    """Replay a snapshot. Its last record must be the footer."""
    control: list[int] = []
    expected = 0
    with _Opened(files, path) as opened:
        try:
            for batch in opened.batches():
                expected = _check_offset(path, batch, expected)
                complete = control[-1:] == [_SNAPSHOT_FOOTER]
                if complete or (not control and not batch.header.is_control):
                    raise MetadataLogError(f"{path} at position {batch.position}: a record is outside of the snapshot")
                control += _replay(path, batch, metadata, 0)
        except CorruptLog as error:
            raise MetadataLogError(str(error)) from None
    if control[:1] != [_SNAPSHOT_HEADER] or control[-1:] != [_SNAPSHOT_FOOTER]:
        raise MetadataLogError(f"{path} is not a complete snapshot")


def _read_log(files: Files, directory: str, segments: list[int], metadata: KafkaMetadata) -> None:
    """Replay the records after the snapshot, if there is one."""
    start = metadata.end_offset
    needed = [base for base, following in pairwise([*segments, _OFFSET_MAX]) if following > start]
    if needed and needed[0] > start:
        raise MetadataLogError(f"{directory}: the records from offset {start} to {needed[0] - 1} are missing")
    expected = needed[0] if needed else start
    for base in needed:
        path = f"{directory}/{names.file_name(base, names.LOG_SUFFIX)}"
        if base != expected:
            raise MetadataLogError(f"{directory}: the records from offset {expected} to {base - 1} are missing")
        expected = _read_segment(files, path, metadata, expected, last=base == needed[-1])
    if expected < start:
        raise MetadataLogError(f"{directory}: the log ends at offset {expected}, before the snapshot of offset {start}")


def _read_segment(files: Files, path: str, metadata: KafkaMetadata, expected: int, *, last: bool) -> int:
    """Replay a segment; the offset after it."""
    start = metadata.end_offset
    with _Opened(files, path) as opened:
        try:
            for batch in opened.batches():
                expected = _check_offset(path, batch, expected)
                if expected > start:
                    _replay(path, batch, metadata, start)
                    metadata.end_offset = expected
        except CorruptLog as error:
            if not last or not opened.is_torn(error.position, expected):
                raise MetadataLogError(f"{error}; Apache Kafka may be able to recover it at its next start") from None
            left = opened.size - error.position
            metadata.notes.append(f"the last {left} bytes of {path}: a batch that was not completely written")
    return expected


class _Opened:
    """A file of batches that is open for reading."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._fd = files.open(path, os.O_RDONLY)
        self.size = files.size(self._fd)

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_error: object) -> None:
        self._files.close(self._fd)

    def batches(self) -> Iterator[ScannedBatch]:
        """All batches. `CorruptLog`."""
        return scan(self._files, self._fd, self._path, 0, self.size, check_crc=True)

    def is_torn(self, position: int, expected: int) -> bool:
        """Whether there is only the beginning of the next batch at a position, or nothing but zeros: what is left when
        the host fails while the batch is written."""
        if next_batch(self._files, self._fd, position, self.size, expected, _OFFSET_MAX) is not None:
            return False
        start = self._files.pread(self._fd, HEADER_SIZE, position)
        if not start.strip(b"\0"):
            return self._is_zero(position)
        if len(start) < HEADER_SIZE:
            return True
        try:
            header = parse_header(start)
        except CodecError:
            return False
        return header.base_offset == expected and position + header.size > self.size

    def _is_zero(self, position: int) -> bool:
        while position < self.size:
            chunk = self._files.pread(self._fd, min(_ZEROS_CHUNK, self.size - position), position)
            if not chunk or chunk.strip(b"\0"):
                return False
            position += len(chunk)
        return True


def _check_offset(path: str, batch: ScannedBatch, expected: int) -> int:
    """The offset after a batch, which must begin with the expected one."""
    if batch.header.base_offset != expected:
        found = batch.header.base_offset
        raise MetadataLogError(
            f"{path} at position {batch.position}: a batch begins with offset {found}, not {expected}"
        )
    return batch.header.next_offset


def _replay(path: str, batch: ScannedBatch, metadata: KafkaMetadata, start: int) -> list[int]:
    """Replay the records of a batch from an offset on; the types of its control records, which are not replayed."""
    control = []
    try:
        for record in iter_records(batch.data, max_bytes=BATCH_BYTES_MAX):
            if batch.header.is_control:
                control.append(parse_control_key(record).type)
            elif record.offset >= start and (message := decode_metadata_record(record.value)) is not None:
                metadata.replay(message)
    except (CodecError, MetadataLogError) as error:
        raise MetadataLogError(f"{path} at position {batch.position}: {error}") from None
    return control

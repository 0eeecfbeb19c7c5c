"""``kwire dump-log FILE...``: print the contents of a data directory's files, line by line.

Segments (``.log``) are printed batch by batch and, with ``--records``, record by record; records of internal topics are
decoded. Indexes, producer snapshots and checkpoints are printed entry by entry. With ``--json`` every line is one JSON
object. A damaged file is printed up to the damage, which is reported on standard error; the exit status is then 1.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

from kwire.base.doors import Files
from kwire.cli import fail, output
from kwire.cli.record_decoders import decoder_for
from kwire.codec.errors import CodecError
from kwire.codec.records import iter_records
from kwire.log.common import names
from kwire.log.common.checkpoints import CorruptCheckpoint, read_lines
from kwire.log.segment.batch_scan import CorruptLog, ScannedBatch, scan
from kwire.log.segment.indexes import OffsetIndex, TimeIndex, TransactionIndex
from kwire.log.state.producer_snapshot import CorruptSnapshot, SnapshotEntry, decode_snapshot

Line = dict[str, Any]
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_DECOMPRESSED_BYTES = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``kwire dump-log``."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="a segment, index, snapshot or checkpoint")
    parser.add_argument("--records", action="store_true", help="also the records of each batch")
    output.add_arguments(parser)
    parser.add_argument("--json", action="store_const", const="jsonl", dest="output", help="short for -o jsonl")
    parser.add_argument(
        "--decoder",
        metavar="TOPIC",
        help="read records as those of this internal topic (default: the name of the file's directory)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print every file; 1 if one of them is damaged or cannot be read."""
    status = 0
    lines = output.Stream(arguments.output, as_text)
    for path in arguments.files:
        try:
            for line in dump(path, records=arguments.records, topic=arguments.decoder):
                lines.add(line)
        except (CorruptLog, CorruptCheckpoint, CorruptSnapshot, CodecError, UnicodeDecodeError) as error:
            text = str(error)
            status = fail(text if path in text else f"{path}: {text}")
        except BrokenPipeError:  # the reader of the output has ended; the file is not at fault
            raise
        except OSError as error:
            status = fail(f"{path}: {error.strerror or error}")
    lines.close()
    return status


def dump(path: str, *, records: bool = False, topic: str | None = None) -> Iterator[Line]:
    """The lines of one file, whose name determines its format. OSError; for damage, the exceptions of `kwire.log`."""
    name = os.path.basename(path)
    parsed = names.parse_file_name(name)
    yield {"file": path, "bytes": os.stat(path).st_size}
    if parsed is None:
        yield from _dump_other(path, name)
        return
    base_offset, suffix = parsed
    if suffix == names.LOG_SUFFIX:
        yield from _dump_segment(path, records, topic)
    elif suffix == names.INDEX_SUFFIX:
        for relative, position in OffsetIndex(Files(), path, new=False).entries():
            yield {"offset": base_offset + relative, "position": position}
    elif suffix == names.TIME_INDEX_SUFFIX:
        for timestamp, relative in TimeIndex(Files(), path, new=False).entries():
            yield {"timestamp": timestamp, "offset": base_offset + relative}
    elif suffix == names.TXN_INDEX_SUFFIX:
        for aborted in TransactionIndex(Files(), path, new=False).entries():
            yield aborted._asdict()
    else:
        yield from (SnapshotEntry(*entry)._asdict() for entry in decode_snapshot(Files().read(path)))


def _dump_other(path: str, name: str) -> Iterator[Line]:
    if name.endswith("-checkpoint"):
        for words in read_lines(Files(), path) or ():
            keys = ("topic", "partition", "offset") if len(words) == 3 else ("epoch", "start_offset")
            yield dict(zip(keys, words, strict=False))
        return
    if name.endswith((".metadata", ".properties")) or name == ".kafka_cleanshutdown":
        for text in Files().read(path).decode().splitlines():
            yield {"line": text}
        return
    kinds = ".log, .index, .timeindex, .txnindex, .snapshot, *-checkpoint, partition.metadata, meta.properties"
    raise CorruptCheckpoint(f"{path}: not a file that a broker writes ({kinds})")


def _dump_segment(path: str, records: bool, topic: str | None) -> Iterator[Line]:
    directory = names.parse_directory_name(os.path.basename(os.path.dirname(os.path.abspath(path))))
    decode = decoder_for(topic or (directory[0] if directory else ""))
    files = Files()
    fd = files.open(path, os.O_RDONLY)
    try:
        for batch in scan(files, fd, path, 0, files.size(fd), check_crc=True):
            yield _batch_line(batch)
            if records or decode is not None:
                yield from _record_lines(batch, decode)
    finally:
        files.close(fd)


def _batch_line(batch: ScannedBatch) -> Line:
    header = batch.header
    line: Line = {
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "size": header.size,
        "partition_leader_epoch": header.partition_leader_epoch,
        "compression": COMPRESSIONS[header.compression] if header.compression < 5 else header.compression,
        "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "max_timestamp": header.max_timestamp,
        "crc": header.crc,
    }
    if header.producer_id >= 0:
        line |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "transactional": header.is_transactional,
            "control": header.is_control,
        }
    return line


def _record_lines(batch: ScannedBatch, decode: Any) -> Iterator[Line]:
    for record in iter_records(batch.data, max_bytes=MAX_DECOMPRESSED_BYTES):
        key, value = record.key, record.value
        line: Line = {"record": record.offset, "timestamp": record.timestamp}
        if decode is not None and not batch.header.is_control:
            line["key"], line["value"] = decode(key, value)
        else:
            line |= {"key": _text(key), "value": _text(value)}
        if record.headers:
            line["headers"] = [[name, _text(content)] for name, content in record.headers]
        yield line


def _text(data: bytes | None) -> str | None:
    """Bytes as text if they are printable UTF-8, otherwise as hex."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
    return text if text.isprintable() else "0x" + data.hex()


def as_text(line: Line) -> str:
    """A line for people: the record lines indented under their batch."""
    if "file" in line:
        return f"{line['file']} ({line['bytes']} bytes)"
    indent = "    " if "record" in line else "  "
    return indent + " ".join(f"{name}={value}" for name, value in line.items())

"""Record batches against Kafka's own classes: each side reads what the other wrote, and both refuse the same damage."""

from __future__ import annotations

import base64
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.java_programs import Oracle
from kwire.codec.errors import CorruptBatch
from kwire.codec.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    Record,
    build_batch,
    build_control_batch,
    crc_is_valid,
    iter_headers,
    iter_records,
    parse_control_key,
    parse_end_transaction_marker,
    parse_header,
    with_log_append_time,
)
from kwire.codec.records.header import seal

pytestmark = pytest.mark.java

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LEVELS: dict[str, list[int | None]] = {
    "none": [None],
    "gzip": [None, 1, 9],
    "snappy": [None],
    "lz4": [None, 1, 17],
    "zstd": [None, -5, 19],
}
MAX_BYTES = 1 << 24


class BatchOracle:
    """Kafka's own classes; see `BatchOracle.java` for its questions."""

    def __init__(self) -> None:
        self._oracle = Oracle(Path(__file__).with_name("BatchOracle.java"))

    def read(self, batch: bytes) -> str:
        """The batch in words, or "error" and a reason."""
        return self._oracle.ask("read " + base64.b64encode(batch).decode())

    def write(self, line: str) -> bytes:
        """The batch that Java writes from words."""
        answer = self._oracle.ask(line)
        assert not answer.startswith("error"), answer
        return base64.b64decode(answer)

    def close(self) -> None:
        self._oracle.close()


@pytest.fixture(scope="module")
def oracle() -> Iterator[BatchOracle]:
    program = BatchOracle()
    yield program
    program.close()


def hexed(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def spelled(record: Record) -> str:
    headers = ",".join(f"{name.encode().hex()}={hexed(value)}" for name, value in record.headers)
    return f"{record.offset}:{record.timestamp}:{hexed(record.key)}:{hexed(record.value)}:{headers}"


def described(buffer: bytes) -> str:
    """The same text as the oracle's `read`, made by kwire. Raises CorruptBatch where Java reports an error."""
    text = []
    for position, header in iter_headers(buffer):
        if not crc_is_valid(buffer, position, header):
            raise CorruptBatch("crc")
        fields = [
            header.base_offset,
            header.last_offset,
            header.next_offset,
            header.count,
            header.partition_leader_epoch,
            header.crc,
            header.compression,
            header.timestamp_type,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_sequence,
            int(header.is_transactional),
            int(header.is_control),
            -1 if header.delete_horizon_ms is None else header.delete_horizon_ms,
            header.size,
        ]
        text.append(" ".join(["batch", *map(str, fields)]))
        for record in iter_records(memoryview(buffer)[position : position + header.size], max_bytes=MAX_BYTES):
            line = spelled(record)
            if header.is_control:
                marker = parse_end_transaction_marker(record)
                assert marker is not None
                line += f":{parse_control_key(record).type}/{marker.coordinator_epoch}"
            text.append(" " + line)
    return "".join(text)


def some_records(rng: random.Random, base_offset: int) -> list[Record]:
    offset, records = base_offset, []
    for _ in range(rng.choice([1, 2, 10, 60])):
        offset += rng.choice([0, 0, 0, 1, 1000])
        key, value = (
            rng.choice([None, b"", rng.randbytes(rng.randrange(40)), b"kafka" * rng.randrange(2000)]) for _ in range(2)
        )
        names = ["", "a", "ключ", "header"]
        headers = [
            (rng.choice(names), rng.choice([None, b"", rng.randbytes(5)])) for _ in range(rng.choice([0, 0, 1, 5]))
        ]
        timestamp = rng.choice([-1, 0, 1_700_000_000_000 + rng.randrange(10**6), rng.randrange(2**50)])
        records.append(Record(offset, timestamp, key, value, headers))
        offset += 1
    return records


def cases(seed: int, name: str, count: int) -> Iterator[tuple[str, bytes]]:
    """For random batches, the line that makes Java write the batch, and the same batch written by kwire."""
    rng = random.Random(seed)
    for index in range(count):
        level = LEVELS[name][index % len(LEVELS[name])]
        base_offset = rng.choice([0, 5, 2**40])
        append_time = rng.choice([None, 1_800_000_000_000])
        idempotent = rng.random() < 0.5
        producer = (
            (rng.randrange(2**40), rng.randrange(100), rng.choice([0, 7, 2**31 - 2])) if idempotent else (-1,) * 3
        )
        transactional = idempotent and rng.random() < 0.5
        horizon = rng.choice([None, None, 1_650_000_000_000]) if append_time is None else None
        leader_epoch = rng.choice([-1, 0, 33])
        records = some_records(rng, base_offset)
        words = [
            "write",
            CODECS[name],
            "-" if level is None else level,
            base_offset,
            int(append_time is not None),
            -1 if append_time is None else append_time,
            *producer,
            int(transactional),
            leader_epoch,
            -1 if horizon is None else horizon,
            *map(spelled, records),
        ]
        batch = build_batch(
            records,
            base_offset=base_offset,
            compression=CODECS[name],
            compression_level=level,
            timestamp_type=CREATE_TIME if append_time is None else LOG_APPEND_TIME,
            max_timestamp=append_time,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            partition_leader_epoch=leader_epoch,
            is_transactional=transactional,
            delete_horizon_ms=horizon,
        )
        yield " ".join(map(str, words)), batch


@pytest.mark.parametrize("name", CODECS)
def test_both_read_what_the_other_wrote(oracle: BatchOracle, name: str) -> None:
    for line, ours in cases(2026, name, 60):
        theirs = oracle.write(line)
        assert described(theirs) == oracle.read(theirs)
        assert described(ours) == oracle.read(ours)
        if name == "none":
            assert ours == theirs


def test_several_batches_in_one_buffer(oracle: BatchOracle) -> None:
    buffer = b"".join(batch for name in CODECS for _, batch in cases(7, name, 3))
    assert described(buffer) == oracle.read(buffer)


def test_batches_larger_than_a_block_of_any_compression(oracle: BatchOracle) -> None:
    rng = random.Random(1)
    records = [Record(i, 5, None, rng.randbytes(50_000) + b"x" * 150_000) for i in range(10)]
    for codec in CODECS.values():
        ours = build_batch(records, compression=codec)
        assert described(ours) == oracle.read(ours)
        theirs = oracle.write(" ".join(["write", str(codec), "- 0 0 -1 -1 -1 -1 0 -1 -1", *map(spelled, records)]))
        assert described(theirs) == oracle.read(theirs)


@pytest.mark.parametrize("kind", [0, 1])
def test_end_markers_are_equal_byte_for_byte(oracle: BatchOracle, kind: int) -> None:
    theirs = oracle.write(f"marker {kind} 77 1700000000000 3 4000 5 12")
    ours = build_control_batch(
        kind,
        producer_id=4000,
        producer_epoch=5,
        coordinator_epoch=12,
        timestamp=1_700_000_000_000,
        base_offset=77,
        partition_leader_epoch=3,
    )
    assert ours == theirs
    assert described(theirs) == oracle.read(theirs)


def test_java_accepts_a_batch_whose_time_was_patched(oracle: BatchOracle) -> None:
    for _, batch in cases(11, "gzip", 10):
        buffer = bytearray(batch)
        with_log_append_time(buffer, 0, 1_900_000_000_000)
        assert described(bytes(buffer)) == oracle.read(bytes(buffer))


def test_what_one_refuses_the_other_refuses(oracle: BatchOracle) -> None:
    """Damaged records with a correct checksum: the same records, or an error on both sides."""
    rng = random.Random(99)
    refused = accepted = 0
    for _, batch in [case for seed in range(25) for case in cases(seed, "none", 60)]:
        if len(batch) > 2000:
            continue
        damaged = bytearray(batch)
        for _ in range(rng.choice([1, 1, 2, 5])):
            damaged[rng.randrange(61, len(damaged))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        if rng.random() < 0.2:
            # Never 0: Java then checks nothing, while kwire refuses the remaining bytes.
            struct.pack_into(">i", damaged, 57, max(parse_header(damaged).count + rng.choice([-1, 1]), 1))
        seal(damaged, 0, len(damaged))
        theirs = oracle.read(bytes(damaged))
        try:
            ours = described(bytes(damaged))
        except (CorruptBatch, UnicodeEncodeError) as error:
            # Java replaces invalid UTF-8 in a header's name; kwire keeps it, which this text cannot represent.
            assert theirs.startswith("error") or isinstance(error, UnicodeEncodeError), (bytes(damaged), theirs)
            refused += 1
        else:
            assert theirs == ours, bytes(damaged)
            accepted += 1
    assert refused > 100
    assert accepted > 100

"""A few hostile bytes must not cause much work: limits and errors of `kwire.log.partition.validator`."""

from __future__ import annotations

import struct

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.compression import ZSTD, compress
from kwire.codec.crc import crc32c
from kwire.codec.records import Record, build_batch
from kwire.log.common.log_config import LogConfig
from kwire.log.partition import validator

SMALLEST = b"\x0c\x00\x00\x00\x01\x01\x00"


def repeated(count: int, codec: int) -> bytes:
    """A batch of the smallest record, many times; all have offset delta 0."""
    body = compress(codec, SMALLEST * count)
    batch = bytearray(build_batch([Record(value=b"")])[:61])
    struct.pack_into(">i", batch, 8, 49 + len(body))
    struct.pack_into(">hi", batch, 21, codec, count - 1)
    struct.pack_into(">i", batch, 57, count)
    batch += body
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


def refusal(records: bytes) -> ErrorCode:
    config = LogConfig()
    with pytest.raises(KafkaError) as caught:
        validator.client_batch(records, config, "t-0")
        validator.walk(records, config, 0, "t-0")
    return caught.value.code


def test_a_compressed_batch_of_millions_of_records_is_too_large_before_it_is_decompressed() -> None:
    batch = repeated(1_000_000, ZSTD)
    assert len(batch) < 1000
    assert refusal(batch) is ErrorCode.MESSAGE_TOO_LARGE


def test_records_with_gaps_in_their_offsets_are_invalid_when_they_are_walked() -> None:
    assert refusal(repeated(3, 0)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (b"\x00" * 11, ErrorCode.INVALID_RECORD),
        (b"\x00" * 200, ErrorCode.CORRUPT_MESSAGE),
        (b"\x4a" * 200, ErrorCode.CORRUPT_MESSAGE),  # a huge length, but the magic is checked first
        (struct.pack(">qiib", 0, 17, 0, 0) + b"\x00" * 40, ErrorCode.INVALID_RECORD),
        (build_batch([Record(value=b"v")])[:-1], ErrorCode.INVALID_RECORD),
        (build_batch([Record(value=b"v")])[:-1] + b"x", ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_bytes_that_are_not_a_batch_get_kafkas_error_code(records: bytes, code: ErrorCode) -> None:
    assert refusal(records) is code

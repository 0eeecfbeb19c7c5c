"""The four compressions: round trips, foreign framings, levels, damage and bombs."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc

import lz4.frame
import pytest
import snappy
import zstandard

from harness.processor.cpu_time import CpuTime
from kwire.codec.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
from kwire.codec.errors import CorruptBatch

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
MAX = 1 << 22
SAMPLES = [b"", b"x", b"kafka " * 1000, os.urandom(100_000), b"\x00" * 1_000_000, bytes(range(256)) * 600]


@pytest.mark.parametrize("codec", [0, *CODECS])
@pytest.mark.parametrize("data", SAMPLES, ids=lambda data: f"{len(data)}b")
def test_what_was_compressed_comes_back(codec: int, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, MAX) == data
    assert decompress(codec, memoryview(packed), len(data)) == data
    assert compress(codec, memoryview(data)) == packed


@pytest.mark.parametrize("codec", [0, *CODECS])
def test_one_byte_more_than_the_bound_is_refused(codec: int) -> None:
    packed = compress(codec, b"kafka " * 10_000)
    with pytest.raises(CorruptBatch):
        decompress(codec, packed, 59_999)


@pytest.mark.parametrize("codec", CODECS)
def test_data_that_ends_too_early_is_refused(codec: int) -> None:
    packed = compress(codec, os.urandom(70_000))
    for cut in (0, 1, 3, 10, 20, len(packed) // 2, len(packed) - 1):
        try:
            assert len(decompress(codec, packed[:cut], MAX)) < 70_000, "a cut stream gave everything"
        except CorruptBatch:
            continue
        assert codec == SNAPPY, "only xerial's framing has valid prefixes"


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_bytes_after_the_end_are_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, b"kafka " * 100) + b"\x01", MAX)


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_is_refused(codec: int) -> None:
    for garbage in (b"\x00" * 40, b"\xff" * 40, os.urandom(500), b"\x82SNAPPY\x00\x00"):
        with pytest.raises(CorruptBatch):
            decompress(codec, garbage, MAX)


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_a_compression_that_does_not_exist_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, b"", MAX)
    with pytest.raises(ValueError, match="does not exist"):
        compress(codec, b"")


def bombs() -> list[tuple[int, bytes]]:
    zeros = b"\x00" * (64 << 20)
    return [
        (GZIP, gzip.compress(zeros, 1)),
        (SNAPPY, snappy.compress(zeros)),
        (SNAPPY, compress(SNAPPY, zeros)),
        (LZ4, lz4.frame.compress(zeros)),
        (LZ4, lz4.frame.compress(zeros, store_size=False)),
        (ZSTD, zstandard.ZstdCompressor().compress(zeros)),
        (ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(zeros)),
    ]


def test_a_bomb_ends_quickly_and_in_little_memory() -> None:
    for codec, bomb in bombs():
        tracemalloc.start()
        with CpuTime() as spent, pytest.raises(CorruptBatch):
            decompress(codec, bomb, 1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert spent.seconds < 1.0
        assert peak < 8 << 20


def test_a_declared_size_alone_takes_no_memory() -> None:
    claims = [
        (SNAPPY, b"\xff\xff\xff\xff\x07" + b"\x00" * 20),
        (SNAPPY, compress(SNAPPY, b"")[:16] + struct.pack(">i", 10) + b"\xff\xff\xff\xff\x07" + b"\x00" * 5),
        (ZSTD, b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40) + b"\x01\x00\x00"),
        (LZ4, lz4.frame.compress(b"x")[:6] + struct.pack("<Q", 1 << 40) + b"\x00\x00\x00\x00\x00"),
    ]
    for codec, claim in claims:
        tracemalloc.start()
        with pytest.raises(CorruptBatch):
            decompress(codec, claim, 1 << 30)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 << 20


def test_gzip_of_many_members_is_read_up_to_a_bound() -> None:
    member = gzip.compress(b"abc")
    assert decompress(GZIP, member * 10, MAX) == b"abc" * 10
    with pytest.raises(CorruptBatch, match="more than 29 bytes"):
        decompress(GZIP, member * 10, 29)
    with pytest.raises(CorruptBatch, match="members"):
        decompress(GZIP, member * 65, MAX)


def test_snappy_is_read_raw_and_written_in_xerials_frame() -> None:
    data = bytes(range(256)) * 1000
    assert decompress(SNAPPY, snappy.compress(data), MAX) == data
    packed = compress(SNAPPY, data)
    assert packed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    (block,) = struct.unpack_from(">i", packed, 16)
    assert snappy.uncompress(packed[20 : 20 + block]) == data[: 32 * 1024]


@pytest.mark.parametrize("size", [0, -1, 2**31 - 1])
def test_a_snappy_block_of_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(CorruptBatch, match="a block of"):
        decompress(SNAPPY, compress(SNAPPY, b"") + struct.pack(">i", size) + b"\x00", MAX)


def test_lz4_is_written_with_independent_blocks_and_read_with_linked_ones_too() -> None:
    data = b"kafka " * 50_000
    descriptor = compress(LZ4, data)[4]
    assert descriptor & 0x20, "Java refuses frames of linked blocks"
    assert descriptor >> 6 == 1
    for linked in (True, False):
        for checksum in (True, False):
            frame = lz4.frame.compress(data, block_linked=linked, content_checksum=checksum, block_checksum=checksum)
            assert decompress(LZ4, frame, MAX) == data


def test_zstd_is_read_with_and_without_its_size_in_front() -> None:
    data = b"kafka " * 50_000
    for known in (True, False):
        frame = zstandard.ZstdCompressor(write_content_size=known, write_checksum=True).compress(data)
        assert decompress(ZSTD, frame, len(data)) == data
        with pytest.raises(CorruptBatch):
            decompress(ZSTD, frame, len(data) - 1)


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(GZIP, 1, 9), (LZ4, 1, 12), (LZ4, 9, 17), (ZSTD, -50, 19), (ZSTD, 1, 22)]
)
def test_higher_levels_make_less_of_it(codec: int, low: int, high: int) -> None:
    data = b"".join(b"%d,%d;" % (i, i * i % 977) for i in range(20_000))
    fast, dense = compress(codec, data, low), compress(codec, data, high)
    assert len(dense) < len(fast)
    assert decompress(codec, fast, MAX) == decompress(codec, dense, MAX) == data

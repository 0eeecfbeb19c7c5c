"""The four compressions of record batches, each with a bound on what it may decompress to.

`compress` writes what Java's clients read: gzip; snappy in xerial's framing; lz4 frames of independent 64 KiB blocks
(Java refuses linked ones); zstd. `decompress` also reads snappy without a frame, which some clients send, and lz4 with
linked blocks. Only magic 2 is known here, so lz4 frames have the proper header checksum.

Levels are those of compression.gzip.level (1 to 9, default -1), compression.lz4.level (1 to 17, default 9, which
in Kafka means the fast compressor) and compression.zstd.level (-131072 to 22, default 3). Snappy has none.

The libraries are loaded when they are first needed: a broker that passes batches on never needs them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct

from kwire.codec.errors import CorruptBatch, DecompressedTooLarge

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")  # in configurations and tools; the index is the type

GZIP_LEVEL_DEFAULT = -1
LZ4_LEVEL_DEFAULT = 9
ZSTD_LEVEL_DEFAULT = 3

_GZIP_WINDOW = 31  # 15 bits, and 16 for the gzip wrapper
_GZIP_MEMBERS_MAX = 64  # RFC 1952 allows many after each other; each costs a new decompressor

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable since version 1
_XERIAL_BLOCK = 32 * 1024  # before compression; what Java's clients write
_INT32 = Struct(">i")
_SNAPPY_RATIO_MAX = 32  # a copy of 64 bytes takes at least three
_LZ4_RATIO_MAX = 256
_LZ4_LEVEL_MAX = 12  # beyond it the library is no denser
_ZSTD_BLOCK_MAX = 128 * 1024
_ZSTD_UNKNOWN_SIZE = 2**64 - 1  # what the library returns for a frame without its content size


def compress(compression: int, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """`data` compressed with type 0 to 4; `level` None is Kafka's default. ValueError for another type."""
    if not 0 <= compression < len(_COMPRESS):
        raise ValueError(f"compression type {compression} does not exist")
    return _COMPRESS[compression](data, level)


def decompress(compression: int, data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    """`data` decompressed. Raises CorruptBatch when it is damaged or has bytes too many or too few,
    DecompressedTooLarge when it would take more than `max_bytes`; no more memory than that is filled before it does."""
    if not 0 <= compression < len(_DECOMPRESS):
        raise CorruptBatch(f"compression type {compression} does not exist")
    return _DECOMPRESS[compression](data, max_bytes)


def _too_large(name: str, max_bytes: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"{name} data of more than {max_bytes} bytes when decompressed")


def _compress_none(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    return bytes(data)


def _decompress_none(data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise CorruptBatch(f"records of {len(data)} bytes, more than {max_bytes}")
    return bytes(data)


def _compress_gzip(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    compressor = zlib.compressobj(GZIP_LEVEL_DEFAULT if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    rest: bytes | bytearray | memoryview = data
    for _ in range(_GZIP_MEMBERS_MAX):
        decompressor = zlib.decompressobj(_GZIP_WINDOW)
        try:
            parts.append(decompressor.decompress(rest, max_bytes - total + 1))
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        total += len(parts[-1])
        if total > max_bytes:
            raise _too_large("gzip", max_bytes)
        if not decompressor.eof:
            raise CorruptBatch("gzip data ends too early")
        rest = decompressor.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)
    raise CorruptBatch(f"gzip data of more than {_GZIP_MEMBERS_MAX} members")


def _compress_snappy(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    import snappy

    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = snappy.compress(view[start : start + _XERIAL_BLOCK])
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, max_bytes, max_bytes)
    if len(view) < len(_XERIAL_HEADER):
        raise CorruptBatch("snappy: half a frame header")
    parts: list[bytes] = []
    position, left = len(_XERIAL_HEADER), max_bytes
    while position < len(view):
        if len(view) - position < 4:
            raise CorruptBatch("snappy: half a block size")
        (size,) = _INT32.unpack_from(view, position)
        position += 4
        if size <= 0 or size > len(view) - position:
            raise CorruptBatch(f"snappy: a block of {size} bytes where {len(view) - position} are left")
        block = _decompress_snappy_block(view[position : position + size], left, max_bytes)
        parts.append(block)
        left -= len(block)
        position += size
    return b"".join(parts)


def _decompress_snappy_block(view: memoryview, left: int, max_bytes: int) -> bytes:
    import snappy

    size = _snappy_size(view)
    if size > left:
        raise _too_large("snappy", max_bytes)
    if size > len(view) * _SNAPPY_RATIO_MAX:  # before the library gives it the memory
        raise CorruptBatch(f"snappy: {len(view)} bytes cannot hold {size}")
    try:
        block: bytes = snappy.uncompress(view)
    except snappy.UncompressError as error:
        raise CorruptBatch(f"snappy: {error.__cause__}") from None
    return block


def _snappy_size(view: memoryview) -> int:
    """The decompressed size, which every block declares in a varint in front."""
    size = 0
    for index, byte in enumerate(view[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise CorruptBatch("snappy: no size in front")


def _compress_lz4(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    import lz4.frame

    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level in (None, LZ4_LEVEL_DEFAULT) else min(level, _LZ4_LEVEL_MAX),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def _decompress_lz4(data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    limit = min(max_bytes, len(data) * _LZ4_RATIO_MAX)  # it takes the whole limit, and gives back what is too much
    try:
        body: bytes = decompressor.decompress(data, limit + 1)
    except (RuntimeError, EOFError, MemoryError) as error:
        raise CorruptBatch(f"lz4: {error}") from None
    if len(body) > max_bytes:
        raise _too_large("lz4", max_bytes)
    if not decompressor.eof or decompressor.unused_data:
        raise CorruptBatch("lz4 data is not exactly one frame")
    return body


def _compress_zstd(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=ZSTD_LEVEL_DEFAULT if level is None else level).compress(data)


def _decompress_zstd(data: bytes | bytearray | memoryview, max_bytes: int) -> bytes:
    """Decodes one frame. The library does not report bytes that follow it; the count of records shows them."""
    import zstandard

    # The library takes the limit at once and gives back what is too much. No block of less than four bytes exists.
    limit = min(max_bytes, (len(data) // 4 + 1) * _ZSTD_BLOCK_MAX)
    try:
        declared = zstandard.get_frame_parameters(data).content_size
        if declared != _ZSTD_UNKNOWN_SIZE and declared > limit:
            raise _too_large("zstd", max_bytes)
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=max(limit, 1))
    except (zstandard.ZstdError, MemoryError) as error:
        raise CorruptBatch(f"zstd: {error}") from None


_COMPRESS: tuple[Callable[[bytes | bytearray | memoryview, int | None], bytes], ...] = (
    _compress_none,
    _compress_gzip,
    _compress_snappy,
    _compress_lz4,
    _compress_zstd,
)
_DECOMPRESS: tuple[Callable[[bytes | bytearray | memoryview, int], bytes], ...] = (
    _decompress_none,
    _decompress_gzip,
    _decompress_snappy,
    _decompress_lz4,
    _decompress_zstd,
)

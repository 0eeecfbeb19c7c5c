"""`CodecError`, the only exception that malformed bytes can cause, and its subclass for record batches."""

from __future__ import annotations


class CodecError(Exception):
    """Bytes that are not a valid message or batch, or a message that its version cannot carry. The text says what is
    wrong and does not contain the bytes."""


class CorruptBatch(CodecError):
    """Bytes that are not a valid record batch: wrong magic, invalid length, broken compression, CRC mismatch."""


class DecompressedTooLarge(CorruptBatch):
    """Bytes that would take more memory than allowed when decompressed."""

"""The one exception that bytes can cause."""

from __future__ import annotations


class CodecError(Exception):
    """Bytes that are no valid message or batch (or a message that its version cannot carry). The text names what is
    wrong, never the bytes themselves."""


class CorruptBatch(CodecError):
    """Bytes that are no valid record batch: wrong magic, impossible length, broken compression, CRC mismatch."""

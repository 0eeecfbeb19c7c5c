"""Compiled encode and decode functions of message classes, made on first use and kept.

`kwire.codec.decoder` and `kwire.codec.encoder` write the source; `kwire.codec.protocol` is what others call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.codec.errors import CodecError
from kwire.codec.message import Message

Decoder = Callable[[Any, int, int], Any]
Encoder = Callable[[Any, list[Any], list[Any] | None], None]

DECODERS: dict[tuple[type[Message], int], Decoder] = {}
ENCODERS: dict[tuple[type[Message], int], Encoder] = {}


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """Make and cache the decode function: (buffer, position, budget) -> (message, end)."""
    from kwire.codec.decoder import make_decoder

    _check_version(cls, version)
    decoder = DECODERS[cls, version] = make_decoder(cls, version)
    return decoder


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    """Make and cache the encode function: it appends to a list of pieces, and to a list of parts if there is one."""
    from kwire.codec.encoder import make_encoder

    _check_version(cls, version)
    encoder = ENCODERS[cls, version] = make_encoder(cls, version)
    return encoder


def _check_version(cls: type[Message], version: int) -> None:
    first, last = cls.VALID_VERSIONS
    if not first <= version <= last:
        raise CodecError(f"{cls.__name__} has versions {first} to {last}, not {version}")

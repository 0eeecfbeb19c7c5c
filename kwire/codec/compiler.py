"""Compiled encode and decode functions of message classes, made on first use and kept.

`kwire.codec.decoder` and `kwire.codec.encoder` write the source; `kwire.codec.protocol` is what others call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from kwire.codec.errors import CodecError
from kwire.codec.message import Message

Decoder = Callable[[Any, int, int], Any]
Encoder = Callable[[Any, list[Any], list[Any] | None], None]
SlicedDecoder = Callable[[Any, int, int, int], Generator[None, None, Any]]
SlicedEncoder = Callable[[Any, list[Any], list[Any] | None, int], Generator[None, None, None]]

DECODERS: dict[tuple[type[Message], int], Decoder] = {}
ENCODERS: dict[tuple[type[Message], int], Encoder] = {}
_SLICED_DECODERS: dict[tuple[type[Message], int], SlicedDecoder] = {}
_SLICED_ENCODERS: dict[tuple[type[Message], int], SlicedEncoder] = {}


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


def sliced_decoder(cls: type[Message], version: int) -> SlicedDecoder:
    """The decode function that yields after every so many elements: (buffer, position, budget, elements)."""
    decoder = _SLICED_DECODERS.get((cls, version))
    if decoder is None:
        from kwire.codec.decoder import make_sliced_decoder

        _check_version(cls, version)
        decoder = _SLICED_DECODERS[cls, version] = make_sliced_decoder(cls, version)
    return decoder


def sliced_encoder(cls: type[Message], version: int) -> SlicedEncoder:
    """The encode function that yields after every so many elements: (message, pieces, parts or None, elements)."""
    encoder = _SLICED_ENCODERS.get((cls, version))
    if encoder is None:
        from kwire.codec.encoder import make_sliced_encoder

        _check_version(cls, version)
        encoder = _SLICED_ENCODERS[cls, version] = make_sliced_encoder(cls, version)
    return encoder


def _check_version(cls: type[Message], version: int) -> None:
    first, last = cls.VALID_VERSIONS
    if not first <= version <= last:
        raise CodecError(f"{cls.__name__} has versions {first} to {last}, not {version}")

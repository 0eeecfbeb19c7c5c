"""Compiled encode and decode functions of message classes, made on first use and kept.

`kwire.codec.decoder` and `kwire.codec.encoder` write the source; `kwire.codec.protocol` is what others call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from kwire.codec.errors import CodecError
from kwire.codec.message import Message

Decoder = Callable[[Any, int, int], Any]
Encoder = Callable[[Any, list[Any], list[Any] | None], None]
SlicedDecoder = Callable[[Any, int, int, int], Generator[None, None, Any]]
SlicedEncoder = Callable[[Any, list[Any], list[Any] | None, int], Generator[None, None, None]]
Function = TypeVar("Function")

DECODERS: dict[tuple[type[Message], int], Decoder] = {}
ENCODERS: dict[tuple[type[Message], int], Encoder] = {}
_SLICED_DECODERS: dict[tuple[type[Message], int], SlicedDecoder] = {}
_SLICED_ENCODERS: dict[tuple[type[Message], int], SlicedEncoder] = {}


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """Make and cache the decode function: (buffer, position, budget) -> (message, end)."""
    from kwire.codec.decoder import make_decoder

    return _made(DECODERS, cls, version, make_decoder)


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    """Make and cache the encode function: it appends to a list of pieces, and to a list of parts if there is one."""
    from kwire.codec.encoder import make_encoder

    return _made(ENCODERS, cls, version, make_encoder)


def sliced_decoder(cls: type[Message], version: int) -> SlicedDecoder:
    """The decode function that yields after every so many elements: (buffer, position, budget, elements)."""
    from kwire.codec.decoder import make_sliced_decoder

    return _SLICED_DECODERS.get((cls, version)) or _made(_SLICED_DECODERS, cls, version, make_sliced_decoder)


def sliced_encoder(cls: type[Message], version: int) -> SlicedEncoder:
    """The encode function that yields after every so many elements: (message, pieces, parts or None, elements)."""
    from kwire.codec.encoder import make_sliced_encoder

    return _SLICED_ENCODERS.get((cls, version)) or _made(_SLICED_ENCODERS, cls, version, make_sliced_encoder)


def _made(
    functions: dict[tuple[type[Message], int], Function],
    cls: type[Message],
    version: int,
    make: Callable[[type[Message], int], Function],
) -> Function:
    """Make a function and keep it. `CodecError` if the message has no such version."""
    _check_version(cls, version)
    function = functions[cls, version] = make(cls, version)
    return function


def _check_version(cls: type[Message], version: int) -> None:
    first, last = cls.VALID_VERSIONS
    if not first <= version <= last:
        raise CodecError(f"{cls.__name__} has versions {first} to {last}, not {version}")

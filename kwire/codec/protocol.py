"""Bytes <-> messages of the Kafka protocol: API keys, versions, headers, requests, responses, records.

Message classes are imported, and their encode and decode functions compiled, when they are first used. Bytes can
cause no exception but `CodecError`. Bytes after a message are left to the caller: decoding returns where it ended
(Kafka ignores what follows a request). Deliberately stricter than Kafka: tagged fields that are not in ascending
order (KIP-482) or do not fill their size, and strings that are not UTF-8 (where Kafka puts replacement characters),
are refused.
"""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from struct import Struct as Packer
from struct import error as struct_error
from typing import Any, NamedTuple, TypeVar

from kwire.codec.api_table import APIS, ApiKey
from kwire.codec.compiler import (
    DECODERS,
    ENCODERS,
    compile_decoder,
    compile_encoder,
    sliced_decoder,
    sliced_encoder,
)
from kwire.codec.errors import CodecError
from kwire.codec.message import Message
from kwire.codec.messages.request_header import RequestHeader
from kwire.codec.primitives import Buffer, read_unknown_tags

__all__ = [
    "API_FACTS",
    "ELEMENT_BUDGET",
    "ApiFacts",
    "ApiKey",
    "CodecError",
    "api_facts",
    "decode",
    "decode_in_slices",
    "decode_record",
    "decode_record_key",
    "decode_request_header",
    "encode",
    "encode_in_slices",
    "encode_parts",
    "encode_record",
    "encode_record_key",
    "encode_response_header",
    "request_class",
    "request_header_version",
    "response_class",
    "response_header_version",
]

#: What one message may hold: an element of an array costs 1, and 1 for each object and each four numbers in it
#: (`schema.weight`); a tagged field costs 2.
ELEMENT_BUDGET = 1_000_000
_HEADER_TAGS = 1_000

M = TypeVar("M", bound=Message)


class ApiFacts(NamedTuple):
    """What Kafka's tables say about one API. Without a valid version (last < first) it was removed."""

    stem: str
    """Name of its modules, without ``_request`` or ``_response``."""
    first_version: int
    last_version: int
    first_flexible_request: int
    """32767: never"""
    first_flexible_response: int
    last_version_unstable: bool
    listeners: tuple[str, ...]
    """Where Kafka serves it: ``broker``, ``controller``"""


#: Facts by API key.
API_FACTS: dict[int, ApiFacts] = {key: ApiFacts(*facts) for key, facts in APIS.items()}

_first_flexible = {
    key: facts.first_flexible_request for key, facts in API_FACTS.items() if facts.first_version <= facts.last_version
}
_request_classes: dict[int, type[Message]] = {}
_response_classes: dict[int, type[Message]] = {}
_unpack_header = Packer(">hhih").unpack_from
_unpack_int16 = Packer(">h").unpack_from
_pack_int16 = Packer(">h").pack
_pack_int32 = Packer(">i").pack
_pack_flexible_header = Packer(">ix").pack


def api_facts(api_key: int) -> ApiFacts:
    """Facts about an API that Kafka 4.3 has; CodecError for other keys and for removed APIs."""
    facts = API_FACTS.get(api_key)
    if facts is None or facts.last_version < facts.first_version:
        raise CodecError(f"unknown API key {api_key}")
    return facts


def request_header_version(api_key: int, api_version: int) -> int:
    """1, or 2 for flexible requests. Defined for versions beyond the known ones too (ApiVersions needs it)."""
    return 2 if api_version >= api_facts(api_key).first_flexible_request else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """0, or 1 for flexible responses; always 0 for ApiVersions, which a client sends before it has the broker's
    versions (KIP-511)."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if api_version >= api_facts(api_key).first_flexible_response else 0


def request_class(api_key: int) -> type[Message]:
    """The class of an API's requests, imported on first use; CodecError for an unknown key."""
    cls = _request_classes.get(api_key)
    if cls is None:
        cls = _request_classes[api_key] = _import_class(api_key, "request")
    return cls


def response_class(api_key: int) -> type[Message]:
    """The class of an API's responses, imported on first use; CodecError for an unknown key."""
    cls = _response_classes.get(api_key)
    if cls is None:
        cls = _response_classes[api_key] = _import_class(api_key, "response")
    return cls


def _import_class(api_key: int, kind: str) -> type[Message]:
    module = f"{api_facts(api_key).stem}_{kind}"
    name = "".join(word.capitalize() for word in module.split("_"))
    cls: type[Message] = getattr(import_module(f"kwire.codec.messages.{module}"), name)
    return cls


def decode(cls: type[M], version: int, buffer: Buffer, offset: int = 0, budget: int = ELEMENT_BUDGET) -> tuple[M, int]:
    """Read one message -> (message, position after it). `records` are views into the buffer; all else is copied.

    CodecError: the bytes are not such a message, it has more elements than the budget, or the version does not exist.
    """
    decoder = DECODERS.get((cls, version)) or compile_decoder(cls, version)
    result: tuple[M, int] = decoder(buffer, offset, budget)
    return result


def encode(message: Message, version: int) -> bytes:
    """The bytes of a message, without header and size. CodecError when the version cannot carry it."""
    encoder = ENCODERS.get((message.__class__, version)) or compile_encoder(message.__class__, version)
    out: list[Any] = []
    encoder(message, out, None)
    return b"".join(out)


def decode_in_slices(
    cls: type[M], version: int, buffer: Buffer, offset: int, budget: int, slice_elements: int
) -> Generator[None, None, tuple[M, int]]:
    """`decode`, with a step after every ``slice_elements`` elements of arrays: what it returns is the end of the
    generator."""
    result: tuple[M, int] = yield from sliced_decoder(cls, version)(buffer, offset, budget, slice_elements)
    return result


def encode_in_slices(message: Message, version: int, slice_elements: int) -> Generator[None, None, bytes]:
    """`encode`, with a step after every ``slice_elements`` elements of arrays. The message must not change
    meanwhile."""
    parts = yield from encode_parts_in_slices(message, version, slice_elements)
    return b"".join(parts)


def encode_parts(message: Message, version: int, prefix: bytes = b"") -> list[Any]:
    """The bytes of a message, after a prefix, in parts that follow each other on the wire.

    Records of 4 KiB or more are parts of their own, the same object as in the message, not a copy. Records that are
    not in memory (any object that has a ``size`` and is not a buffer) always are. CodecError as in `encode`.
    """
    encoder = ENCODERS.get((message.__class__, version)) or compile_encoder(message.__class__, version)
    out: list[Any] = [prefix] if prefix else []
    parts: list[Any] = []
    encoder(message, out, parts)
    if out:
        parts.append(b"".join(out))
    return parts


def encode_parts_in_slices(message: Message, version: int, slice_elements: int) -> Generator[None, None, list[Any]]:
    """`encode_parts`, with a step after every ``slice_elements`` elements of arrays. The message must not change
    meanwhile."""
    out: list[Any] = []
    parts: list[Any] = []
    for _ in sliced_encoder(message.__class__, version)(message, out, parts, slice_elements):
        if out:
            parts.append(b"".join(out))
            out.clear()
        yield
    if out:
        parts.append(b"".join(out))
    return parts


def decode_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """The header at the start of a request frame -> (header, position of the body).

    Works for versions that Kafka does not have. CodecError: malformed, or an API key that Kafka does not have.
    """
    try:
        api_key, api_version, correlation_id, length = _unpack_header(buffer)
        end = 10
        client_id = None
        if length >= 0:
            end += length
            if end > len(buffer):
                raise CodecError("the request header ends early")
            client_id = str(buffer[10:end], "utf-8")
        tags: tuple[tuple[int, bytes], ...] = ()
        first_flexible = _first_flexible.get(api_key)
        if first_flexible is None:
            raise CodecError(f"unknown API key {api_key}")
        if api_version >= first_flexible:
            count = buffer[end]
            end += 1
            if count:
                tags, end, _ = read_unknown_tags(buffer, end, len(buffer), count, _HEADER_TAGS)
    except (struct_error, IndexError):
        raise CodecError("the request header ends early") from None
    except UnicodeDecodeError:
        raise CodecError("the client id is not UTF-8") from None
    header = RequestHeader(
        request_api_key=api_key,
        request_api_version=api_version,
        correlation_id=correlation_id,
        client_id=client_id,
        unknown_tags=tags,
    )
    return header, end


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The header of a response to a request of this key and version."""
    if response_header_version(api_key, api_version):
        return _pack_flexible_header(correlation_id)
    return _pack_int32(correlation_id)


def encode_record(message: Message, version: int) -> bytes:
    """The value of an internal record (`__consumer_offsets`, `__transaction_state`): int16 version, then the body."""
    return _pack_int16(version) + encode(message, version)


def encode_record_key(message: Message) -> bytes:
    """The key of an internal record: int16 record type (``API_KEY`` of its class), then the body in version 0."""
    return _pack_int16(message.API_KEY) + encode(message, 0)


def decode_record(cls: type[M], buffer: Buffer) -> M:
    """The value of an internal record, whose first two bytes are its version."""
    return decode(cls, _prefix(buffer), buffer, 2)[0]


def decode_record_key(classes: dict[int, type[M]], buffer: Buffer) -> M:
    """The key of an internal record; its first two bytes are the record type, which determines the class.

    CodecError also for a type that has no class in ``classes``.
    """
    record_type = _prefix(buffer)
    cls = classes.get(record_type)
    if cls is None:
        raise CodecError(f"unknown record type {record_type}")
    return decode(cls, 0, buffer, 2)[0]


def _prefix(buffer: Buffer) -> int:
    if len(buffer) < 2:
        raise CodecError("the record ends early")
    prefix: int = _unpack_int16(buffer)[0]
    return prefix

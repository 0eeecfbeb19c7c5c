"""What an Envelope carries: a request with its header, the client's principal and address (KIP-590).

A principal is Kafka's `DefaultPrincipalData` after the two bytes of its version, which is what Kafka's
`DefaultKafkaPrincipalBuilder` writes. What lives elsewhere: sending (`forwarding`), receiving (`cluster.envelope`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.errors import CodecError
from kwire.codec.messages.default_principal_data import DefaultPrincipalData
from kwire.codec.messages.envelope_request import EnvelopeRequest
from kwire.codec.messages.envelope_response import EnvelopeResponse
from kwire.codec.messages.request_header import RequestHeader
from kwire.codec.messages.response_header import ResponseHeader
from kwire.codec.protocol import (
    ELEMENT_BUDGET,
    decode,
    decode_record,
    encode,
    encode_record,
    encode_response_header,
    request_header_version,
    response_class,
    response_header_version,
)
from kwire.handlers.large_requests import decoded
from kwire.handlers.slices import LARGE_BYTES
from kwire.security.principals import Principal

if TYPE_CHECKING:
    from kwire.codec.message import Message
    from kwire.handlers.context import RequestContext

PRINCIPAL_VERSION = 0


def envelope_of(request: Message, version: int, context: RequestContext, body: bytes | None = None) -> EnvelopeRequest:
    """The Envelope of a request in the name of the client that the context describes. ``body``: the encoded request,
    if it is known."""
    header = RequestHeader(
        request_api_key=request.API_KEY,
        request_api_version=version,
        correlation_id=context.correlation_id,
        client_id=context.client_id,
    )
    head = encode(header, request_header_version(request.API_KEY, version))
    return EnvelopeRequest(
        request_data=head + (encode(request, version) if body is None else body),
        request_principal=packed_principal(context.principal, context.security.token_authenticated),
        client_host_address=packed_address(context.client_host),
    )


def packed_principal(principal: Principal, token_authenticated: bool) -> bytes:
    """A principal as it travels, and whether the client has logged in with a delegation token."""
    data = DefaultPrincipalData(type=principal.type, name=principal.name, token_authenticated=token_authenticated)
    return encode_record(data, PRINCIPAL_VERSION)


def unpacked_principal(packed: bytes | None) -> tuple[Principal, bool]:
    """The inverse of `packed_principal`. KafkaError(PRINCIPAL_DESERIALIZATION_FAILURE)."""
    try:
        data = decode_record(DefaultPrincipalData, packed or b"")
    except CodecError as error:
        message = f"Failed to deserialize client principal from envelope: {error}"
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, message) from None
    return Principal(data.type, data.name), data.token_authenticated


def packed_address(client_host: str) -> bytes:
    """The 4 or 16 bytes of a client's address, which is given as in `RequestContext`."""
    return ip_address(client_host.removeprefix("/").partition("%")[0]).packed


def unpacked_address(packed: bytes) -> str:
    """The inverse of `packed_address`. KafkaError(INVALID_REQUEST) unless there are 4 or 16 bytes."""
    try:
        address = ip_address(packed)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Failed to parse client address from envelope") from None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is None:
            return "/" + ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
        address = address.ipv4_mapped
    return f"/{address}"


def enclosed(
    response: Message, version: int, correlation_id: int, encoded: Sequence[bytes] | None = None
) -> EnvelopeResponse:
    """The Envelope of a response. ``encoded``: the parts of the encoded response, if they are known. If the response
    comes from a broker that is no longer the controller, the Envelope says so and carries no response, as in Kafka:
    then the request is sent to the new controller."""
    if comes_from_former_controller(response):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    head = encode_response_header(response.API_KEY, version, correlation_id)
    return EnvelopeResponse(response_data=b"".join((head, *(encoded or (encode(response, version),)))))


def taken_out(envelope: EnvelopeResponse, api_key: int, version: int) -> Any:
    """The response in an Envelope without an error. CodecError if there is none."""
    data, start = _response_in(envelope, api_key, version)
    return decode(response_class(api_key), version, data, start)[0]


async def taken_out_in_slices(envelope: EnvelopeResponse, api_key: int, version: int) -> tuple[Any, bytes | None]:
    """`taken_out`, of a large response in slices and with its bytes."""
    data, start = _response_in(envelope, api_key, version)
    response = await decoded(response_class(api_key), version, data, start, ELEMENT_BUDGET)
    return response, data[start:] if len(data) - start >= LARGE_BYTES else None


def _response_in(envelope: EnvelopeResponse, api_key: int, version: int) -> tuple[bytes, int]:
    """The bytes in an Envelope, and where the response begins after its header."""
    data = envelope.response_data or b""
    return data, decode(ResponseHeader, response_header_version(api_key, version), data)[1]


def comes_from_former_controller(response: Any) -> bool:
    """Whether there is a NOT_CONTROLLER anywhere in the response to a request that the controller handles."""
    return any(getattr(each, "error_code", 0) == ErrorCode.NOT_CONTROLLER for each in _parts(response))


def _parts(response: Any) -> Iterator[Any]:
    yield response
    for name in ("topics", "responses", "results", "filter_results", "replica_election_results", "entries"):
        yield from getattr(response, name, None) or ()

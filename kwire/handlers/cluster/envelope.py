"""Envelope (API key 58): a request that another broker forwards to the controller, in the name of its client (KIP-590).

Behaviour:

- It is for brokers of one cluster only. On a listener for clients, and on a broker that knows no other, the connection
  is closed, as for an API that does not exist. Without CLUSTER_ACTION: CLUSTER_AUTHORIZATION_FAILED.
- The request is authorised and handled as the client's: with its principal, its address, its client id.
- In this order: a principal that cannot be read: PRINCIPAL_DESERIALIZATION_FAILURE; an address that is none:
  INVALID_REQUEST; no request header: UNSUPPORTED_VERSION; an API that brokers do not forward (also Envelope itself):
  INVALID_REQUEST; a body or version that this broker cannot read: UNSUPPORTED_VERSION; this broker is not the
  controller: NOT_CONTROLLER.
- Every other error is in the response that the Envelope carries, which is the one that the client gets.

It is not in ApiVersions of a broker's listeners, as in Kafka, where controllers alone list it. Brokers see in each
other's registrations whether they accept it. Unlike in Kafka, nothing is forwarded that every broker of kwire handles
by itself, such as requests for delegation tokens.

Versions: 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.codec.errors import CodecError
from kwire.codec.message import Message
from kwire.codec.messages.envelope_request import EnvelopeRequest
from kwire.codec.messages.envelope_response import EnvelopeResponse
from kwire.codec.protocol import ApiKey, decode_request_header, request_class
from kwire.handlers.api import REQUEST_BUDGET, Api, CloseConnection, error_of
from kwire.handlers.authorization import CLUSTER_ACTION, require
from kwire.handlers.context import ConnectionSecurity, ForwardedContext, RequestContext
from kwire.handlers.envelopes import enclosed, unpacked_address, unpacked_principal
from kwire.handlers.index import INDEX
from kwire.handlers.large_requests import decoded
from kwire.handlers.registry import load
from kwire.handlers.slices import free_in_slices
from kwire.security.acls.operations import Operation


class Forwarded(NamedTuple):
    """A request out of an Envelope."""

    api: Api
    request: Message
    context: ForwardedContext


async def handle(envelope: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
    """Handle the request in the Envelope."""
    services = context.services
    if len(services.image.registered) < 2 or context.listener != services.config.inter_broker_listener():
        raise CloseConnection(f"Envelope on {context.listener}, which is not the listener of other brokers")
    require(context, *CLUSTER_ACTION)
    forwarded = await _opened(envelope, context)
    if not services.controller.active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    response = await _response(*forwarded)
    inner = forwarded.context
    free_in_slices(forwarded.request, response)
    return enclosed(response, inner.api_version, inner.correlation_id, inner.charged)


async def _opened(envelope: EnvelopeRequest, context: RequestContext) -> Forwarded:
    """The request in an Envelope. KafkaError: see above."""
    principal, token_authenticated = unpacked_principal(envelope.request_principal)
    host = unpacked_address(envelope.client_host_address)
    try:
        header, position = decode_request_header(envelope.request_data)
    except CodecError as error:
        raise _unreadable("request header", error) from None
    key, version = header.request_api_key, header.request_api_version
    api = load(key) if key in INDEX else None
    if api is None or not api.is_forwardable:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"API {ApiKey(key).name} is not eligible for forwarding")
    if not api.served[0] <= version <= api.served[1]:
        raise _unreadable("request", f"{ApiKey(key).name} has no version {version} here")
    try:
        request = await decoded(request_class(key), version, envelope.request_data, position, REQUEST_BUDGET)
    except CodecError as error:
        raise _unreadable("request", error) from None
    inner = ForwardedContext(
        context.services,
        api_key=key,
        api_version=version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
        client_host=host,
        listener=context.listener,
        principal=principal,
        security=ConnectionSecurity(context.security.protocol, token_authenticated),
        endpoint=context.endpoint,
        connection_id=context.connection_id,
    )
    return Forwarded(api, request, inner)


def _unreadable(what: str, why: object) -> KafkaError:
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Failed to parse {what} from envelope: {why}")


async def _response(api: Api, request: Message, context: RequestContext) -> Any:
    """The response for the client."""
    try:
        for operation in _operations(api, request, context):
            require(context, operation)
        return await resolved(api.handle(request, context))
    except Exception as error:
        context.charged = None  # what was encoded is not the response
        code, message = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            context.services.log_failure(f"forwarded {api.key.name}", error)
        return api.error_response(request, context.api_version, code, message)


def _operations(api: Api, request: Message, context: RequestContext) -> tuple[Operation, ...]:
    if api.operations is None or context.services.authorizer.allows_all:
        return ()
    return tuple(api.operations(request, context))


API = Api(ApiKey.ENVELOPE, served=(0, 0), handle=handle, advertised=None)

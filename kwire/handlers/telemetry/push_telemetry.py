"""PushTelemetry (API key 72): a client sends its metrics (KIP-714), which are forwarded.

Behaviour:

* INVALID_REQUEST without an id, or after a push that was announced as the last one.
* THROTTLING_QUOTA_EXCEEDED before the interval is over, unless the push follows GetTelemetrySubscriptions or is the
  last one; UNKNOWN_SUBSCRIPTION_ID once the subscriptions have changed; UNSUPPORTED_COMPRESSION_TYPE;
  TELEMETRY_TOO_LARGE for more than `telemetry.max.bytes`, compressed or not.
* INVALID_RECORD for metrics that cannot be decompressed, or that are not OpenTelemetry's.
* The response does not wait until the metrics are forwarded, and says nothing about it.

Versions: 0.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.uuids import ZERO_UUID
from kwire.codec.compression import NONE, decompress
from kwire.codec.errors import CodecError, DecompressedTooLarge
from kwire.codec.messages.push_telemetry_request import PushTelemetryRequest
from kwire.codec.messages.push_telemetry_response import PushTelemetryResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.handlers.telemetry.clients import TelemetryClient, TelemetryClients
from kwire.handlers.telemetry.get_telemetry_subscriptions import COMPRESSION_TYPES, attributes_of

RESERVED_IDS = (ZERO_UUID, bytes(15) + b"\x01")
"""Ids that no client has (Kafka's `Uuid.RESERVED`)."""


def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    """Check the push, and pass it on."""
    if request.client_instance_id in RESERVED_IDS:
        return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
    clients = context.services.telemetry.clients
    client = clients.push(
        request.client_instance_id,
        context.connection_id,
        attributes_of(request.client_instance_id, context),
        terminating=request.terminating,
        subscription=request.subscription_id,
    )
    error = ErrorCode.NONE
    try:
        _pass_on(request, context, clients, client)
    except KafkaError as refused:
        error = refused.code
    clients.pushed(client, error)
    return PushTelemetryResponse(error_code=error)


def _pass_on(
    request: PushTelemetryRequest, context: RequestContext, clients: TelemetryClients, client: TelemetryClient
) -> None:
    max_bytes = context.services.config.telemetry_max_bytes
    if request.compression_type not in (NONE, *COMPRESSION_TYPES):
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if len(request.metrics) > max_bytes:
        raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)
    if not request.metrics or clients.receiver is None:
        return
    try:
        payload = decompress(request.compression_type, request.metrics, max_bytes)
        clients.receiver.receive(client.attributes, str(context.principal), payload)
    except DecompressedTooLarge:
        raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE) from None
    except (CodecError, ValueError):
        raise KafkaError(ErrorCode.INVALID_RECORD) from None


API = Api(ApiKey.PUSH_TELEMETRY, served=(0, 0), handle=handle)

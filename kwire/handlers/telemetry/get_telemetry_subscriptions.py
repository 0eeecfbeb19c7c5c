"""GetTelemetrySubscriptions (API key 71): a client asks which of its metrics are wanted, and how often (KIP-714).

Behaviour:

* A client without an id (all zeros) gets one. Every other id is accepted, so that a client keeps its id when it changes
  to another broker.
* The response has the metrics of all subscriptions that match the client, by the prefixes of their names ("*": all;
  none: nothing is wanted), the shortest interval, and the compression types that may be used, the best one first.
* THROTTLING_QUOTA_EXCEEDED if the client asks again before its interval is over, unless the subscriptions have changed
  or its last push got an error that makes it ask.
* Advertised only if the broker forwards metrics (`kwire.telemetry.otlp.endpoint`); served in any case, as in Kafka. No
  permission is needed.

Versions: 0.
"""

from __future__ import annotations

from typing import Final

from kwire.base.uuids import ZERO_UUID, uuid_to_text
from kwire.codec.compression import GZIP, LZ4, SNAPPY, ZSTD
from kwire.codec.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kwire.codec.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import RequestContext
from kwire.handlers.telemetry.subscriptions import ClientAttributes

COMPRESSION_TYPES: Final = (ZSTD, LZ4, GZIP, SNAPPY)


def handle(request: GetTelemetrySubscriptionsRequest, context: RequestContext) -> GetTelemetrySubscriptionsResponse:
    """Respond at once."""
    services = context.services
    clients = services.telemetry.clients
    instance_id = clients.new_id() if request.client_instance_id == ZERO_UUID else request.client_instance_id
    client = clients.question(instance_id, context.connection_id, attributes_of(instance_id, context))
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=client.subscription_id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=client.wanted.interval_ms,
        telemetry_max_bytes=services.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(client.wanted.metrics),
    )


def attributes_of(instance_id: bytes, context: RequestContext) -> ClientAttributes:
    """What subscriptions may ask about the client of a request."""
    return ClientAttributes(
        uuid_to_text(instance_id),
        context.client_id,
        context.software_name,
        context.software_version,
        context.client_host[1:],
        context.connection_id.rpartition(":")[2],
    )


API = Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, served=(0, 0), handle=handle)

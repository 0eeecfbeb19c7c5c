"""UnregisterBroker (API key 64): expect a broker no more (KIP-631).

Behaviour:

- a broker that is away (DescribeCluster calls it fenced) is forgotten: it no longer counts for replication factors,
  hand-made assignments and feature updates. It registers again when it is started.
- a broker that runs leaves every ISR, leads nothing and is told to nobody until it is started anew.
- partition assignments stay as they are.
- BROKER_ID_NOT_REGISTERED for any other id.

Versions: 0.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.unregister_broker_request import UnregisterBrokerRequest
from kwire.codec.messages.unregister_broker_response import UnregisterBrokerResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType

ALLOWED = (Operation(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),)


def operations(request: UnregisterBrokerRequest, context: RequestContext) -> tuple[Operation, ...]:
    return ALLOWED


async def handle(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    try:
        await context.services.controller.unregister_broker(request.broker_id)
    except KafkaError as error:
        return refuse(request, context.api_version, error.code, error.message)
    return UnregisterBrokerResponse()


def refuse(
    request: UnregisterBrokerRequest, version: int, code: ErrorCode, message: str | None
) -> UnregisterBrokerResponse:
    """The error for the whole."""
    return UnregisterBrokerResponse(error_code=code, error_message=message)


API = Api(
    ApiKey.UNREGISTER_BROKER, served=(0, 0), handle=handle, operations=operations, error_response=refuse,
    by_controller=True,
)  # fmt: skip

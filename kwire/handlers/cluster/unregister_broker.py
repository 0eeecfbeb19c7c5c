"""UnregisterBroker (API key 64): remove a broker's registration (KIP-631).

Behaviour:

- A broker that is not running (DescribeCluster shows it as fenced) no longer counts for replication factors, manual
  assignments and feature updates. It registers again when it is started.
- A running broker leaves every ISR, leads no partition, and is in no metadata response until it is restarted.
- Partition assignments stay as they are.
- BROKER_ID_NOT_REGISTERED for any other id.

Versions: 0.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.unregister_broker_request import UnregisterBrokerRequest
from kwire.codec.messages.unregister_broker_response import UnregisterBrokerResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import ALTER_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def operations(request: UnregisterBrokerRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster."""
    return ALTER_CLUSTER


async def handle(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    """Remove the registration."""
    try:
        await context.services.controller.unregister_broker(request.broker_id)
    except KafkaError as error:
        return refuse(request, context.api_version, error.code, error.message)
    return UnregisterBrokerResponse()


def refuse(
    request: UnregisterBrokerRequest, version: int, code: ErrorCode, message: str | None
) -> UnregisterBrokerResponse:
    """A top-level error."""
    return UnregisterBrokerResponse(error_code=code, error_message=message)


API = Api(
    ApiKey.UNREGISTER_BROKER,
    served=(0, 0),
    handle=handle,
    operations=operations,
    error_response=refuse,
    by_controller=True,
)

"""DeleteShareGroupState (API key 86): delete the state of share partitions (KIP-932).

Behaviour:

* A group coordinator sends it when a share group, or its offsets for a topic, are deleted. There need not be a state.
* INVALID_REQUEST for a negative partition; UNKNOWN_TOPIC_OR_PARTITION; the coordinator's errors. Only brokers
  (CLUSTER_ACTION) may send it.

Versions: 0.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater
from kwire.codec.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from kwire.codec.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.share.requests import refuse, respond
from kwire.handlers.api import Api
from kwire.handlers.authorization import CLUSTER_ACTION
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def handle(request: DeleteShareGroupStateRequest, context: RequestContext) -> NowOrLater[DeleteShareGroupStateResponse]:
    """Respond when all states are deleted."""
    return respond(context.services.share_coordinator, request)


def operations(request: DeleteShareGroupStateRequest, context: RequestContext) -> tuple[Operation, ...]:
    """CLUSTER_ACTION on the cluster."""
    return CLUSTER_ACTION


def error_response(
    request: DeleteShareGroupStateRequest, version: int, code: ErrorCode, message: str | None
) -> DeleteShareGroupStateResponse:
    """The same error for every partition."""
    response: DeleteShareGroupStateResponse = refuse(request, code, message)
    return response


API = Api(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    served=(0, 0),
    handle=handle,
    operations=operations,
    error_response=error_response,
)

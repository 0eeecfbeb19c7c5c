"""ReadShareGroupState (API key 84): the state of share partitions, for the leaders of their partitions (KIP-932).

Behaviour:

* A leader reads the state before it delivers the first record. Its epoch is written if it is new, which fences former
  leaders; epoch -1 leaves it as it is.
* INVALID_REQUEST for a negative partition, or one that was not initialised; FENCED_LEADER_EPOCH if a higher leader
  epoch was seen; UNKNOWN_TOPIC_OR_PARTITION; the coordinator's errors. Only brokers (CLUSTER_ACTION) may send it.

Versions: 0.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater
from kwire.codec.messages.read_share_group_state_request import ReadShareGroupStateRequest
from kwire.codec.messages.read_share_group_state_response import ReadShareGroupStateResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.share.requests import refuse, respond
from kwire.handlers.api import Api
from kwire.handlers.authorization import CLUSTER_ACTION
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def handle(request: ReadShareGroupStateRequest, context: RequestContext) -> NowOrLater[ReadShareGroupStateResponse]:
    """Respond when the epochs are written."""
    return respond(context.services.share_coordinator, request)


def operations(request: ReadShareGroupStateRequest, context: RequestContext) -> tuple[Operation, ...]:
    """CLUSTER_ACTION on the cluster."""
    return CLUSTER_ACTION


def error_response(
    request: ReadShareGroupStateRequest, version: int, code: ErrorCode, message: str | None
) -> ReadShareGroupStateResponse:
    """The same error for every partition."""
    response: ReadShareGroupStateResponse = refuse(request, code, message)
    return response


API = Api(
    ApiKey.READ_SHARE_GROUP_STATE,
    served=(0, 0),
    handle=handle,
    operations=operations,
    error_response=error_response,
)

"""InitializeShareGroupState (API key 83): begin the state of share partitions, or begin it again (KIP-932).

Behaviour:

* A group coordinator sends it when a share group subscribes to a topic, or when its offsets are set. The start offset
  is -1 until the leader of the partition knows it.
* INVALID_REQUEST for a negative partition; FENCED_STATE_EPOCH if a higher state epoch was seen;
  UNKNOWN_TOPIC_OR_PARTITION; the coordinator's errors. Only brokers (CLUSTER_ACTION) may send it.

Versions: 0.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater
from kwire.codec.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from kwire.codec.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.share.requests import refuse, respond
from kwire.handlers.api import Api
from kwire.handlers.authorization import CLUSTER_ACTION
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def handle(
    request: InitializeShareGroupStateRequest, context: RequestContext
) -> NowOrLater[InitializeShareGroupStateResponse]:
    """Respond when all states are written."""
    return respond(context.services.share_coordinator, request)


def operations(request: InitializeShareGroupStateRequest, context: RequestContext) -> tuple[Operation, ...]:
    """CLUSTER_ACTION on the cluster."""
    return CLUSTER_ACTION


def error_response(
    request: InitializeShareGroupStateRequest, version: int, code: ErrorCode, message: str | None
) -> InitializeShareGroupStateResponse:
    """The same error for every partition."""
    response: InitializeShareGroupStateResponse = refuse(request, code, message)
    return response


API = Api(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    served=(0, 0),
    handle=handle,
    operations=operations,
    error_response=error_response,
)

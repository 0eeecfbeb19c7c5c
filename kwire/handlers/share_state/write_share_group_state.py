"""WriteShareGroupState (API key 85): what has become of records that share groups were given (KIP-932).

Behaviour:

* The leader of a partition sends the ranges of offsets that have changed. Those below the start offset are forgotten.
* INVALID_REQUEST for a negative partition, or one that was not initialised; FENCED_LEADER_EPOCH and FENCED_STATE_EPOCH
  if a higher epoch was seen (-1 skips the check); UNKNOWN_TOPIC_OR_PARTITION; the coordinator's errors. Only brokers
  (CLUSTER_ACTION) may send it.

Versions: 0; 1 the number of records that need no delivery any more (KIP-1226).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater
from kwire.codec.messages.write_share_group_state_request import WriteShareGroupStateRequest
from kwire.codec.messages.write_share_group_state_response import WriteShareGroupStateResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.share.requests import refuse, respond
from kwire.handlers.api import Api
from kwire.handlers.authorization import CLUSTER_ACTION
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def handle(request: WriteShareGroupStateRequest, context: RequestContext) -> NowOrLater[WriteShareGroupStateResponse]:
    """Respond when all changes are written."""
    return respond(context.services.share_coordinator, request)


def operations(request: WriteShareGroupStateRequest, context: RequestContext) -> tuple[Operation, ...]:
    """CLUSTER_ACTION on the cluster."""
    return CLUSTER_ACTION


def error_response(
    request: WriteShareGroupStateRequest, version: int, code: ErrorCode, message: str | None
) -> WriteShareGroupStateResponse:
    """The same error for every partition."""
    response: WriteShareGroupStateResponse = refuse(request, code, message)
    return response


API = Api(
    ApiKey.WRITE_SHARE_GROUP_STATE,
    served=(0, 1),
    handle=handle,
    operations=operations,
    error_response=error_response,
)

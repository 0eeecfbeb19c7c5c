"""ReadShareGroupStateSummary (API key 87): epochs and start offsets of share partitions (KIP-932).

Behaviour:

* A group coordinator sends it to describe the offsets of a share group. A share partition without a state has start
  offset -1.
* INVALID_REQUEST for a negative partition; UNKNOWN_TOPIC_OR_PARTITION; the coordinator's errors. Only brokers
  (CLUSTER_ACTION) may send it.

Versions: 0; 1 the number of records that need no delivery any more (KIP-1226).
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater
from kwire.codec.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from kwire.codec.messages.read_share_group_state_summary_response import ReadShareGroupStateSummaryResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.share.requests import refuse, respond
from kwire.handlers.api import Api
from kwire.handlers.authorization import CLUSTER_ACTION
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def handle(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> NowOrLater[ReadShareGroupStateSummaryResponse]:
    """Respond at once, unless the newest state is not yet committed."""
    return respond(context.services.share_coordinator, request)


def operations(request: ReadShareGroupStateSummaryRequest, context: RequestContext) -> tuple[Operation, ...]:
    """CLUSTER_ACTION on the cluster."""
    return CLUSTER_ACTION


def error_response(
    request: ReadShareGroupStateSummaryRequest, version: int, code: ErrorCode, message: str | None
) -> ReadShareGroupStateSummaryResponse:
    """The same error for every partition."""
    response: ReadShareGroupStateSummaryResponse = refuse(request, code, message)
    return response


API = Api(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    served=(0, 1),
    handle=handle,
    operations=operations,
    error_response=error_response,
)

"""DeleteGroups (API key 42): delete empty groups with all their committed offsets (KIP-229).

Behaviour: each group has its own error: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED, and the
coordinator's errors. The share coordinators forget a share group before it is deleted. If a group is named twice, it is
deleted once and has one result.

Versions: 2 flexible.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, then
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import group_operation, require
from kwire.handlers.context import RequestContext
from kwire.handlers.groups.group_calls import each_group
from kwire.security.acls.operations import AclOperation

SLICE_DELETED: Final = 25
"""Groups that are deleted before other clients get their turn: two or three milliseconds."""


def handle(request: DeleteGroupsRequest, context: RequestContext) -> NowOrLater[DeleteGroupsResponse]:
    """Delete each group; the response is sent once the tombstones are committed."""
    names = list(dict.fromkeys(request.groups_names))
    return each_group(context, names, partial(_delete, context), _refused, _response, SLICE_DELETED)


def _delete(context: RequestContext, group_id: str) -> NowOrLater[DeletableGroupResult]:
    require(context, group_operation(AclOperation.DELETE, group_id))
    groups = context.services.groups
    if groups.is_share_group(group_id):
        from kwire.handlers.groups.share.deletion import delete_share_group

        return then(delete_share_group(context.services, group_id), partial(_result, group_id))
    return then(groups.delete_group(group_id), partial(_result, group_id))


def _result(group_id: str, error: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error)


def _refused(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return _result(group_id, error.code)


def _response(results: list[DeletableGroupResult]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=results)


def error_response(
    request: DeleteGroupsRequest, version: int, code: ErrorCode, message: str | None
) -> DeleteGroupsResponse:
    """The same error for every group."""
    return _response([_result(group_id, code) for group_id in request.groups_names])


API = Api(ApiKey.DELETE_GROUPS, served=(0, 2), handle=handle, error_response=error_response, sliced=True)

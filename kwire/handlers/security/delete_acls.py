"""DeleteAcls (API key 31): delete the access control entries that filters select.

Behaviour:

- SECURITY_DISABLED without an authorizer.
- There is one result per filter, in the order of the request, with the entries that it selects. An entry that several
  filters select is in the result of each. Apache Kafka promises no order of entries; here it is alphabetical.
- INVALID_REQUEST for all filters if they select more than 10,000 entries.
- INVALID_REQUEST for a filter with a code that has no meaning; with the code 0 (UNKNOWN) the connection is closed.

Versions: 1 types of patterns (KIP-290); 2 flexible; 3 the resource type USER (KIP-373).
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.base.errors import ErrorCode
from kwire.base.futures import resolved
from kwire.codec.messages.delete_acls_request import DeleteAclsRequest
from kwire.codec.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import ALTER_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.handlers.security.acl_fields import SLICE_ENTRIES, read_filter, require_authorizer
from kwire.handlers.slices import encode_in_slices, in_slices
from kwire.security.acls.bindings import AclBinding, AclFilter, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, Operation, ResourceType


def operations(request: DeleteAclsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster."""
    return ALTER_CLUSTER


async def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Have the controller delete the entries."""
    filters = [read_filter(each) for each in request.filters]
    require_authorizer(context, "No Authorizer is configured.")
    reasons = [_why_invalid(each) for each in filters]
    valid = [each for each, reason in zip(filters, reasons, strict=True) if reason is None]
    deleted = iter(await context.services.controller.acls.delete(valid))
    results: list[DeleteAclsFilterResult] = []
    for reason in reasons:
        if reason is not None:
            results.append(DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=reason))
            continue
        described = await resolved(in_slices(sorted(next(deleted)), _described, SLICE_ENTRIES))
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=described))
    response = DeleteAclsResponse(filter_results=results)
    large = sum(len(each.matching_acls) for each in results) > SLICE_ENTRIES
    return await encode_in_slices(context, response) if large else response


def refuse(request: DeleteAclsRequest, version: int, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    """The same error for each filter."""
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.filters]
    )


def _why_invalid(chosen: AclFilter) -> str | None:
    if ResourceType.UNKNOWN is chosen.resource_type or PatternType.UNKNOWN is chosen.pattern_type:
        return "Unknown patternFilter."
    if AclOperation.UNKNOWN is chosen.operation or PermissionType.UNKNOWN is chosen.permission:
        return "Unknown entryFilter."
    return None


def _described(bindings: Sequence[AclBinding]) -> list[DeleteAclsMatchingAcl]:
    return [
        DeleteAclsMatchingAcl(
            error_message=None,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            pattern_type=each.pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in bindings
    ]


API = Api(
    ApiKey.DELETE_ACLS,
    served=(1, 3),
    handle=handle,
    operations=operations,
    error_response=refuse,
    by_controller=True,
)

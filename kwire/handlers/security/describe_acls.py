"""DescribeAcls (API key 29): the access control entries that a filter selects.

Behaviour:

- SECURITY_DISABLED without an authorizer.
- Entries are grouped by their patterns. Apache Kafka promises no order; here they are in alphabetical order.
- A filter with a code that has no meaning selects nothing; with the code 0 (UNKNOWN) the connection is closed.

Versions: 1 types of patterns (KIP-290); 2 flexible; 3 the resource type USER (KIP-373).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kwire.base.futures import NowOrLater, in_turns, resolved, then
from kwire.codec.messages.describe_acls_request import DescribeAclsRequest
from kwire.codec.messages.describe_acls_response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import DESCRIBE_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.handlers.security.acl_fields import SLICE_ENTRIES, read_filter, require_authorizer
from kwire.handlers.slices import encode_in_slices, in_slices, sorted_in_steps
from kwire.security.acls.bindings import AclBinding
from kwire.security.acls.index import Pattern, by_pattern
from kwire.security.acls.operations import Operation


def operations(request: DescribeAclsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """DESCRIBE on the cluster."""
    return DESCRIBE_CLUSTER


def handle(request: DescribeAclsRequest, context: RequestContext) -> NowOrLater[DescribeAclsResponse]:
    """Select the entries of the newest image."""
    chosen = read_filter(request)
    require_authorizer(context, "No Authorizer is configured on the broker")

    def selected(acls: Sequence[AclBinding]) -> list[AclBinding]:
        return [acl for acl in acls if chosen.matches(acl)]

    found = in_slices(list(context.services.image.acls.values()), selected, SLICE_ENTRIES)
    return then(found, partial(_response, context))


def _response(context: RequestContext, found: list[AclBinding]) -> NowOrLater[DescribeAclsResponse]:
    if len(found) > SLICE_ENTRIES:
        return _respond_in_slices(context, found)
    return DescribeAclsResponse(resources=_described(list(by_pattern(sorted(found)).items())))


async def _respond_in_slices(context: RequestContext, found: list[AclBinding]) -> DescribeAclsResponse:
    patterns: dict[Pattern, list[AclBinding]] = {}

    def arranged(acls: Sequence[AclBinding]) -> list[None]:
        for pattern, some in by_pattern(acls).items():
            patterns.setdefault(pattern, []).extend(some)
        return []

    await resolved(in_slices(await in_turns(sorted_in_steps(found, SLICE_ENTRIES)), arranged, SLICE_ENTRIES))
    resources = await resolved(in_slices(list(patterns.items()), _described, SLICE_ENTRIES))
    return await encode_in_slices(context, DescribeAclsResponse(resources=resources))


def _described(patterns: Sequence[tuple[Pattern, list[AclBinding]]]) -> list[DescribeAclsResource]:
    return [
        DescribeAclsResource(
            resource_type=resource_type,
            resource_name=name,
            pattern_type=pattern_type,
            acls=[
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in acls
            ],
        )
        for (resource_type, pattern_type, name), acls in patterns
    ]


API = Api(ApiKey.DESCRIBE_ACLS, served=(1, 3), handle=handle, operations=operations)

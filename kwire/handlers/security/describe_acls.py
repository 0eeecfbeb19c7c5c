"""DescribeAcls (API key 29): the access control entries that a filter selects.

Behaviour:

- SECURITY_DISABLED without an authorizer.
- Entries are grouped by their patterns. Apache Kafka promises no order; here they are in alphabetical order.
- A filter with a code that has no meaning selects nothing; with the code 0 (UNKNOWN) the connection is closed.

Versions: 1 types of patterns (KIP-290); 2 flexible; 3 the resource type USER (KIP-373).
"""

from __future__ import annotations

from kwire.codec.messages.describe_acls_request import DescribeAclsRequest
from kwire.codec.messages.describe_acls_response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import DESCRIBE_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.handlers.security.acl_fields import read_filter, require_authorizer
from kwire.security.acls.index import by_pattern
from kwire.security.acls.operations import Operation


def operations(request: DescribeAclsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """DESCRIBE on the cluster."""
    return DESCRIBE_CLUSTER


def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """Select the entries of the newest image."""
    chosen = read_filter(request)
    require_authorizer(context, "No Authorizer is configured on the broker")
    found = by_pattern(sorted(acl for acl in context.services.image.acls.values() if chosen.matches(acl)))
    return DescribeAclsResponse(
        resources=[
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
            for (resource_type, pattern_type, name), acls in found.items()
        ]
    )


API = Api(ApiKey.DESCRIBE_ACLS, served=(1, 3), handle=handle, operations=operations)

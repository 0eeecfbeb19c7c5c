"""ListGroups (API key 16): the groups that this broker coordinates.

Behaviour: filters by state and type in any case of letters; unknown names match nothing. Only groups that the
principal may describe, unless it may describe the cluster. COORDINATOR_LOAD_IN_PROGRESS until all is loaded.

Versions: 3 flexible; 4 states and their filter (KIP-518); 5 types and their filter (KIP-848).
"""

from __future__ import annotations

from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.list_groups_response import ListGroupsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType
from kwire.handlers.groups.group_calls import group_operation


def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """Answered from memory."""
    groups = context.services.groups.list_groups(
        frozenset(name.lower() for name in request.states_filter),
        frozenset(name.lower() for name in request.types_filter),
    )
    authorizer = context.services.authorizer
    cluster = Operation(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    if not authorizer.allows_all and not authorizer.authorize(context, cluster):
        groups = [
            group
            for group in groups
            if authorizer.authorize(context, group_operation(AclOperation.DESCRIBE, group.group_id))
        ]
    return ListGroupsResponse(groups=groups)


API = Api(ApiKey.LIST_GROUPS, served=(0, 5), handle=handle)

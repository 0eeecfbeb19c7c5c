"""ListGroups (API key 16): the groups that this broker coordinates.

Behaviour: the filters by state and type ignore case; unknown names match nothing. Only groups that the principal may
describe are listed, unless it may describe the cluster. COORDINATOR_LOAD_IN_PROGRESS until all partitions are loaded.

Versions: 3 flexible; 4 states and their filter (KIP-518); 5 types and their filter (KIP-848).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kwire.base.futures import in_turns, resolved
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.list_groups_response import ListedGroup, ListGroupsResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import DESCRIBE_CLUSTER, SLICE_NAMES, group_operation, is_allowed
from kwire.handlers.context import Purpose, RequestContext
from kwire.handlers.slices import encode_in_slices, in_slices
from kwire.security.acls.operations import AclOperation


async def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """List the groups that match the filters."""
    listing = context.services.groups.list_groups(
        frozenset(name.lower() for name in request.states_filter),
        frozenset(name.lower() for name in request.types_filter),
    )
    groups = await in_turns(listing)
    if not is_allowed(context, *DESCRIBE_CLUSTER, Purpose.CHOICE):
        groups = await resolved(in_slices(groups, partial(_describable, context), SLICE_NAMES))
    response = ListGroupsResponse(groups=groups)
    return await encode_in_slices(context, response) if len(groups) > SLICE_NAMES else response


def _describable(context: RequestContext, groups: Sequence[ListedGroup]) -> list[ListedGroup]:
    """The groups that the principal may describe."""
    return [
        group
        for group in groups
        if is_allowed(context, group_operation(AclOperation.DESCRIBE, group.group_id), Purpose.CHOICE)
    ]


API = Api(ApiKey.LIST_GROUPS, served=(0, 5), handle=handle)

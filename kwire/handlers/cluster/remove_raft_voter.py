"""RemoveRaftVoter (API key 81): take a controller out of the metadata quorum (KIP-853).

Behaviour: that of a cluster with `kraft.version` 0 (`raft_voters`). INCONSISTENT_CLUSTER_ID; INVALID_REQUEST for a
voter that cannot be; UNSUPPORTED_VERSION.

Versions: 0.
"""

from __future__ import annotations

from typing import NoReturn

from kwire.codec.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import ALTER_CLUSTER
from kwire.handlers.cluster.raft_voters import check_cluster, check_voter, unsupported
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def operations(request: RemoveRaftVoterRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster."""
    return ALTER_CLUSTER


def handle(request: RemoveRaftVoterRequest, context: RequestContext) -> NoReturn:
    """Refuse the request."""
    check_cluster(context, request.cluster_id)
    check_voter(request.voter_id, request.voter_directory_id)
    raise unsupported("removed")


API = Api(ApiKey.REMOVE_RAFT_VOTER, served=(0, 0), handle=handle, operations=operations)

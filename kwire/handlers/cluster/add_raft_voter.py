"""AddRaftVoter (API key 80): make a controller a voter of the metadata quorum (KIP-853).

Behaviour: that of a cluster with `kraft.version` 0 (`raft_voters`). INCONSISTENT_CLUSTER_ID; INVALID_REQUEST for a
voter that cannot be, or without an endpoint for the first of `controller.listener.names`; UNSUPPORTED_VERSION.

Versions: 0; 1 the response may come before the change is committed (KIP-1186).
"""

from __future__ import annotations

from typing import NoReturn

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import ALTER_CLUSTER
from kwire.handlers.cluster.raft_voters import check_cluster, check_voter, unsupported
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation

CONTROLLER_LISTENER = "CONTROLLER"
"""The listener of controllers where `controller.listener.names` is not set."""


def operations(request: AddRaftVoterRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster."""
    return ALTER_CLUSTER


def handle(request: AddRaftVoterRequest, context: RequestContext) -> NoReturn:
    """Refuse the request."""
    check_cluster(context, request.cluster_id)
    check_voter(request.voter_id, request.voter_directory_id)
    listener = (*context.services.config.controller_listener_names, CONTROLLER_LISTENER)[0]
    if listener not in [each.name for each in request.listeners]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The voter has no endpoint for the listener {listener}.")
    raise unsupported("added")


API = Api(ApiKey.ADD_RAFT_VOTER, served=(0, 1), handle=handle, operations=operations)

"""AddRaftVoter and RemoveRaftVoter, which a cluster with `kraft.version` 0 refuses (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.observations import Observations
from harness.processes.brokers import Broker
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.base.uuids import ZERO_UUID
from kwire.codec.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from kwire.codec.messages.describe_cluster_request import DescribeClusterRequest
from kwire.codec.messages.remove_raft_voter_request import RemoveRaftVoterRequest

DIRECTORY = bytes(range(16))
VOTER = {"voter_id": 5, "voter_directory_id": DIRECTORY}
CASES: dict[str, dict[str, Any]] = {
    "a voter": {},
    "one that there is": {"voter_id": 1},
    "no cluster": {"cluster_id": None},
    "another cluster": {"cluster_id": "abc"},
    "another cluster and no voter": {"cluster_id": "", "voter_id": -1},
    "no voter": {"voter_id": -1},
    "no directory": {"voter_directory_id": ZERO_UUID},
}
LISTENERS = {
    "": ["CONTROLLER"],
    "without an endpoint": [],
    "with another endpoint": ["PLAINTEXT"],
    "with two endpoints": ["PLAINTEXT", "CONTROLLER"],
}


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap) as client:
        yield client


def own_cluster(client: WireClient) -> str:
    return str(client.call(DescribeClusterRequest(), 0).cluster_id)


@pytest.mark.parametrize("version", [0, 1])
def test_voters_are_not_added(client: WireClient, observe: Observations, version: int) -> None:
    cluster_id = own_cluster(client)
    for case, fields in CASES.items():
        for endpoints, names in LISTENERS.items():
            listeners = [Listener(name=name, host="localhost", port=1) for name in names]
            request = AddRaftVoterRequest(**{"cluster_id": cluster_id, **VOTER, "listeners": listeners, **fields})
            response = client.call(request, version)
            observe(f"{case} {endpoints}", ErrorCode(response.error_code).name)
            assert response.error_message


def test_voters_are_not_removed(client: WireClient, observe: Observations) -> None:
    cluster_id = own_cluster(client)
    for case, fields in CASES.items():
        response = client.call(RemoveRaftVoterRequest(**{"cluster_id": cluster_id, **VOTER, **fields}), 0)
        observe(case, ErrorCode(response.error_code).name)
        assert response.error_message

"""What AddRaftVoter and RemoveRaftVoter have in common: checks of a request that no cluster of kwire can fulfil.

kwire's metadata is no Raft log, so there is nothing to vote on. It answers as a cluster of Apache Kafka with a static
quorum (`kraft.version` 0) does, which is what `kafka-storage format` makes unless told otherwise.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.uuids import ZERO_UUID
from kwire.handlers.context import RequestContext


def check_cluster(context: RequestContext, cluster_id: str | None) -> None:
    """INCONSISTENT_CLUSTER_ID unless the request names this cluster, or none."""
    own = context.services.image.cluster_id
    if cluster_id is not None and cluster_id != own:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"The cluster's id is {own!r}, not {cluster_id!r}.")


def check_voter(voter_id: int, directory_id: bytes) -> None:
    """INVALID_REQUEST unless there may be such a voter."""
    if voter_id < 0 or directory_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A voter has an id of 0 or more, and a directory id.")


def unsupported(what: str) -> KafkaError:
    """UNSUPPORTED_VERSION, after all checks. ``what``: added or removed."""
    text = f"Voters cannot be {what}: the cluster's kraft.version is 0."
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)

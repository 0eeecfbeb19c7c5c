"""Metadata of brokers and topics, as several APIs describe it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kwire.base.errors import ErrorCode
from kwire.cluster.controller.topics import name_problem
from kwire.cluster.metadata.image import BrokerImage, ClusterImage
from kwire.cluster.store.keys import PartitionState
from kwire.handlers.authorization import DESCRIBE_CLUSTER, is_allowed
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import CLUSTER_NAME, ResourceType

NOT_ASKED = -2147483648
"""The authorised operations in a response if the request did not ask for them."""


def reachable_brokers(
    image: ClusterImage, context: RequestContext, *, away: bool = False
) -> Iterator[tuple[BrokerImage, str, int]]:
    """The brokers that have this client's listener, by id, with their host and port on it. With ``away``, also brokers
    that are registered but not running.

    For this broker that is the context's endpoint, which without `advertised.listeners` is what the client used.
    """
    for broker in image.sorted_brokers(fenced=away):
        if broker.id == context.services.broker_id:
            yield broker, *context.endpoint
        elif context.listener in broker.endpoints:
            endpoint = broker.endpoints[context.listener]
            yield broker, endpoint.host, endpoint.port


def controller_id(image: ClusterImage) -> int:
    """The id of the controller; -1 while there is none."""
    return image.controller_id if image.controller_id in image.brokers else -1


def leader_error(state: PartitionState, brokers: Mapping[int, BrokerImage]) -> ErrorCode:
    """LEADER_NOT_AVAILABLE while the partition has no leader, otherwise NONE."""
    return ErrorCode.NONE if state.leader in brokers else ErrorCode.LEADER_NOT_AVAILABLE


def offline_replicas(state: PartitionState, brokers: Collection[int]) -> list[int]:
    """The replicas on brokers that are not running, or in directories that have failed."""
    return [broker for broker in state.replicas if state.is_offline(broker, brokers)]


def absence_error(name: str) -> ErrorCode:
    """The error for a topic that does not exist."""
    invalid = name_problem(name) is not None
    return ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def cluster_operations(context: RequestContext) -> int:
    """The operations that the client may do on the cluster, as a bit field; 0 if it may not describe the cluster."""
    if not is_allowed(context, *DESCRIBE_CLUSTER):
        return 0
    return context.services.authorizer.authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)


def topic_operations(context: RequestContext, name: str) -> int:
    """The operations that the client may do on a topic, as a bit field."""
    return context.services.authorizer.authorized_operations(context, ResourceType.TOPIC, name)

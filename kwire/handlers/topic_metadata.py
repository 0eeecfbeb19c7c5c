"""What Metadata, DescribeCluster and DescribeTopicPartitions have in common: how brokers, names and partitions of the
cluster's image are told to a client."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kwire.base.errors import ErrorCode
from kwire.cluster.controller.topics import name_problem
from kwire.cluster.metadata.image import BrokerImage, ClusterImage
from kwire.cluster.store.keys import PartitionState
from kwire.handlers.context import CLUSTER_NAME, RequestContext, ResourceType

NOT_ASKED = -2147483648
"""Stands for "nobody asked for authorised operations"."""


def reachable_brokers(
    image: ClusterImage, context: RequestContext, *, away: bool = False
) -> Iterator[tuple[BrokerImage, str, int]]:
    """Brokers with the host and port under which this client reaches them: those that have its listener, by id; also
    those that are ``away``.

    For this broker that is the context's endpoint, which without `advertised.listeners` is what the client used.
    """
    for broker in image.sorted_brokers(away=away):
        if broker.id == context.services.broker_id:
            yield broker, *context.endpoint
        elif context.listener in broker.endpoints:
            endpoint = broker.endpoints[context.listener]
            yield broker, endpoint.host, endpoint.port


def controller_id(image: ClusterImage) -> int:
    """The broker that decides, -1 while there is none."""
    return image.controller_id if image.controller_id in image.brokers else -1


def leader_error(state: PartitionState, brokers: Mapping[int, BrokerImage]) -> ErrorCode:
    """LEADER_NOT_AVAILABLE while nobody leads the partition, else NONE."""
    return ErrorCode.NONE if state.leader in brokers else ErrorCode.LEADER_NOT_AVAILABLE


def offline_replicas(state: PartitionState, brokers: Collection[int]) -> list[int]:
    """Replicas on brokers that are not there, or in directories that have failed."""
    return [broker for broker in state.replicas if state.is_offline(broker, brokers)]


def absence_error(name: str) -> ErrorCode:
    """Why there is no topic of that name."""
    invalid = name_problem(name) is not None
    return ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def cluster_operations(context: RequestContext) -> int:
    """The bit field of what the client may do with the cluster."""
    return context.services.authorizer.authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)


def topic_operations(context: RequestContext, name: str) -> int:
    """The bit field of what the client may do with a topic."""
    return context.services.authorizer.authorized_operations(context, ResourceType.TOPIC, name)

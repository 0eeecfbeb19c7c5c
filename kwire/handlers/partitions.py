"""How handlers find a partition from what a request names: a topic's name, or in newer versions its id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import AclOperation, Operation, ResourceType

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.replication.partition import Partition


def topic_name(context: RequestContext, topic_id: bytes) -> str:
    """The name of a topic id. KafkaError(UNKNOWN_TOPIC_ID)."""
    topic = context.services.image.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic.name


def has_partition(image: ClusterImage, topic: str, partition: int) -> bool:
    """Whether the cluster has such a partition."""
    return image.partition(topic, partition) is not None


def find_partition(
    context: RequestContext,
    name: str,
    topic_id: bytes,
    index: int,
    *,
    by_id: bool,
    operation: AclOperation = AclOperation.WRITE,
) -> Partition:
    """This broker's replica of a partition, if the principal may do ``operation`` on its topic. KafkaError otherwise:
    UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""
    services = context.services
    authorizer = services.authorizer
    if authorizer.allows_all:
        return services.replicas.partition_by_id(topic_id, index) if by_id else services.replicas.partition(name, index)
    if by_id:
        name = topic_name(context, topic_id)
    if not authorizer.has_allowed(context.decisions, (operation, ResourceType.TOPIC, name)):
        authorizer.require(context, Operation(operation, ResourceType.TOPIC, name))
    return services.replicas.partition(name, index)

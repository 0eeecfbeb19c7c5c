"""Authorisation in handlers: whether the principal may do an operation, and on which of the requested topics.

While the authorizer allows everything (`allows_all`), no function here calls it. What lives elsewhere: the
`Authorizer` (`context`), its vocabulary (`kwire.security.acls.operations`), and the operations that a whole request
needs, which the dispatcher requires before it calls the handler (`Api.operations`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol, TypeVar

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater, then
from kwire.handlers.context import Purpose, RequestContext
from kwire.handlers.partitions import has_partition
from kwire.handlers.slices import in_slices
from kwire.security.acls.operations import CLUSTER_NAME, AclOperation, Operation, ResourceType


class HasPartitionIndex(Protocol):
    """A struct of a request that names one partition of a topic."""

    partition_index: int


P = TypeVar("P", bound=HasPartitionIndex)

ALTER_CLUSTER: Final = (Operation(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME),)
"""Required of requests that change how the cluster or its brokers work."""

DESCRIBE_CLUSTER: Final = (Operation(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME),)
"""Required of requests that describe the cluster or its brokers."""

CREATE_IN_CLUSTER: Final = Operation(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
"""Allows topics of any name to be created."""

DELETE_IN_CLUSTER: Final = Operation(AclOperation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)
"""Allows any topic to be deleted."""

CLUSTER_ACTION: Final = (Operation(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME),)
"""Required of requests that only brokers send."""

SLICE_NAMES: Final = 250
"""Topics that an authorizer decides about before other clients get their turn: about a millisecond."""

_TOPIC: Final = ResourceType.TOPIC  # here, because a member of an enumeration is found slowly


def group_operation(operation: AclOperation, group_id: str) -> Operation:
    """An operation on a group."""
    return Operation(operation, ResourceType.GROUP, group_id)


def transactional_id_operation(operation: AclOperation, transactional_id: str) -> Operation:
    """An operation on a transactional id."""
    return Operation(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)


def require(context: RequestContext, operation: Operation) -> None:
    """Raise the KafkaError of the resource's type (``..._AUTHORIZATION_FAILED``) unless the operation is allowed."""
    authorizer = context.services.authorizer
    if not authorizer.allows_all:
        authorizer.require(context, operation)


def is_allowed(context: RequestContext, operation: Operation, purpose: Purpose = Purpose.ACCESS) -> bool:
    """Whether the principal may do an operation."""
    authorizer = context.services.authorizer
    return authorizer.allows_all or authorizer.authorize(context, operation, purpose)


def is_topic_allowed(
    context: RequestContext, operation: AclOperation, topic: str, purpose: Purpose = Purpose.ACCESS
) -> bool:
    """Whether the principal may do an operation on a topic."""
    authorizer = context.services.authorizer
    return (
        authorizer.allows_all
        or authorizer.has_allowed(context.decisions, (operation, _TOPIC, topic))
        or authorizer.authorize(context, Operation(operation, _TOPIC, topic), purpose)
    )


def is_allowed_somewhere(context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
    """Whether there may be a resource of a type on which the principal may do an operation (KIP-679)."""
    authorizer = context.services.authorizer
    return authorizer.allows_all or authorizer.authorize_some(context, operation, resource_type)


def allowed_topics(
    context: RequestContext, operation: AclOperation, topics: Iterable[str], purpose: Purpose = Purpose.ACCESS
) -> dict[str, None]:
    """The topics on which the principal may do an operation, in their order and each once."""
    authorizer = context.services.authorizer
    if not authorizer.allows_all:
        topics = authorizer.allowed_names(context, operation, _TOPIC, topics, purpose)
    return dict.fromkeys(topics)


def allowed_topics_in_slices(
    context: RequestContext, operation: AclOperation, topics: Collection[str], purpose: Purpose = Purpose.ACCESS
) -> NowOrLater[dict[str, None]]:
    """`allowed_topics`, of very many topics in slices."""
    if context.services.authorizer.allows_all or len(topics) <= SLICE_NAMES:
        return allowed_topics(context, operation, topics, purpose)

    def some(names: Sequence[str]) -> list[str]:
        return list(allowed_topics(context, operation, names, purpose))

    return then(in_slices(list(topics), some, SLICE_NAMES), _each_once)


def _each_once(names: Sequence[str]) -> dict[str, None]:
    return dict.fromkeys(names)


def split_partitions(
    context: RequestContext, operation: AclOperation, topic: str, partitions: Sequence[P]
) -> tuple[list[P], list[P], ErrorCode]:
    """A topic's partitions in a request, split into those to go on with and those refused, with the error of the
    latter: TOPIC_AUTHORIZATION_FAILED for all if the principal may not do the operation, UNKNOWN_TOPIC_OR_PARTITION
    for those that do not exist."""
    if not is_topic_allowed(context, operation, topic):
        return [], list(partitions), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    image = context.services.image
    accepted: list[P] = []
    refused: list[P] = []
    for partition in partitions:
        (accepted if has_partition(image, topic, partition.partition_index) else refused).append(partition)
    return accepted, refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

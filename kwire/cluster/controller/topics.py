"""Topic names, replica assignments, and the topics that brokers create themselves. Pure functions, no state.

What lives elsewhere: the decisions (`kwire.cluster.controller.controller`), the placement of replicas
(`kwire.cluster.placement`), the meaning of topic properties (`kwire.base.config`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.image import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, ClusterImage
from kwire.cluster.store.keys import PartitionState

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig

NAME_CHARACTERS_MAX: Final = 249
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""The most partitions that one request may create, as in Kafka (KRaft's limit per metadata batch)."""

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Why a topic cannot have this name, or None."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_CHARACTERS_MAX}"
    if not _LEGAL_NAME.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION for a name that no topic can have."""
    problem = name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def check_replicas(replicas: Sequence[int], brokers: Collection[int]) -> None:
    """INVALID_REPLICA_ASSIGNMENT for a manual assignment of one partition that is not possible. ``brokers``: all
    registered ones."""
    if not replicas:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."
        )
    if len(set(replicas)) != len(replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes the broker {_first_twice(replicas)} more than once.",
        )
    for broker in replicas:
        if broker not in brokers:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker}, but no such broker is registered.",
            )


def _first_twice(replicas: Sequence[int]) -> int:
    return next(broker for broker in sorted(replicas) if replicas.count(broker) > 1)


def check_assignments(
    assignments: Sequence[tuple[int, Sequence[int]]], brokers: Collection[int]
) -> list[tuple[int, ...]]:
    """The replicas of partitions 0, 1, 2...; INVALID_REPLICA_ASSIGNMENT if a topic cannot have them."""
    placed: dict[int, tuple[int, ...]] = {}
    for index, replicas in assignments:
        if index in placed:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        check_replicas(replicas, brokers)
        placed[index] = tuple(replicas)
    if sorted(placed) != list(range(len(placed))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    ordered = [placed[index] for index in range(len(placed))]
    check_same_factor(ordered, len(ordered[0]))
    return ordered


def check_same_factor(assignments: Sequence[Sequence[int]], factor: int) -> None:
    """INVALID_REPLICA_ASSIGNMENT unless every partition has ``factor`` replicas."""
    for replicas in assignments:
        if len(replicas) != factor:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"A partition has {len(replicas)} replica(s), another one of the same topic has {factor}.",
            )


class Reassignment(NamedTuple):
    """The target brokers of a partition's replicas; None cancels a reassignment in progress."""

    topic: str
    partition: int
    replicas: Sequence[int] | None


def check_reassignment(image: ClusterImage, wanted: Reassignment, other_factor: bool) -> KafkaError | None:
    """Why a reassignment is refused; None if it is possible. ``other_factor``: the replication factor may change."""
    state = image.partition(wanted.topic, wanted.partition)
    if state is None:
        text = f"There is no partition {wanted.topic}-{wanted.partition}."
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if wanted.replicas is None:
        return None if state.adding or state.removing else KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    try:
        check_replicas(wanted.replicas, image.registered)
    except KafkaError as error:
        return error
    factor = len(state.replicas) - len(state.adding)
    if not other_factor and len(wanted.replicas) != factor:
        text = f"The replication factor is changed from {factor} to {len(wanted.replicas)}"
        return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return None


def new_partition(image: ClusterImage, replicas: Sequence[int]) -> PartitionState:
    """A new partition: the replicas on live brokers that are not in controlled shutdown are in sync, and the first of
    them leads. INVALID_REPLICA_ASSIGNMENT if there is none."""
    isr = tuple(each for each in replicas if each in image.brokers and not image.brokers[each].leaving)
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers of the assignment {list(replicas)} are fenced or in controlled shutdown.",
        )
    return PartitionState(tuple(replicas), isr, isr[0], 0, 0)


class NewTopic(NamedTuple):
    """A topic to be created. -1 stands for the broker's default; with ``assignments`` (partition and its replicas)
    both numbers must be -1."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = {}


def automatic_topics(config: KafkaConfig, names: Sequence[str]) -> list[NewTopic]:
    """The topics to create when clients name them: internal topics with their own properties."""
    return [internal_topic(config, name) or NewTopic(name) for name in names]


def internal_topic(config: KafkaConfig, name: str) -> NewTopic | None:
    """An internal topic with the properties that it needs; None for the name of an ordinary topic."""
    if name == OFFSETS_TOPIC:
        partitions, factor = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
    elif name == TRANSACTIONS_TOPIC:
        partitions = config.transaction_state_log_num_partitions
        factor = config.transaction_state_log_replication_factor
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "unclean.leader.election.enable": "false",
        }
    elif name == SHARE_STATE_TOPIC:
        partitions = config.share_coordinator_state_topic_num_partitions
        factor = config.share_coordinator_state_topic_replication_factor
        configs = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
        }
    else:
        return None
    return NewTopic(name, partitions, factor, configs=configs)

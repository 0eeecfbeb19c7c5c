"""Topic names, replica assignments, and the placement of replicas. Pure functions, no state.

What lives elsewhere: the decisions (`kwire.cluster.controller.controller`), the meaning of topic properties
(`kwire.base.config`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Protocol

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.image import BrokerImage, ClusterImage
from kwire.cluster.store.keys import PartitionState

NAME_CHARACTERS_MAX: Final = 249
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""The most partitions that one request may create, as in Kafka (KRaft's limit per metadata batch)."""

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


class Randomness(Protocol):
    """The part of `random.Random` that placement uses."""

    def randrange(self, stop: int, /) -> int:
        """A random number from 0 to ``stop`` - 1."""
        ...


def name_problem(name: str) -> str | None:
    """Why a topic cannot have this name, or None."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"it has {len(name)} characters, more than {NAME_CHARACTERS_MAX}"
    if not _LEGAL_NAME.fullmatch(name):
        return f"'{name}' contains other characters than ASCII letters and digits, '.', '_' and '-'"
    return None


def check_name(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION for a name that no topic can have."""
    problem = name_problem(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def collision_key(name: str) -> str:
    """Topics whose names have the same key would share metric names, so a second one is refused. (As in Kafka, two
    topics of one request are not compared with each other.)"""
    return name.replace(".", "_")


def check_replicas(replicas: Sequence[int], brokers: Collection[int]) -> None:
    """INVALID_REPLICA_ASSIGNMENT for a manual assignment of one partition that is not possible. ``brokers``: all
    registered ones."""
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The assignment has an empty list of replicas.")
    if len(set(replicas)) != len(replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The assignment {list(replicas)} names a broker more than once."
        )
    for broker in replicas:
        if broker not in brokers:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The assignment names broker {broker}, which is not registered."
            )


def check_assignments(
    assignments: Sequence[tuple[int, Sequence[int]]], brokers: Collection[int]
) -> list[tuple[int, ...]]:
    """The replicas of partitions 0, 1, 2...; INVALID_REPLICA_ASSIGNMENT if a topic cannot have them."""
    placed: dict[int, tuple[int, ...]] = {}
    for index, replicas in assignments:
        if index in placed:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {index} is assigned more than once.")
        check_replicas(replicas, brokers)
        placed[index] = tuple(replicas)
    if sorted(placed) != list(range(len(placed))):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The partitions must be numbered from 0 without a gap.")
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
        return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is {factor}.")
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


def place(image: ClusterImage, partitions: int, factor: int, random: Randomness) -> list[tuple[int, ...]]:
    """Spread replicas over racks first and brokers second, from a random start; the first replica is the preferred
    leader. Brokers that are fenced or in controlled shutdown get replicas only if there are too few others.
    INVALID_REPLICATION_FACTOR if fewer than ``factor`` brokers are registered, or all are fenced or in controlled
    shutdown."""
    if factor > len(image.registered):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor {factor} is larger than the number of registered brokers, {len(image.registered)}.",
        )
    staying = [broker for broker in image.sorted_brokers() if not broker.leaving]
    others = [broker for broker in image.sorted_brokers(fenced=True) if broker not in staying]
    if not staying:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced or in controlled shutdown."
        )
    preferred = _spread(staying, partitions, min(factor, len(staying)), random)
    if factor <= len(staying):
        return preferred
    additional = _spread(others, partitions, factor - len(staying), random)
    return [first + more for first, more in zip(preferred, additional, strict=True)]


def _spread(brokers: Sequence[BrokerImage], partitions: int, factor: int, random: Randomness) -> list[tuple[int, ...]]:
    order = _by_rack(brokers)
    if len(order) == 1:
        return [(order[0],)] * partitions
    start = random.randrange(len(order))
    shift = random.randrange(len(order))
    placed = []
    for index in range(partitions):
        if index and index % len(order) == 0:
            shift += 1  # so that the followers of one leader are spread too
        first = (start + index) % len(order)
        step = shift % (len(order) - 1)
        others = [order[(first + 1 + (step + n) % (len(order) - 1)) % len(order)] for n in range(factor - 1)]
        placed.append((order[first], *others))
    return placed


def _by_rack(brokers: Sequence[BrokerImage]) -> list[int]:
    """Broker ids with neighbours in different racks, as far as possible."""
    racks: dict[str, list[int]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack or "", []).append(broker.id)
    columns = [racks[rack] for rack in sorted(racks)]
    return [column[row] for row in range(max(map(len, columns), default=0)) for column in columns if row < len(column)]

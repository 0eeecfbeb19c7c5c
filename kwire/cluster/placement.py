"""Which brokers get the replicas of new partitions: the rules of Kafka's `StripedReplicaPlacer`. Pure.

Replicas go to the racks in turn, and within a rack to its brokers in turn. Each partition begins one rack and, in each
rack, one broker further than the partition before it, from a random start, so that leaders are spread, too. When as
many partitions have been placed as there are live brokers, racks and brokers are shuffled, so that the same sets of
replicas do not come again and again. A rack's live brokers come before the other ones, and the first replica, the
preferred leader, is always a live broker. Brokers without a rack are in one rack of their own.

Racks matter more than an even load: a single broker that is alone in its rack gets a replica of every partition whose
replication factor is not smaller than the number of racks.

What lives elsewhere: checks of assignments by hand (`kwire.cluster.controller.topics`), who leads when brokers come and
go (`kwire.cluster.controller.elections`).
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any, Protocol

from kwire.base.config.cordoning import are_cordoned
from kwire.base.config.values import split_list
from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, ConfigResource


class Randomness(Protocol):
    """The part of `random.Random` that placement uses."""

    def randrange(self, stop: int, /) -> int:
        """A random number from 0 to ``stop`` - 1."""
        ...


def place(image: ClusterImage, partitions: int, factor: int, random: Randomness) -> list[tuple[int, ...]]:
    """The replicas of ``partitions`` new partitions. Brokers that are fenced or in controlled shutdown count as not
    live; those whose log directories are all cordoned (KIP-1066) get none.

    INVALID_REPLICATION_FACTOR if fewer than ``factor`` brokers are registered, or none of them is live.
    """
    brokers = usable_brokers(image)
    racks = _Racks(brokers, check_factor(image, brokers, factor), random)
    return [racks.next_partition(factor) for _ in range(partitions)]


def usable_brokers(image: ClusterImage) -> list[BrokerImage]:
    """The registered brokers that get new replicas, by id: not all of their log directories are cordoned (KIP-1066)."""
    return [each for each in image.sorted_brokers(fenced=True) if not _is_cordoned(image, each)]


def check_factor(image: ClusterImage, brokers: Sequence[BrokerImage], factor: int) -> set[int]:
    """The ids of the usable ``brokers`` that are live. INVALID_REPLICATION_FACTOR if there cannot be so many
    replicas."""
    usable = {broker.id for broker in brokers}
    live = {broker.id for broker in image.sorted_brokers() if broker.id in usable and not broker.leaving}
    if not live:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced, or have all their "
            "log directories cordoned.",
        )
    if factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    return live


def _is_cordoned(image: ClusterImage, broker: BrokerImage) -> bool:
    """Whether all log directories of a broker are cordoned, by its own properties or dynamically."""
    dynamic = image.config(ConfigResource.BROKER, str(broker.id)).get("cordoned.log.dirs")
    cordoned = broker.cordoned if dynamic is None else split_list(dynamic)
    return bool(broker.log_dirs and cordoned) and are_cordoned(broker.log_dirs, cordoned)


class _Brokers:
    """Brokers that are given out in turn: in each round every broker once, from a start that moves by one with each
    round."""

    def __init__(self, ids: Sequence[int], random: Randomness) -> None:
        self._ids = list(ids)
        self._random = random
        self._start = random.randrange(len(ids)) if ids else 0
        self._round = 0
        self._given = 0

    def next(self, number: int) -> int | None:
        """The next broker of round ``number``; None if all have been given out in it."""
        if self._round != number:
            self._round, self._given = number, 0
            self._start += 1
        if self._given == len(self._ids):
            return None
        self._given += 1
        return self._ids[(self._start + self._given - 1) % len(self._ids)]

    def shuffle(self) -> None:
        """Change the order of the brokers."""
        _shuffle(self._ids, self._random)


class _Rack:
    """The brokers of one rack."""

    def __init__(self, ids: Sequence[int], live: set[int], random: Randomness) -> None:
        self._others = _Brokers([each for each in ids if each not in live], random)
        self._live = _Brokers([each for each in ids if each in live], random)

    def next_live(self, number: int) -> int | None:
        """The next live broker of a round."""
        return self._live.next(number)

    def next(self, number: int) -> int | None:
        """The next broker of a round, live ones first."""
        found = self._live.next(number)
        return self._others.next(number) if found is None else found

    def shuffle(self) -> None:
        """Change the order of the brokers."""
        self._others.shuffle()
        self._live.shuffle()


class _Racks:
    """All racks in a row that has no end. A round is one partition."""

    def __init__(self, brokers: Sequence[BrokerImage], live: set[int], random: Randomness) -> None:
        ids: dict[str, list[int]] = {}
        for broker in brokers:
            ids.setdefault(broker.rack or "", []).append(broker.id)
        self._racks = [_Rack(ids[name], live, random) for name in sorted(ids)]
        self._live = len(live)
        self._random = random
        self._first = random.randrange(len(self._racks))
        self._round = 0

    def next_partition(self, factor: int) -> tuple[int, ...]:
        """The replicas of the next partition. There are at least ``factor`` brokers, at least one of them live."""
        if self._round == self._live > 1:
            self._shuffle()
            self._round = 0
        leader, leaders_rack = self._leader()
        replicas = [leader]
        index = self._first
        pass_over: int | None = leaders_rack
        while len(replicas) < factor:
            if index % len(self._racks) == pass_over:
                pass_over = None  # only once: this rack has given the leader in its turn
            else:
                broker = self._racks[index % len(self._racks)].next(self._round)
                if broker is not None:
                    replicas.append(broker)
            index += 1
        self._round += 1
        self._first = (self._first + 1) % len(self._racks)
        return tuple(replicas)

    def _leader(self) -> tuple[int, int]:
        """The next live broker, and the index of its rack."""
        index = self._first
        while True:
            broker = self._racks[index].next_live(self._round)
            if broker is not None:
                return broker, index
            index = (index + 1) % len(self._racks)

    def _shuffle(self) -> None:
        _shuffle(self._racks, self._random)
        for rack in self._racks:
            rack.shuffle()


def _shuffle(items: MutableSequence[Any], random: Randomness) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random.randrange(last + 1)
        items[last], items[other] = items[other], items[last]

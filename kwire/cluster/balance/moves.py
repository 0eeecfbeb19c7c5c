"""Which partitions are moved so that all brokers have as many: as few as possible. Pure functions, no state.

Each topic is spread by itself, its replicas first and then its preferred leaders: no broker has more than one replica,
or leader, of it above any other. Where that leaves a choice (a topic with one partition is even wherever that is), the
numbers of all topics together decide. A broker whose log directories are all cordoned (KIP-1066) gives replicas, but
gets none. What lives elsewhere: placing new partitions (`even_placement`), carrying the moves out (`balancer`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kwire.cluster.controller.reassignment import is_moving
from kwire.cluster.controller.topics import Reassignment
from kwire.cluster.placement import usable_brokers

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.store.keys import PartitionState


PASSES_MAX: Final = 20


def plan_moves(image: ClusterImage, brokers: Sequence[int]) -> list[Reassignment]:
    """The reassignments after which the partitions are spread evenly over these brokers. Partitions whose replicas are
    being moved already stay as they are, and so do replicas on other brokers."""
    holds = Counter(replica for replicas in _all_replicas(image) for replica in replicas)
    leads = Counter(replicas[0] for replicas in _all_replicas(image))
    topics = {name: _Topic(image.topics[name].partitions, brokers) for name in sorted(image.topics)}
    usable = {broker.id for broker in usable_brokers(image)}
    takers = [broker for broker in brokers if broker in usable]
    for _ in range(PASSES_MAX):  # what one topic gives away may let another one give more
        if not sum(topic.move_replicas(holds, takers) for topic in topics.values()):
            break
    for topic in topics.values():
        topic.note_leaders(leads)
    for _ in range(PASSES_MAX):
        if not sum(topic.change_leaders(leads) for topic in topics.values()):
            break
    return [Reassignment(name, index, target) for name, topic in topics.items() for index, target in topic.changed()]


def _all_replicas(image: ClusterImage) -> Iterable[Sequence[int]]:
    return (state.replicas for topic in image.topics.values() for state in topic.partitions)


class _Topic:
    """A topic's replicas while they are spread. ``targets``: those of each partition."""

    def __init__(self, states: Sequence[PartitionState], brokers: Sequence[int]) -> None:
        self.targets = [list(state.replicas) for state in states]
        self._before = [state.replicas for state in states]
        self._movable = [index for index, state in enumerate(states) if not is_moving(state)]
        self._brokers = brokers

    def changed(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The partitions that have other replicas now, or in another order, and which."""
        for index, (before, target) in enumerate(zip(self._before, self.targets, strict=True)):
            if before != tuple(target):
                yield index, tuple(target)

    def move_replicas(self, holds: Counter[int], takers: Sequence[int]) -> int:
        """Replace brokers that have more replicas by such of the ``takers`` as have fewer; how many. ``holds``: the
        replicas of all topics, which are kept up to date."""
        count = 0
        own = Counter(replica for replicas in self.targets for replica in replicas)
        of = {broker: [index for index in self._movable if broker in self.targets[index]] for broker in self._brokers}
        while True:
            found = self._next(
                _pairs(self._brokers, takers, own, holds),
                (own, holds),
                of,
                lambda replicas, taker: taker not in replicas,
            )
            if found is None:
                return count
            index, giver, taker = found
            replicas = self.targets[index]
            replicas[replicas.index(giver)] = taker
            count += 1

    def note_leaders(self, leads: Counter[int]) -> None:
        """Count the preferred leaders anew, after replicas were moved."""
        leads.subtract(replicas[0] for replicas in self._before)
        leads.update(replicas[0] for replicas in self.targets)

    def change_leaders(self, leads: Counter[int]) -> int:
        """Change the order of replicas, so that others are the preferred leaders; how many. ``leads``: the preferred
        leaders of all topics, which are kept up to date."""
        count = 0
        own = Counter(replicas[0] for replicas in self.targets)
        of = {broker: [at for at in self._movable if self.targets[at][0] == broker] for broker in self._brokers}
        while True:
            found = self._next(
                _pairs(self._brokers, self._brokers, own, leads),
                (own, leads),
                of,
                lambda replicas, taker: taker in replicas,
            )
            if found is None:
                return count
            index, giver, taker = found
            replicas = self.targets[index]
            at = replicas.index(taker)
            replicas[0], replicas[at] = taker, giver
            count += 1

    def _next(
        self,
        pairs: Sequence[tuple[int, int]],
        counted: Sequence[Counter[int]],
        of: dict[int, list[int]],
        fits: Callable[[Sequence[int], int], bool],
    ) -> tuple[int, int, int] | None:
        """A partition that the first broker of one of the ``pairs`` gives to the second one; the counts are those
        afterwards. None if there is no such partition. ``of``: the partitions that each broker can give; the last ones
        are given first."""
        for giver, taker in pairs:
            given = of[giver]
            for at in range(len(given) - 1, -1, -1):
                index = given[at]
                if fits(self.targets[index], taker):
                    del given[at]
                    of[taker].append(index)
                    for counts in counted:
                        counts[giver] -= 1
                        counts[taker] += 1
                    return index, giver, taker
        return None


def _pairs(
    givers: Sequence[int], takers: Sequence[int], own: Counter[int], total: Counter[int]
) -> list[tuple[int, int]]:
    """Who may give one to whom, the best pair first."""
    found = [
        (own[giver] - own[taker], total[giver] - total[taker], -giver, -taker)
        for giver in givers
        for taker in takers
        if own[giver] - own[taker] > 1 or (own[giver] - own[taker] == 1 and total[giver] - total[taker] > 1)
    ]
    return [(-giver, -taker) for _, _, giver, taker in sorted(found, reverse=True)]

"""`Balancer`: keeps the load even on the brokers of one host, as the controller (`kwire.balance.enable`).

* When a preferred leader is in sync but does not lead, it is elected, at most `SETTLE_S` later: after a restart a
  broker leads again what it led before. Kafka's controller looks every five minutes.
* When there are brokers over which partitions have not been spread, some are moved to them, by ordinary reassignments
  of at most `BATCH` partitions at a time, throttled to `kwire.balance.throttled.rate`. They are planned while no
  partition is being moved, and anew if the brokers change meanwhile. Afterwards the metadata store says over which
  brokers they are spread; until the number of brokers grows, nothing is moved again, whatever an operator does with
  partitions. A broker whose log directories are all cordoned (KIP-1066) gets nothing before one is
  released, as in the placement of new partitions.

Everything is decided from the image and kept in the metadata store, so the next controller continues where a killed one
has stopped. What lives elsewhere: which partitions move (`moves`), the throttles (`throttling`), placing new partitions
(`kwire.cluster.even_placement`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.base.errors import KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.balance.moves import plan_moves
from kwire.cluster.balance.throttling import release, throttle
from kwire.cluster.controller.leaders import PREFERRED
from kwire.cluster.controller.reassignment import is_moving
from kwire.cluster.placement import usable_brokers
from kwire.cluster.store.keys import ConfigResource

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.topic_partition import TopicPartition
    from kwire.cluster.controller.controller import Controller
    from kwire.cluster.controller.plan import Plan
    from kwire.cluster.controller.topics import Reassignment
    from kwire.cluster.metadata.image import ClusterImage, Delta, MetadataCache
    from kwire.cluster.store.keys import PartitionState

SETTLE_S: Final = 0.3
"""How long changes are gathered before leaders are elected or partitions are moved."""

RETRY_S: Final = 1.0
BATCH: Final = 50
ELECTIONS_MAX: Final = 1000
WAIT_S: Final = 3600.0

_logger = get_logger("kwire.cluster.balance")


class Balancer:
    """Two tasks, because moving partitions may take hours. They sleep on every broker but the controller."""

    def __init__(self, config: KafkaConfig, controller: Controller, metadata: MetadataCache) -> None:
        self._config = config
        self._controller = controller
        self._metadata = metadata
        self._leaders = _Duty("elect preferred leaders", self._elect)
        self._partitions = _Duty("spread partitions", self._spread)
        metadata.add_listener(self._on_image)

    async def close(self) -> None:
        """Stop; reassignments that have begun go on."""
        await self._leaders.close()
        await self._partitions.close()

    def _on_image(self, image: ClusterImage, delta: Delta) -> None:
        if not self._controller.active:
            return
        others = delta.brokers or delta.controller
        if others or any(kind == ConfigResource.BROKER for kind, _ in delta.configs):
            self._partitions.wake()
        if others or any(
            _is_unpreferred(state, image) for name in delta.changed for state in image.topics[name].partitions
        ):
            self._leaders.wake()

    async def _elect(self) -> None:
        """Elect the preferred leaders that can lead and do not."""
        image = self._metadata.image
        wanted: list[TopicPartition] = [
            (topic.name, index)
            for topic in image.topics.values()
            for index, state in enumerate(topic.partitions)
            if _is_unpreferred(state, image)
        ]
        for start in range(0, len(wanted), ELECTIONS_MAX):
            if self._controller.active:
                part = wanted[start : start + ELECTIONS_MAX]
                results = await self._controller.leaders.elect_leaders(PREFERRED, part)
                elected = sum(error is None for error in results.values())
                _logger.info("preferred leaders elected", partitions=elected)

    async def _spread(self) -> None:
        """Move partitions until they are spread over all brokers. While one that holds partitions is away, it cannot
        give any, so this waits for it to come back."""
        while self._controller.active:
            image = self._metadata.image
            brokers, takers = _staying(image), _takers(image)
            if set(takers) <= set(image.balance.brokers) or not _all_here(image):
                return
            moving = _moving(image)
            if moving:  # begun for fewer brokers, by a former controller or an operator: where they end counts
                await self._metadata.until(partial(self._settled, moving), WAIT_S)
                continue
            if await self._carry_out(plan_moves(image, brokers), takers) and self._controller.active:
                await self._controller.decisions.decide(_releasing(takers))

    async def _carry_out(self, moves: Sequence[Reassignment], takers: Sequence[int]) -> bool:
        """Make these reassignments; False if other brokers take partitions meanwhile, or this one is not the
        controller."""
        if moves:
            _logger.info("partitions are moved to new brokers", partitions=len(moves), brokers=list(takers))
        for start in range(0, len(moves), BATCH):
            batch = moves[start : start + BATCH]
            await self._controller.decisions.decide(_throttling(batch, self._config.kwire_balance_throttled_rate))
            outcomes = await self._controller.leaders.alter_partition_reassignments(batch)
            begun = [(move.topic, move.partition) for move, error in zip(batch, outcomes, strict=True) if error is None]
            while not await self._metadata.until(partial(self._settled, begun), WAIT_S):
                _logger.info("partitions are still being moved", partitions=len(begun))
            if not self._controller.active or _takers(self._metadata.image) != takers:
                return False
        if moves:
            _logger.info("partitions are spread over all brokers", moved=len(moves))
        return True

    def _settled(self, moving: Iterable[TopicPartition], image: ClusterImage) -> bool:
        """Whether the moves of these partitions are completed (or cancelled), or need not be waited for any more."""
        if not self._controller.active:
            return True
        states = (image.partition(*each) for each in moving)
        return not any(state is not None and is_moving(state) for state in states)


class _Duty:
    """A task that does something when it is woken, and again if it fails."""

    def __init__(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._work = work
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    async def close(self) -> None:
        """End the task."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_S)
            self._wake.clear()
            try:
                await self._work()
            except KafkaError as error:
                _logger.warning("the load cannot be balanced now", duty=self._name, error=str(error))
                await self._again()
            except Exception as error:
                _logger.error("balancing failed", duty=self._name, exc_info=error)
                await self._again()

    async def _again(self) -> None:
        await asyncio.sleep(RETRY_S)
        self._wake.set()


def _staying(image: ClusterImage) -> list[int]:
    """The live brokers that are not shutting down."""
    return [broker.id for broker in image.sorted_brokers() if not broker.leaving]


def _takers(image: ClusterImage) -> list[int]:
    """Those of them that may get partitions: not all of their log directories are cordoned."""
    usable = {broker.id for broker in usable_brokers(image)}
    return [broker for broker in _staying(image) if broker in usable]


def _all_here(image: ClusterImage) -> bool:
    """Whether every broker that holds partitions is live."""
    states = (state for topic in image.topics.values() for state in topic.partitions)
    return all(replica in image.brokers for state in states for replica in state.replicas)


def _moving(image: ClusterImage) -> list[TopicPartition]:
    return [
        (topic.name, index)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if is_moving(state)
    ]


def _is_unpreferred(state: PartitionState, image: ClusterImage) -> bool:
    """Whether the preferred leader can lead and does not."""
    preferred = state.replicas[0]
    if state.leader == preferred or preferred not in state.isr or state.is_offline(preferred, image.brokers):
        return False
    return not image.brokers[preferred].leaving


def _throttling(moves: Sequence[Reassignment], rate: int) -> Callable[[ClusterImage, Plan], None]:
    return lambda image, plan: throttle(image, plan, moves, rate)


def _releasing(brokers: Sequence[int]) -> Callable[[ClusterImage, Plan], None]:
    return lambda image, plan: release(image, plan, brokers)

"""`LeaderElections`: decisions about which replica leads a partition and where its replicas are.

These are elections that a client requests, elections because brokers or log directories fail or return, and
reassignments.

What lives elsewhere: the rules (`elections`, `reassignment`: pure functions), what triggers elections (`failover`),
the leader's own changes of the ISR (`isr_writer`), decisions about topics and configuration (`controller`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError, as_value
from kwire.cluster.controller import elections, reassignment
from kwire.cluster.controller.decisions import Decisions
from kwire.cluster.controller.elections import ElectionRules, led_by
from kwire.cluster.controller.plan import ChangedStates, Plan, parts
from kwire.cluster.controller.topics import Reassignment, check_reassignment
from kwire.cluster.metadata.features import ELR_VERSION
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.store.keys import SHARD_PARTITIONS, PartitionState

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.topic_partition import TopicPartition

SHARDS_PER_DECISION: Final = 32
"""So many shards of partitions are changed by one commit when brokers come and go, so that it does not delay other
decisions, and brokers apply it quickly."""

VISITED_PER_DECISION: Final = 4000
"""After so many partitions that need no change, other work of the event loop has its turn."""

Place = tuple[int, int]
"""How far a walk over all partitions has come: the number of a topic, and the index of a partition."""

PREFERRED: Final = 0
UNCLEAN: Final = 1
"""The election types of ElectLeaders."""


class LeaderElections:
    """Decides about leaders, in-sync replicas and the placement of replicas."""

    def __init__(self, config: KafkaConfig, decisions: Decisions) -> None:
        self._config = config
        self._decisions = decisions

    async def elect_leaders(
        self,
        election_type: int,
        partitions: Sequence[TopicPartition] | None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect the preferred replica, or (unclean) any live one. ``None``: all partitions; the result then leaves out
        those that needed no election. Many partitions are elected by several commits."""
        wanted = partitions
        if wanted is None:
            topics = self._decisions.image.topics
            wanted = [
                (topic.name, index)
                for topic in topics.values()
                for index, state in enumerate(topic.partitions)
                if state.leader != (state.replicas[0] if election_type == PREFERRED else elections.NO_LEADER)
            ]
        results: dict[TopicPartition, KafkaError | None] = {}
        for part in list(parts(wanted)) or [[]]:
            results |= await self._elect_part(election_type, part, timeout_ms)
        if partitions is None:
            results = {key: error for key, error in results.items() if not _not_needed(error)}
        return results

    async def _elect_part(
        self, election_type: int, wanted: Sequence[TopicPartition], timeout_ms: int | None
    ) -> dict[TopicPartition, KafkaError | None]:
        def decide(image: ClusterImage, plan: Plan) -> dict[TopicPartition, KafkaError | None]:
            results: dict[TopicPartition, KafkaError | None] = {}
            elected: ChangedStates = {}
            for topic, index in wanted:
                try:
                    state = _elect(image, topic, index, election_type)
                except KafkaError as error:
                    results[topic, index] = as_value(error)
                else:
                    results[topic, index] = None
                    elected.setdefault(topic, {})[index] = state
            plan.write_states(elected)
            return results

        return await self._decisions.decide_in_time(decide, timeout_ms)

    async def replicas_failed(self, partitions: Sequence[TopicPartition]) -> None:
        """Mark these replicas of this broker as offline, because their log directories have failed: another in-sync
        replica is elected; a partition that has none is without a leader until the directory is online again."""
        for part in parts(partitions):
            await self._decisions.decide(partial(self._plan_failed, part), as_controller=False)

    def _plan_failed(self, partitions: Sequence[TopicPartition], image: ClusterImage, plan: Plan) -> None:
        broker_id = self._decisions.broker_id
        settle = self._settler(image)
        changed: ChangedStates = {}
        for topic, index in partitions:
            state = image.partition(topic, index)
            if state is not None and broker_id in state.replicas and broker_id not in state.offline:
                failed = state._replace(offline=(*state.offline, broker_id))
                changed.setdefault(topic, {})[index] = elections.numbered(state, settle(topic, failed))
        plan.write_states(changed)

    async def alter_partition_reassignments(
        self,
        wanted: Sequence[Reassignment],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> list[KafkaError | None]:
        """Begin to move replicas to other brokers, or cancel moves; the outcomes in order (KIP-455)."""

        def decide(image: ClusterImage, plan: Plan) -> list[KafkaError | None]:
            settle = self._settler(image)
            outcomes = [check_reassignment(image, each, allow_replication_factor_change) for each in wanted]
            changed: ChangedStates = {}
            for each, error in zip(wanted, outcomes, strict=True):
                state = image.partition(each.topic, each.partition)
                if error is not None or state is None:
                    continue
                target = each.replicas
                moved = reassignment.cancel(state) if target is None else reassignment.begin(state, target)
                new = elections.numbered(state, settle(each.topic, moved))
                if new is not state:
                    changed.setdefault(each.topic, {})[each.partition] = new
            plan.write_states(changed)
            return outcomes

        return await self._decisions.decide_in_time(decide, timeout_ms)

    async def settle_leaders(self, topics: Iterable[str] | None = None, brokers: Collection[int] | None = None) -> int:
        """Bring all partitions, or those of some topics, in line with the live brokers (`elections.after`).
        ``brokers``: only the partitions that have a replica on one of these. Returns how many partitions changed.

        One commit after the other changes some shards, and a long walk gives way to other work."""
        names = list(self._decisions.image.topics if topics is None else topics)
        chosen = None if brokers is None else frozenset(brokers)
        count = 0
        place: Place | None = (0, 0)
        while place is not None:
            changed, place = await self._decisions.decide(partial(self._plan_leaders, names, chosen, place))
            count += changed
            await asyncio.sleep(0)
        return count

    def _plan_leaders(
        self, names: Sequence[str], brokers: frozenset[int] | None, place: Place, image: ClusterImage, plan: Plan
    ) -> tuple[int, Place | None]:
        """Plan one part of a walk from ``place``: how many partitions change, and where the next part begins."""
        settle = self._settler(image)
        count = visited = 0
        start, first = place
        for number in range(start, len(names)):
            name = names[number]
            topic = image.topics.get(name)
            size = 0 if topic is None else len(topic.partitions)
            while topic is not None and first < size:
                end = min(first + SHARD_PARTITIONS, size)
                changed = {}
                for index in range(first, end):
                    state = topic.partitions[index]
                    if brokers is None or not brokers.isdisjoint(state.replicas):
                        new = elections.numbered(state, settle(name, state))
                        if new is not state:
                            changed[index] = new
                if changed:
                    plan.write_states({name: changed})
                    count += len(changed)
                visited += end - first
                first = end
                if plan.writes >= SHARDS_PER_DECISION or visited >= VISITED_PER_DECISION:
                    return count, (number, first)
            first = 0
        return count, None

    def _settler(self, image: ClusterImage) -> Callable[[str, PartitionState], PartitionState]:
        """(topic, partition) -> the partition in line with an image's brokers, its reassignment completed if it can
        be; the same object if nothing changes."""
        leaving = frozenset(broker.id for broker in image.brokers.values() if broker.leaving)
        rules = cache(partial(self.election_rules, image))

        def settle(topic: str, state: PartitionState) -> PartitionState:
            return elections.after(reassignment.complete(state), image.brokers, rules(topic), leaving=leaving)

        return settle

    def election_rules(self, image: ClusterImage, topic: str) -> ElectionRules:
        """The topic properties that elections depend on. ``min_isr`` is 0 if the cluster does not use
        eligible leader replicas (KIP-966, `ELR_VERSION`): no ISR counts as too small then."""
        values = self._config.topic_config(image.topic_config(topic))
        min_isr = values["min.insync.replicas"] if image.features.get(ELR_VERSION) else 0
        return ElectionRules(min_isr, values["unclean.leader.election.enable"])


def _elect(image: ClusterImage, topic: str, index: int, election_type: int) -> PartitionState:
    """The partition's state after an election of the given type (ElectLeaders). Raises the KafkaError
    of the response if there is no election."""
    if topic not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    state = image.partition(topic, index)
    if state is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    if election_type == PREFERRED:
        preferred = state.replicas[0]
        if state.leader == preferred:
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica leads already.")
        if preferred not in state.isr or state.is_offline(preferred, image.brokers):
            raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
        return led_by(state, preferred)
    if state.leader != -1:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "The partition has a leader.")
    living = [broker for broker in state.replicas if not state.is_offline(broker, image.brokers)]
    in_sync = [broker for broker in living if broker in state.isr]
    if not living:
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    if in_sync:
        return led_by(state, in_sync[0])
    return led_by(state._replace(isr=(living[0],), elr=(), last_leader=()), living[0])


def _not_needed(error: KafkaError | None) -> bool:
    return error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED

"""Decisions about who leads: elections that were asked for or follow from brokers and disks that come and go, and moves
of replicas between brokers.

What lives elsewhere: the rules (`elections`, `reassignment`: pure functions), what wakes the controller (`failover`),
the leader's own changes of the ISR (`isr_writer`), decisions about topics and configuration (`controller`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller import elections, reassignment
from kwire.cluster.controller.decisions import Decisions
from kwire.cluster.controller.elections import led_by
from kwire.cluster.controller.plan import ChangedStates, Plan
from kwire.cluster.controller.topics import Reassignment, check_reassignment
from kwire.cluster.metadata.features import ELR_VERSION
from kwire.cluster.metadata.image import ClusterImage, MetadataCache
from kwire.cluster.store.keys import PartitionState
from kwire.cluster.store.store import MetadataStore

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig

PARTITIONS_PER_DECISION: Final = 2000
"""More are settled in several commits, so that nobody is held up by one."""

PREFERRED: Final = 0
UNCLEAN: Final = 1


class LeaderDecisions(Decisions):
    """Decides about leaders, in-sync replicas and where replicas are."""

    def __init__(self, config: KafkaConfig, store: MetadataStore, metadata: MetadataCache, broker_id: int) -> None:
        super().__init__(store, metadata, broker_id)
        self._config = config

    async def elect_leaders(
        self,
        election_type: int,
        partitions: Sequence[tuple[str, int]] | None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[tuple[str, int], KafkaError | None]:
        """Elect the preferred replica, or (unclean) any living one. ``None``: all partitions, of which only those
        that were in need of it are reported."""

        def decide(image: ClusterImage, plan: Plan) -> dict[tuple[str, int], KafkaError | None]:
            wanted = partitions
            if wanted is None:
                wanted = [
                    (topic.name, index) for topic in image.topics.values() for index in range(len(topic.partitions))
                ]
            results: dict[tuple[str, int], KafkaError | None] = {}
            elected: ChangedStates = {}
            for topic, index in wanted:
                try:
                    state = _elect(image, topic, index, election_type)
                except KafkaError as error:
                    results[topic, index] = error
                else:
                    results[topic, index] = None
                    elected.setdefault(topic, {})[index] = state
            plan.write_states(elected)
            if partitions is None:
                results = {key: error for key, error in results.items() if not _not_needed(error)}
            return results

        return await self._in_time(self._decide(decide), timeout_ms)

    async def replicas_failed(self, partitions: Sequence[tuple[str, int]]) -> None:
        """The directories of these replicas of this broker have failed: another in-sync broker leads, or nobody until
        the disk is back."""

        def decide(image: ClusterImage, plan: Plan) -> None:
            settle = self._settler(image)
            changed: ChangedStates = {}
            for topic, index in partitions:
                state = image.partition(topic, index)
                if state is not None and self._broker_id in state.replicas and self._broker_id not in state.offline:
                    failed = state._replace(offline=(*state.offline, self._broker_id))
                    changed.setdefault(topic, {})[index] = elections.numbered(state, settle(topic, failed))
            plan.write_states(changed)

        await self._decide(decide, office=False)

    async def alter_partition_reassignments(
        self,
        wanted: Sequence[Reassignment],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> list[KafkaError | None]:
        """Begin to move partitions to other brokers, or cancel it; the outcomes in order."""

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

        return await self._in_time(self._decide(decide), timeout_ms)

    async def settle_leaders(self, topics: Iterable[str] | None = None) -> int:
        """Bring all partitions (or those of some topics) in line with the brokers that are there: `elections.after`.
        How many partitions changed."""
        image = self._metadata.image
        names: list[str] = []
        size = count = 0
        for name in list(image.topics if topics is None else topics):
            names.append(name)
            topic = image.topics.get(name)
            size += 0 if topic is None else len(topic.partitions)
            if size >= PARTITIONS_PER_DECISION:
                count += await self._decide(partial(self._plan_leaders, names))
                names, size = [], 0
        if names:
            count += await self._decide(partial(self._plan_leaders, names))
        return count

    def _plan_leaders(self, names: Sequence[str], image: ClusterImage, plan: Plan) -> int:
        settle = self._settler(image)
        changed: ChangedStates = {}
        for name in names:
            topic = image.topics.get(name)
            if topic is None:
                continue
            for index, state in enumerate(topic.partitions):
                new = elections.numbered(state, settle(name, state))
                if new is not state:
                    changed.setdefault(name, {})[index] = new
        plan.write_states(changed)
        return sum(map(len, changed.values()))

    def _settler(self, image: ClusterImage) -> Callable[[str, PartitionState], PartitionState]:
        """(topic, partition) -> the partition in line with the brokers of an image, its move at an end if that can be;
        the same object if nothing follows."""
        leaving = frozenset(broker.id for broker in image.brokers.values() if broker.leaving)
        rules = cache(partial(self.election_rules, image))

        def settle(topic: str, state: PartitionState) -> PartitionState:
            min_isr, unclean = rules(topic)
            return elections.after(
                reassignment.complete(state), image.brokers, min_isr, unclean=unclean, leaving=leaving
            )

        return settle

    def election_rules(self, image: ClusterImage, topic: str) -> tuple[int, bool]:
        """`min.insync.replicas` and `unclean.leader.election.enable` of a topic. The former is 0 where the cluster has
        no eligible leader replicas: no ISR is too small then."""
        values = self._config.topic_config(image.topic_config(topic))
        min_isr = values["min.insync.replicas"] if image.features.get(ELR_VERSION) else 0
        return min_isr, values["unclean.leader.election.enable"]


def _elect(image: ClusterImage, topic: str, index: int, election_type: int) -> PartitionState:
    """The partition's state with the leader that an ElectLeaders request asks for."""
    if topic not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{topic}'.")
    state = image.partition(topic, index)
    if state is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{index}.")
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

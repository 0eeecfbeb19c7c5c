"""The controller: every decision about topics, configuration, leaders and producer ids, as a compare-and-set.

A decision is made from one image of the cluster and written together with checks of everything it rests on: the
controller's office, the topic's key, the shard. If a check fails, the image is brought up to date and the decision is
made again; if the office is lost, the answer is NOT_CONTROLLER. Operations wait for their turn in one line, so a
broker does not get into its own way.

What lives elsewhere: names and placement (`topics`), what properties mean (`kwire.base.config`), claiming the office
(`membership`), acting on what was decided (`replica_manager`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kwire.base.config.resources import ResourceValidator
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.base.uuids import random_uuid, uuid_to_text
from kwire.cluster import elections, keys, reassignment
from kwire.cluster.elections import led_by
from kwire.cluster.image import SHARD_PARTITIONS, ClusterImage, MetadataCache, TopicImage
from kwire.cluster.keys import ConfigResource, PartitionState
from kwire.cluster.store import Check, Conflict, MetadataStore, SessionLost, StoreFull, StoreUnavailable, Write
from kwire.cluster.topics import (
    CLUSTER_METADATA_TOPIC,
    PARTITIONS_PER_REQUEST_MAX,
    Reassignment,
    check_assignments,
    check_name,
    check_reassignment,
    check_replicas,
    check_same_factor,
    collision_key,
    place,
)

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors

T = TypeVar("T")
R = TypeVar("R")

_logger = get_logger("kwire.cluster.controller")

ATTEMPTS_MAX: Final = 20
PRODUCER_ID_BLOCK: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1
TOPICS_PER_DECISION: Final = 500
PREFERRED: Final = 0
UNCLEAN: Final = 1

ValidateConfig = Callable[[int, str, Mapping[str, str]], None]
"""(resource type, name, properties) -> None, or KafkaError: judges the properties that a resource would have."""

ChangeConfig = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From the properties that are set now to those that shall be; KafkaError refuses. May be called more than once."""


class NewTopic(NamedTuple):
    """A topic to be created. -1 stands for the broker's default; ``assignments`` (partition and its replicas) excludes
    both numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = {}


class CreatedTopic(NamedTuple):
    """A topic that was created, or (validate only) would have been: then its id is one that nobody has."""

    name: str
    id: bytes
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class NewPartitions(NamedTuple):
    """Grow a topic to ``total`` partitions; ``assignments``: replicas of each new one, or None to place them."""

    name: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None


class ConfigUpdate(NamedTuple):
    """A change of one resource's properties."""

    resource: ConfigResource
    name: str
    change: ChangeConfig


class _Plan:
    """What one decision would check and write; `write` refuses nothing, the store has the last word."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.checks: dict[str, Check] = {}
        self.writes: dict[str, Write] = {}

    def check(self, key: str) -> None:
        """Only if the key is still as the image has it."""
        self.checks[key] = Check(key, self._metadata.version(key))

    def write(self, key: str, value: bytes | None) -> None:
        """Set (or delete) a key, only if it is still as the image has it."""
        self.check(key)
        self.writes[key] = Write(key, value)


class Controller:
    """Decides for the cluster, while this broker holds the office."""

    def __init__(
        self,
        doors: Doors,
        config: KafkaConfig,
        store: MetadataStore,
        metadata: MetadataCache,
        broker_id: int,
        validate_config: ValidateConfig | None = None,
    ) -> None:
        self._random = doors.random
        self._config = config
        self._store = store
        self._metadata = metadata
        self._broker_id = broker_id
        self._validate_config = validate_config or ResourceValidator(config)
        self._turn = asyncio.Lock()

    @property
    def active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._metadata.image.controller_id == self._broker_id

    # Topics

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics, each on its own merits; the outcome by name. Names must differ from each other.

        POLICY_VIOLATION for all if there are too many partitions in the request. REQUEST_TIMED_OUT is raised here as
        everywhere in this class when ``timeout_ms`` is over (at once if it is not positive).
        """
        if sum(max(topic.partitions, len(topic.assignments)) for topic in topics) > PARTITIONS_PER_REQUEST_MAX:
            refusal = KafkaError(
                ErrorCode.POLICY_VIOLATION, f"More than {PARTITIONS_PER_REQUEST_MAX} partitions in one request."
            )
            return {topic.name: refusal for topic in topics}

        def decide(image: ClusterImage, plan: _Plan) -> dict[str, CreatedTopic | KafkaError]:
            existing = {collision_key(name): name for name in image.topics}
            results: dict[str, CreatedTopic | KafkaError] = {}
            for topic in topics:
                try:
                    created, assignments = self._plan_topic(image, topic, existing)
                except KafkaError as error:
                    results[topic.name] = error
                    continue
                if not validate_only:
                    self._write_topic(plan, created, assignments)
                results[topic.name] = created
            return results

        results = await self._in_time(self._decide(decide), timeout_ms)
        for each in results.values() if not validate_only else ():
            if isinstance(each, CreatedTopic):
                _logger.info(
                    "topic created", topic=each.name, topic_id=uuid_to_text(each.id), partitions=each.partitions
                )
        return results

    def _plan_topic(
        self, image: ClusterImage, topic: NewTopic, existing: Mapping[str, str]
    ) -> tuple[CreatedTopic, list[tuple[int, ...]]]:
        if topic.name == CLUSTER_METADATA_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic.name} cannot be created: the name is reserved.")
        check_name(topic.name)
        if topic.name in image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        other = existing.get(collision_key(topic.name))
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with existing topic: {other}"
            )
        configs = _without_nulls(topic.configs)
        self._validate_config(ConfigResource.TOPIC, topic.name, configs)
        assignments = self._plan_assignments(image, topic)
        topic_id = random_uuid(self._random)
        return CreatedTopic(topic.name, topic_id, len(assignments), len(assignments[0]), configs), assignments

    def _plan_assignments(self, image: ClusterImage, topic: NewTopic) -> list[tuple[int, ...]]:
        if topic.assignments:
            if topic.replication_factor != -1 or topic.partitions != -1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "Partitions were assigned by hand: number of partitions and replication factor must be -1.",
                )
            return check_assignments(topic.assignments, image.brokers)
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 for the default.",
            )
        if topic.partitions < -1 or topic.partitions == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0, or -1 for the default."
            )
        count = self._config.num_partitions if topic.partitions == -1 else topic.partitions
        factor = topic.replication_factor
        if factor == -1:
            factor = self._config.default_replication_factor
        return place(image.sorted_brokers(), count, factor, self._random)

    def _write_topic(self, plan: _Plan, topic: CreatedTopic, assignments: Sequence[tuple[int, ...]]) -> None:
        plan.write(keys.topic_key(topic.name), keys.pack(id=uuid_to_text(topic.id)))
        states = [PartitionState(replicas, replicas, replicas[0], 0, 0) for replicas in assignments]
        for shard, start in enumerate(range(0, len(states), SHARD_PARTITIONS)):
            part = states[start : start + SHARD_PARTITIONS]
            plan.write(keys.shard_key(topic.id, shard), keys.pack_shard(part))
        if topic.configs:
            values = dict(topic.configs)
            plan.write(keys.config_key(ConfigResource.TOPIC, topic.name), keys.pack(values=values))

    async def auto_create(self, names: Sequence[str]) -> None:
        """Create topics that a client asked for, as `auto.create.topics.enable` promises: with the broker's defaults,
        internal ones as they must be (not that of share groups, which there are none of). A topic that cannot be
        created is left out: its client will be told that there is none."""
        topics = [automatic_topic(self._config, name) for name in names if name != "__share_group_state"]
        try:
            await self.create_topics(topics)
        except KafkaError as error:
            _logger.warning("topics cannot be created", topics=list(names), error=str(error))

    async def register_topics(self, topics: Mapping[str, tuple[bytes, int]]) -> list[str]:
        """Make topics known whose logs are on this broker's disk already: (id, or zero for a new one, and number of
        partitions) by name. The names of those that were not known yet."""

        def decide(image: ClusterImage, plan: _Plan) -> list[str]:
            new = [name for name in topics if name not in image.topics]
            for name in new:
                topic_id, count = topics[name]
                created = CreatedTopic(name, topic_id if any(topic_id) else random_uuid(self._random), count, 1, {})
                self._write_topic(plan, created, [(self._broker_id,)] * count)
            return new

        return await self._decide(decide)

    async def delete_topics(
        self, topic_ids: Sequence[bytes], *, timeout_ms: int | None = None
    ) -> dict[bytes, KafkaError | None]:
        """Delete topics with their configuration; UNKNOWN_TOPIC_ID for those that are not (any more) there."""

        def decide(image: ClusterImage, plan: _Plan) -> dict[bytes, KafkaError | None]:
            results: dict[bytes, KafkaError | None] = {}
            for topic_id in topic_ids:
                topic = image.topics_by_id.get(topic_id)
                if topic is None:
                    results[topic_id] = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
                    continue
                results[topic_id] = None
                self._erase_topic(image, plan, topic)
            return results

        return await self._in_time(self._decide(decide), timeout_ms)

    def _erase_topic(self, image: ClusterImage, plan: _Plan, topic: TopicImage) -> None:
        plan.write(keys.topic_key(topic.name), None)
        for shard in range(_shard_count(topic)):
            plan.write(keys.shard_key(topic.id, shard), None)
        if (ConfigResource.TOPIC, topic.name) in image.configs:
            plan.write(keys.config_key(ConfigResource.TOPIC, topic.name), None)

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[str, KafkaError | None]:
        """Add partitions to topics; the outcome by name. Names must differ from each other."""

        def decide(image: ClusterImage, plan: _Plan) -> dict[str, KafkaError | None]:
            results: dict[str, KafkaError | None] = {}
            for topic in topics:
                try:
                    grown, added = self._plan_partitions(image, topic)
                except KafkaError as error:
                    results[topic.name] = error
                    continue
                results[topic.name] = None
                if not validate_only:
                    self._write_partitions(plan, grown, added)
            return results

        return await self._in_time(self._decide(decide), timeout_ms)

    def _plan_partitions(self, image: ClusterImage, grow: NewPartitions) -> tuple[TopicImage, list[tuple[int, ...]]]:
        topic = image.topics.get(grow.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        present = len(topic.partitions)
        if grow.total == present:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic '{grow.name}' has {present} partition(s) already.")
        if grow.total < present:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic '{grow.name}' has {present} partition(s); {grow.total} is not more than that.",
            )
        more = grow.total - present
        if more > PARTITIONS_PER_REQUEST_MAX:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"More than {PARTITIONS_PER_REQUEST_MAX} new partitions in one request."
            )
        factor = len(topic.partitions[0].replicas)
        if grow.assignments is None:
            return topic, place(image.sorted_brokers(), more, factor, self._random)
        if len(grow.assignments) != more:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{more} additional partition(s) were asked for, but {len(grow.assignments)} assignment(s) given.",
            )
        for replicas in grow.assignments:
            check_replicas(replicas, image.brokers)
        check_same_factor(grow.assignments, factor)
        return topic, [tuple(replicas) for replicas in grow.assignments]

    def _write_partitions(self, plan: _Plan, topic: TopicImage, added: Sequence[tuple[int, ...]]) -> None:
        plan.check(keys.topic_key(topic.name))
        states = list(topic.partitions)
        states += [PartitionState(replicas, replicas, replicas[0], 0, 0) for replicas in added]
        for shard in range(len(topic.partitions) // SHARD_PARTITIONS, -(-len(states) // SHARD_PARTITIONS)):
            part = states[shard * SHARD_PARTITIONS : (shard + 1) * SHARD_PARTITIONS]
            plan.write(keys.shard_key(topic.id, shard), keys.pack_shard(part))

    # Configuration

    async def alter_configs(
        self, updates: Sequence[ConfigUpdate], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[tuple[ConfigResource, str], KafkaError | None]:
        """Change what is set for resources, each on its own merits; the outcome by resource.

        An update's ``change`` gets what is set at the moment of decision, so that concurrent incremental changes do
        not undo each other.
        """

        def decide(image: ClusterImage, plan: _Plan) -> dict[tuple[ConfigResource, str], KafkaError | None]:
            results: dict[tuple[ConfigResource, str], KafkaError | None] = {}
            for update in updates:
                resource = (update.resource, update.name)
                try:
                    values = self._plan_config(image, plan, update)
                except KafkaError as error:
                    results[resource] = error
                    continue
                results[resource] = None
                if not validate_only and values != dict(image.config(*resource)):
                    plan.write(keys.config_key(*resource), keys.pack(values=values) if values else None)
            return results

        return await self._in_time(self._decide(decide), timeout_ms)

    def _plan_config(self, image: ClusterImage, plan: _Plan, update: ConfigUpdate) -> dict[str, str]:
        if update.resource == ConfigResource.TOPIC:
            if update.name not in image.topics:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{update.name}' does not exist.")
            plan.check(keys.topic_key(update.name))
        values = dict(update.change(image.config(update.resource, update.name)))
        self._validate_config(update.resource, update.name, values)
        return values

    # Leaders

    async def elect_leaders(
        self,
        election_type: int,
        partitions: Sequence[tuple[str, int]] | None,
        *,
        timeout_ms: int | None = None,
    ) -> dict[tuple[str, int], KafkaError | None]:
        """Elect the preferred replica, or (unclean) any living one. ``None``: all partitions, of which only those
        that were in need of it are reported."""

        def decide(image: ClusterImage, plan: _Plan) -> dict[tuple[str, int], KafkaError | None]:
            wanted = partitions
            if wanted is None:
                wanted = [
                    (topic.name, index) for topic in image.topics.values() for index in range(len(topic.partitions))
                ]
            results: dict[tuple[str, int], KafkaError | None] = {}
            elected: dict[str, dict[int, PartitionState]] = {}
            for topic, index in wanted:
                try:
                    state = _elect(image, topic, index, election_type)
                except KafkaError as error:
                    results[topic, index] = error
                else:
                    results[topic, index] = None
                    elected.setdefault(topic, {})[index] = state
            write_states(image, plan.write, elected)
            if partitions is None:
                results = {key: error for key, error in results.items() if not _not_needed(error)}
            return results

        return await self._in_time(self._decide(decide), timeout_ms)

    async def replicas_failed(self, partitions: Sequence[tuple[str, int]]) -> None:
        """The directories of these replicas of this broker have failed: another in-sync broker leads, or nobody until
        the disk is back."""

        def decide(image: ClusterImage, plan: _Plan) -> None:
            changed: dict[str, dict[int, PartitionState]] = {}
            for topic, index in partitions:
                state = image.partition(topic, index)
                if state is not None and self._broker_id in state.replicas and self._broker_id not in state.offline:
                    state = state._replace(offline=(*state.offline, self._broker_id))
                    min_isr, unclean = self.election_rules(image, topic)
                    after = elections.after(state, image.brokers, min_isr, unclean=unclean)
                    if after is state:
                        after = state._replace(partition_epoch=state.partition_epoch + 1)
                    changed.setdefault(topic, {})[index] = after
            write_states(image, plan.write, changed)

        await self._decide(decide, office=False)

    async def alter_partition_reassignments(
        self,
        wanted: Sequence[Reassignment],
        *,
        allow_replication_factor_change: bool = True,
        timeout_ms: int | None = None,
    ) -> list[KafkaError | None]:
        """Begin to move partitions to other brokers, or cancel it; the outcomes in order."""

        def decide(image: ClusterImage, plan: _Plan) -> list[KafkaError | None]:
            outcomes = [check_reassignment(image, each, allow_replication_factor_change) for each in wanted]
            changed: dict[str, dict[int, PartitionState]] = {}
            for each, error in zip(wanted, outcomes, strict=True):
                state = image.partition(each.topic, each.partition)
                if error is None and state is not None:
                    new = (
                        reassignment.cancel(state)
                        if each.replicas is None
                        else reassignment.begin(state, each.replicas)
                    )
                    new = self._settled(image, each.topic, new)
                    if new is not state:
                        changed.setdefault(each.topic, {})[each.partition] = new
            write_states(image, plan.write, changed)
            return outcomes

        return await self._in_time(self._decide(decide), timeout_ms)

    async def settle_leaders(self, topics: Iterable[str] | None = None) -> int:
        """Bring all partitions (or those of some topics) in line with the brokers that are there: `elections.after`.
        How many partitions changed."""
        names = list(self._metadata.image.topics if topics is None else topics)
        count = 0
        for start in range(0, len(names), TOPICS_PER_DECISION):
            count += await self._decide(partial(self._plan_leaders, names[start : start + TOPICS_PER_DECISION]))
        return count

    def _plan_leaders(self, names: Sequence[str], image: ClusterImage, plan: _Plan) -> int:
        changed: dict[str, dict[int, PartitionState]] = {}
        for name in names:
            topic = image.topics.get(name)
            if topic is None:
                continue
            for index, state in enumerate(topic.partitions):
                new = self._settled(image, name, state)
                if new is not state:
                    changed.setdefault(name, {})[index] = new
        write_states(image, plan.write, changed)
        return sum(map(len, changed.values()))

    def _settled(self, image: ClusterImage, topic: str, state: PartitionState) -> PartitionState:
        """A partition in line with the brokers that are there, its move at an end if that can be."""
        leaving = frozenset(broker.id for broker in image.brokers.values() if broker.leaving)
        min_isr, unclean = self.election_rules(image, topic)
        new = elections.after(reassignment.complete(state), image.brokers, min_isr, unclean=unclean, leaving=leaving)
        return new if new is state else new._replace(partition_epoch=state.partition_epoch + 1)

    def election_rules(self, image: ClusterImage, topic: str) -> tuple[int, bool]:
        """`min.insync.replicas` and `unclean.leader.election.enable` of a topic."""
        values = self._config.topic_config(image.topic_config(topic))
        return values["min.insync.replicas"], values["unclean.leader.election.enable"]

    # Producer ids

    async def allocate_producer_ids(self) -> range:
        """A block of `PRODUCER_ID_BLOCK` producer ids that nobody else gets, ever."""

        def decide(image: ClusterImage, plan: _Plan) -> range:
            start = image.next_producer_id
            if start > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are used up.")
            plan.write(keys.PRODUCER_IDS, keys.pack(next=start + PRODUCER_ID_BLOCK))
            return range(start, start + PRODUCER_ID_BLOCK)

        return await self._decide(decide, office=False)

    async def catch_up(self) -> None:
        """Wait until the image here has everything that is in the store now."""
        try:
            revision, _ = await self._store.read(keys.CLUSTER)
        except StoreUnavailable:
            return
        await self._metadata.wait_for(revision)

    # The way every decision takes

    async def _decide(self, decide: Callable[[ClusterImage, _Plan], R], *, office: bool = True) -> R:
        """``office``: only the controller may decide this; otherwise any registered broker."""
        try:
            async with self._turn:
                for _ in range(ATTEMPTS_MAX):
                    self._require(office)
                    plan = _Plan(self._metadata)
                    result = decide(self._metadata.image, plan)
                    if not plan.writes:
                        return result
                    plan.check(keys.CONTROLLER if office else keys.broker_key(self._broker_id))
                    if await self._commit(plan):
                        return result
        except StoreFull as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata store takes no writes: {error}") from error
        except (StoreUnavailable, SessionLost) as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"The metadata store failed: {error}") from error
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Other changes kept getting in between.")

    def _require(self, office: bool) -> None:
        if office and not self.active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if not office and self._broker_id not in self._metadata.image.brokers:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)

    async def _commit(self, plan: _Plan) -> bool:
        """Whether the plan came true; if not, the image has caught up with what prevented it."""
        try:
            revision = await self._store.commit(list(plan.checks.values()), list(plan.writes.values()))
        except Conflict as conflict:
            revision, _ = await self._store.read(conflict.key)
            await self._metadata.wait_for(revision)
            return False
        await self._metadata.wait_for(revision)
        return True

    async def _in_time(self, operation: Coroutine[Any, Any, T], timeout_ms: int | None) -> T:
        """REQUEST_TIMED_OUT when the client no longer waits; what was begun is still done."""
        if timeout_ms is None:
            return await operation
        if timeout_ms <= 0:
            operation.close()
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        task = asyncio.ensure_future(operation)
        done, _ = await asyncio.wait((task,), timeout=timeout_ms / 1000)
        if not done:
            task.add_done_callback(_ignore_outcome)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return task.result()


def _without_nulls(configs: Mapping[str, str | None]) -> dict[str, str]:
    """A new topic's properties; INVALID_CONFIG if one has no value."""
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"A value is needed for: {', '.join(nulls)}")
    return {name: value for name, value in configs.items() if value is not None}


def automatic_topic(config: KafkaConfig, name: str) -> NewTopic:
    """How a topic is created because a client asked for it."""
    return internal_topic(config, name) or NewTopic(name)


def internal_topic(config: KafkaConfig, name: str) -> NewTopic | None:
    """How an internal topic is created when it is first needed; None for the names of ordinary topics."""
    if name == "__consumer_offsets":
        partitions, factor = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
        configs = {"compression.type": "producer", "segment.bytes": str(config.offsets_topic_segment_bytes)}
    elif name == "__transaction_state":
        partitions = config.transaction_state_log_num_partitions
        factor = config.transaction_state_log_replication_factor
        configs = {
            "compression.type": "uncompressed",
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "unclean.leader.election.enable": "false",
        }
    else:
        return None
    return NewTopic(name, partitions, factor, configs={"cleanup.policy": "compact", **configs})


def write_states(
    image: ClusterImage,
    write: Callable[[str, bytes | None], None],
    changed: Mapping[str, Mapping[int, PartitionState]],
) -> None:
    """Write the shards in which partitions change; ``changed`` has the new states by topic name and index."""
    for name, states in changed.items():
        topic = image.topics[name]
        for shard in sorted({index // SHARD_PARTITIONS for index in states}):
            start = shard * SHARD_PARTITIONS
            old = topic.partitions[start : start + SHARD_PARTITIONS]
            new = [states.get(start + offset, state) for offset, state in enumerate(old)]
            write(keys.shard_key(topic.id, shard), keys.pack_shard(new))


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


def _shard_count(topic: TopicImage) -> int:
    return -(-len(topic.partitions) // SHARD_PARTITIONS)


def _ignore_outcome(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()

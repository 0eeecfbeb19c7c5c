"""`Controller`: every decision about topics, configuration, features, brokers, credentials and producer ids, as a
compare-and-set.

What lives elsewhere: how a decision is made (`decisions`), decisions about leaders (`leaders`) and about credentials
and tokens (`credentials`, `delegation_tokens`), names and placement (`topics`), what properties mean
(`kwire.base.config`), claiming the controllership (`membership`), acting on decisions (`replica_manager`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kwire.base.config.definitions import has_stores
from kwire.base.config.resources import ResourceValidator
from kwire.base.errors import ErrorCode, KafkaError, as_value
from kwire.base.logging import get_logger
from kwire.base.quota import UNBOUNDED, MutationQuota
from kwire.base.uuids import random_uuid, uuid_to_text
from kwire.cluster.controller.decisions import Decisions, in_parts
from kwire.cluster.controller.leaders import LeaderElections
from kwire.cluster.controller.plan import Plan
from kwire.cluster.controller.topics import (
    CLUSTER_METADATA_TOPIC,
    PARTITIONS_PER_REQUEST_MAX,
    NewTopic,
    automatic_topics,
    check_assignments,
    check_name,
    check_replicas,
    check_same_factor,
    new_partition,
)
from kwire.cluster.metadata.features import FeatureUpdate, updated
from kwire.cluster.metadata.image import SHARD_PARTITIONS, ClusterImage, MetadataCache, TopicImage
from kwire.cluster.placement import place, usable_brokers
from kwire.cluster.store import keys
from kwire.cluster.store.keys import ConfigResource, PartitionState

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cluster.controller.acls import AclDecisions
    from kwire.cluster.controller.client_quotas import QuotaDecisions
    from kwire.cluster.controller.credentials import Alterations, CredentialChange
    from kwire.cluster.controller.delegation_tokens import DelegationTokens
    from kwire.cluster.even_placement import ReplicaCounts
    from kwire.cluster.store.store import MetadataStore

_logger = get_logger("kwire.cluster.controller")

PRODUCER_ID_BLOCK: Final = 1000
SCRAM_SECRET_BYTES: Final = 32
PRODUCER_ID_MAX: Final = 2**63 - 1

LINES_PER_TURN: Final = 50
"""Lines about new topics that are logged in one turn of the event loop: one or two milliseconds."""

TOPIC_WORK: Final = 7
"""The least work of creating, extending or deleting a topic, in partitions. A part of small topics has more logs than a
broker creates at once (`replica_manager.LOGS_PER_STEP_MAX`)."""

CONFIG_WORK: Final = 10
"""The work of changing the properties of one resource, in partitions."""

K = TypeVar("K")
R = TypeVar("R")

ValidateConfig = Callable[[int, str, Mapping[str, str]], None]
"""(resource type, name, properties) -> None: validates the properties that a resource would have. KafkaError."""

ChangeConfig = Callable[[Mapping[str, str]], Mapping[str, str]]
"""The properties to be set, from those that are set now; KafkaError refuses. May be called more than once."""


Placer = Callable[[int, int, Sequence[PartitionState]], list[tuple[int, ...]]]
"""(partitions, replication factor, partitions that the topic has) -> the replicas of the new partitions. KafkaError."""


class CreatedTopic(NamedTuple):
    """A topic that was created, or (validate only) would have been; then no topic has its id."""

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


class Controller:
    """Decides for the cluster while this broker is the controller. Decisions raise NOT_CONTROLLER elsewhere.

    ``leaders`` decides about leaders and replicas. With ``timeout_ms``, a decision raises REQUEST_TIMED_OUT when that
    time has passed (at once if it is not positive).
    """

    def __init__(
        self, doors: Doors, config: KafkaConfig, store: MetadataStore, metadata: MetadataCache, broker_id: int
    ) -> None:
        self._config = config
        self._doors = doors
        self._random = doors.random
        self._metadata = metadata
        self._validate_config: ValidateConfig = ResourceValidator(config)
        self._decisions = Decisions(store, metadata, broker_id)
        self.leaders = LeaderElections(config, self._decisions)

    @property
    def decisions(self) -> Decisions:
        """What makes the decisions, for those that no method here has."""
        return self._decisions

    @property
    def active(self) -> bool:
        """Whether this broker is the controller, according to its image."""
        return self._decisions.active

    async def catch_up(self) -> None:
        """Wait until the image here has everything that is in the store now."""
        await self._decisions.catch_up()

    # -- topics --------------------------------------------------------------------------------------------------------

    async def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
        quota: MutationQuota = UNBOUNDED,
    ) -> dict[str, CreatedTopic | KafkaError]:
        """Create topics independently of each other; the outcome by name. Names must differ from each other.

        ``quota`` is charged for their partitions, as in Kafka also if they are only validated.
        POLICY_VIOLATION for all topics if the request has too many partitions.
        """
        if sum(max(topic.partitions, len(topic.assignments)) for topic in topics) > PARTITIONS_PER_REQUEST_MAX:
            refusal = KafkaError(
                ErrorCode.POLICY_VIOLATION, f"More than {PARTITIONS_PER_REQUEST_MAX} partitions in one request."
            )
            return {topic.name: refusal for topic in topics}

        def decide(part: Sequence[NewTopic], image: ClusterImage, plan: Plan) -> dict[str, CreatedTopic | KafkaError]:
            quota.restart()
            placer = self._placer(image)
            results: dict[str, CreatedTopic | KafkaError] = {}
            for topic in part:
                try:
                    created, states = self._plan_topic(image, topic, requested, placer)
                    quota.spend(created.partitions)
                except KafkaError as error:
                    results[topic.name] = as_value(error)
                    continue
                if not validate_only:
                    self._write_topic(plan, created, states)
                results[topic.name] = created
            self._note_absent(image, plan)
            return results

        await self._catch_up_to_place()
        known = self._metadata.image.topics
        requested = {topic.name for topic in topics if topic.name not in known}  # an earlier part may have made them
        parts = in_parts(topics, lambda topic: max(topic.partitions, len(topic.assignments), TOPIC_WORK))
        results = await self._in_parts([partial(decide, part) for part in parts], timeout_ms, quota)
        if not validate_only:
            await _log_creation([each for each in results.values() if isinstance(each, CreatedTopic)])
        return results

    def _plan_topic(
        self, image: ClusterImage, topic: NewTopic, requested: Collection[str], placer: Placer
    ) -> tuple[CreatedTopic, list[PartitionState]]:
        if topic.name == CLUSTER_METADATA_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {topic.name} is prohibited.")
        check_name(topic.name)
        if topic.name in image.topics:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        other = self._metadata.collision(topic.name, requested)
        if other is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with existing topic: {other}"
            )
        configs = _without_nulls(topic.configs)
        self._validate_config(ConfigResource.TOPIC, topic.name, configs)
        states = [new_partition(image, replicas) for replicas in self._plan_assignments(image, topic, placer)]
        topic_id = random_uuid(self._random)
        return CreatedTopic(topic.name, topic_id, len(states), len(states[0].replicas), configs), states

    def _plan_assignments(self, image: ClusterImage, topic: NewTopic, placer: Placer) -> list[tuple[int, ...]]:
        if topic.assignments:
            for value, what in ((topic.replication_factor, "replication factor"), (topic.partitions, "numPartitions")):
                if value != -1:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"A manual partition assignment was specified, but {what} was not set to -1.",
                    )
            return check_assignments(topic.assignments, image.registered)
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.partitions < -1 or topic.partitions == 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        count = self._config.num_partitions if topic.partitions == -1 else topic.partitions
        factor = topic.replication_factor
        if factor == -1:
            factor = self._config.default_replication_factor
        return placer(count, factor, ())

    def _placer(self, image: ClusterImage) -> Placer:
        """What places the new partitions of one decision."""
        if self._config.kwire_balance_enable:
            from kwire.cluster.even_placement import EvenPlacement  # only with several brokers on one host

            return EvenPlacement(image, self._replica_counts).place
        return lambda count, factor, _present: place(image, count, factor, self._random)

    @cached_property
    def _replica_counts(self) -> ReplicaCounts:
        """How many partitions each broker has, for even placement."""
        from kwire.cluster.even_placement import ReplicaCounts

        return ReplicaCounts()

    async def _catch_up_to_place(self) -> None:
        """Placement that is even needs every broker that is ready, also one that has registered just now."""
        if self._config.kwire_balance_enable:
            await self._decisions.catch_up()

    def _note_absent(self, image: ClusterImage, plan: Plan) -> None:
        """New partitions are not even if a broker is away or gets none because its log directories are cordoned: when
        it is back, some are moved to it."""
        absent = image.registered.keys() - {broker.id for broker in usable_brokers(image) if broker.id in image.brokers}
        if self._config.kwire_balance_enable and not plan.is_empty and not absent.isdisjoint(image.balance.brokers):
            present = tuple(each for each in image.balance.brokers if each not in absent)
            plan.write(keys.BALANCE, keys.pack_balance(image.balance._replace(brokers=present)))

    def _write_topic(self, plan: Plan, topic: CreatedTopic, states: list[PartitionState]) -> None:
        plan.write(keys.topic_key(topic.name), keys.pack(id=uuid_to_text(topic.id)))
        for shard, start in enumerate(range(0, len(states), SHARD_PARTITIONS)):
            part = states[start : start + SHARD_PARTITIONS]
            plan.write(keys.shard_key(topic.id, shard), keys.pack_shard(part))
        if topic.configs:
            values = dict(topic.configs)
            plan.write(keys.config_key(ConfigResource.TOPIC, topic.name), keys.pack(values=values))

    async def auto_create(self, names: Sequence[str]) -> None:
        """Create topics that a client named, with the broker's defaults (`auto.create.topics.enable`). A topic that
        cannot be created stays absent, and the response says so."""
        try:
            await self.create_topics(automatic_topics(self._config, names))
        except KafkaError as error:
            _logger.warning("topics cannot be created", topics=list(names), error=str(error))

    async def register_topics(self, topics: Mapping[str, tuple[bytes, int]]) -> list[str]:
        """Register topics whose logs are already on this broker's disk: (id, or zero for a new one, and number of
        partitions) by name. Returns the names of those that were not registered before."""

        def decide(image: ClusterImage, plan: Plan) -> list[str]:
            new = [name for name in topics if name not in image.topics]
            for name in new:
                topic_id, count = topics[name]
                created = CreatedTopic(name, topic_id if any(topic_id) else random_uuid(self._random), count, 1, {})
                self._write_topic(plan, created, [new_partition(image, (self._decisions.broker_id,))] * count)
            return new

        return await self._decisions.decide(decide)

    async def delete_topics(
        self, topic_ids: Sequence[bytes], *, timeout_ms: int | None = None, quota: MutationQuota = UNBOUNDED
    ) -> dict[bytes, KafkaError | None]:
        """Delete topics with their configuration; UNKNOWN_TOPIC_ID for those that do not exist. ``quota`` is charged
        for their partitions."""

        def decide(part: Sequence[bytes], image: ClusterImage, plan: Plan) -> dict[bytes, KafkaError | None]:
            quota.restart()
            results: dict[bytes, KafkaError | None] = {}
            for topic_id in part:
                topic = image.topics_by_id.get(topic_id)
                if topic is None:
                    results[topic_id] = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
                    continue
                try:
                    quota.spend(len(topic.partitions))
                except KafkaError as error:
                    results[topic_id] = as_value(error)
                    continue
                results[topic_id] = None
                self._erase_topic(image, plan, topic)
            return results

        known = self._decisions.image.topics_by_id
        parts = in_parts(topic_ids, lambda each: max(len(known[each].partitions), TOPIC_WORK) if each in known else 1)
        return await self._in_parts([partial(decide, part) for part in parts], timeout_ms, quota)

    def _erase_topic(self, image: ClusterImage, plan: Plan, topic: TopicImage) -> None:
        plan.write(keys.topic_key(topic.name), None)
        for shard in range(_shard_count(topic)):
            plan.write(keys.shard_key(topic.id, shard), None)
        if (ConfigResource.TOPIC, topic.name) in image.configs:
            plan.write(keys.config_key(ConfigResource.TOPIC, topic.name), None)

    async def create_partitions(
        self,
        topics: Sequence[NewPartitions],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
        quota: MutationQuota = UNBOUNDED,
    ) -> dict[str, KafkaError | None]:
        """Add partitions to topics; the outcome by name. Names must differ from each other. ``quota`` is charged for
        the new partitions."""

        def decide(part: Sequence[NewPartitions], image: ClusterImage, plan: Plan) -> dict[str, KafkaError | None]:
            quota.restart()
            results: dict[str, KafkaError | None] = {}
            placer = self._placer(image)
            for topic in part:
                try:
                    grown, replicas = self._plan_partitions(image, topic, quota, placer)
                    added = [new_partition(image, each) for each in replicas]
                except KafkaError as error:
                    results[topic.name] = as_value(error)
                    continue
                results[topic.name] = None
                if not validate_only:
                    self._write_partitions(plan, grown, added)
            self._note_absent(image, plan)
            return results

        await self._catch_up_to_place()
        parts = in_parts(topics, lambda topic: max(topic.total, TOPIC_WORK))
        return await self._in_parts([partial(decide, part) for part in parts], timeout_ms, quota)

    async def _in_parts(
        self,
        decisions: Sequence[Callable[[ClusterImage, Plan], dict[K, R]]],
        timeout_ms: int | None,
        quota: MutationQuota = UNBOUNDED,
    ) -> dict[K, R]:
        """The outcomes of decisions about the parts of a request. What is decided is paid for."""
        outcomes: dict[K, R] = {}
        for each in await self._decisions.decide_all_in_time(decisions, timeout_ms, quota.keep):
            outcomes |= each
        return outcomes

    def _plan_partitions(
        self, image: ClusterImage, grow: NewPartitions, quota: MutationQuota, placer: Placer
    ) -> tuple[TopicImage, list[tuple[int, ...]]]:
        topic = image.topics.get(grow.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        present = len(topic.partitions)
        if grow.total == present:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
        if grow.total < present:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {grow.name} currently has {present} partition(s); {grow.total} would not be an increase.",
            )
        more = grow.total - present
        if more > PARTITIONS_PER_REQUEST_MAX:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"More than {PARTITIONS_PER_REQUEST_MAX} new partitions in one request."
            )
        factor = len(topic.partitions[0].replicas)
        if grow.assignments is not None and len(grow.assignments) != more:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {more} additional partition(s), but only {len(grow.assignments)} assignment(s) were "
                "specified.",
            )
        quota.spend(more)
        if grow.assignments is None:
            return topic, placer(more, factor, topic.partitions)
        for replicas in grow.assignments:
            check_replicas(replicas, image.registered)
        check_same_factor(grow.assignments, factor)
        return topic, [tuple(replicas) for replicas in grow.assignments]

    def _write_partitions(self, plan: Plan, topic: TopicImage, added: Sequence[PartitionState]) -> None:
        plan.check(keys.topic_key(topic.name))
        states = [*topic.partitions, *added]
        for shard in range(len(topic.partitions) // SHARD_PARTITIONS, -(-len(states) // SHARD_PARTITIONS)):
            part = states[shard * SHARD_PARTITIONS : (shard + 1) * SHARD_PARTITIONS]
            plan.write(keys.shard_key(topic.id, shard), keys.pack_shard(part))

    # -- configuration -------------------------------------------------------------------------------------------------

    async def alter_configs(
        self, updates: Sequence[ConfigUpdate], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> dict[tuple[ConfigResource, str], KafkaError | None]:
        """Change the properties of resources independently of each other; the outcome by resource.

        An update's ``change`` gets the properties as of the decision, so that concurrent incremental changes do not
        undo each other.
        """

        def decide(
            part: Sequence[ConfigUpdate], image: ClusterImage, plan: Plan
        ) -> dict[tuple[ConfigResource, str], KafkaError | None]:
            results: dict[tuple[ConfigResource, str], KafkaError | None] = {}
            for update in part:
                resource = (update.resource, update.name)
                try:
                    values = self._plan_config(image, plan, update)
                except KafkaError as error:
                    results[resource] = as_value(error)
                    continue
                results[resource] = None
                if not validate_only and (values != dict(image.config(*resource)) or has_stores(values)):
                    plan.write(keys.config_key(*resource), keys.pack(values=values) if values else None)
            return results

        parts = in_parts(updates, lambda _: CONFIG_WORK)
        return await self._in_parts([partial(decide, part) for part in parts], timeout_ms)

    def _plan_config(self, image: ClusterImage, plan: Plan, update: ConfigUpdate) -> dict[str, str]:
        if update.resource == ConfigResource.TOPIC:
            if update.name not in image.topics:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{update.name}' does not exist.")
            plan.check(keys.topic_key(update.name))
        values = dict(update.change(image.config(update.resource, update.name)))
        self._validate_config(update.resource, update.name, values)
        return values

    # -- features ------------------------------------------------------------------------------------------------------

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False, timeout_ms: int | None = None
    ) -> None:
        """Finalise other feature levels, all or none (KIP-584). INVALID_UPDATE_VERSION if a registered broker does not
        support one, or if one is lower and the update is not a downgrade."""

        def decide(image: ClusterImage, plan: Plan) -> None:
            ranges = {broker.id: broker.features for broker in image.registered.values()}
            levels = updated(image.features, updates, ranges, self._decisions.broker_id)
            if not validate_only and levels != image.features:
                plan.write(keys.FEATURES, keys.pack(levels=levels))

        before = self._decisions.image.features
        await self._decisions.decide_in_time(decide, timeout_ms)
        after = self._decisions.image.features
        if after != before:
            _logger.info("features are finalised", **after)
            await self.leaders.settle_leaders()  # the ELR depends on a feature level

    # -- brokers -------------------------------------------------------------------------------------------------------

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker's registrations; BROKER_ID_NOT_REGISTERED if it has none. A running broker leaves all ISRs
        and leads nothing until it is restarted. Its replicas stay assigned to it."""

        def decide(image: ClusterImage, plan: Plan) -> None:
            if broker_id not in image.registered:
                raise KafkaError(
                    ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
                )
            gone = [keys.registration_key(broker_id), keys.broker_key(broker_id)]
            if image.controller_id == broker_id:
                gone.append(keys.CONTROLLER)
            for key in gone:
                if self._decisions.is_stored(key):  # brokers of the first kwire versions have no lasting registration
                    plan.write(key, None)

        await self._decisions.decide(decide)
        _logger.info("broker unregistered", unregistered=broker_id)

    # -- credentials ---------------------------------------------------------------------------------------------------

    async def alter_scram_credentials(self, changes: Sequence[CredentialChange]) -> Alterations:
        """Create, replace and delete users' SCRAM credentials, each independently of the others. Deletions come
        first."""
        from kwire.cluster.controller.credentials import plan_alterations  # few clusters have any

        found = await self._decisions.decide(lambda image, plan: plan_alterations(image, plan, changes))
        for kind, altered in (("deleted", found.deletions), ("altered", found.upsertions)):
            for user, change in altered.items():
                _logger.info(f"SCRAM credential {kind}", user=user, mechanism=change.mechanism)
        return found

    async def ensure_scram_secret(self) -> bytes:
        """The secret from which all brokers compute the salts of unknown users, created if there is none. Any
        registered broker may create it."""

        def decide(image: ClusterImage, plan: Plan) -> bytes:
            if image.scram_secret:
                return image.scram_secret
            secret = self._random.randbytes(SCRAM_SECRET_BYTES)
            plan.write(keys.SCRAM_SECRET, keys.pack(secret=secret.hex()))
            return secret

        return await self._decisions.decide(decide, as_controller=False)

    @cached_property
    def delegation_tokens(self) -> DelegationTokens:
        """Decisions about delegation tokens, which any registered broker makes."""
        from kwire.cluster.controller.delegation_tokens import DelegationTokens  # few clusters have any

        return DelegationTokens(self._doors, self._config, self._decisions)

    @cached_property
    def acls(self) -> AclDecisions:
        """Decisions about access control entries."""
        from kwire.cluster.controller.acl_confirmations import confirmed  # few clusters have any
        from kwire.cluster.controller.acls import AclDecisions

        return AclDecisions(self._decisions, partial(confirmed, self._metadata, self._decisions.broker_id))

    @cached_property
    def client_quotas(self) -> QuotaDecisions:
        """Decisions about the quotas of clients."""
        from kwire.cluster.controller.client_quotas import QuotaDecisions  # few clusters have any

        return QuotaDecisions(self._decisions)

    # -- producer ids --------------------------------------------------------------------------------------------------

    async def allocate_producer_ids(self) -> range:
        """A block of `PRODUCER_ID_BLOCK` producer ids for this broker alone. Any registered broker may allocate one."""

        def decide(image: ClusterImage, plan: Plan) -> range:
            start = image.next_producer_id
            if start > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are used up.")
            plan.write(keys.PRODUCER_IDS, keys.pack(next=start + PRODUCER_ID_BLOCK))
            return range(start, start + PRODUCER_ID_BLOCK)

        return await self._decisions.decide(decide, as_controller=False)


async def _log_creation(topics: Sequence[CreatedTopic]) -> None:
    """A line for each new topic, few of them in one turn of the event loop."""
    for count, each in enumerate(topics):
        if count and count % LINES_PER_TURN == 0:
            await asyncio.sleep(0)
        _logger.info("topic created", topic=each.name, topic_id=uuid_to_text(each.id), partitions=each.partitions)


def _without_nulls(configs: Mapping[str, str | None]) -> dict[str, str]:
    """A new topic's properties; INVALID_CONFIG if one has no value."""
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {', '.join(nulls)}")
    return {name: value for name, value in configs.items() if value is not None}


def _shard_count(topic: TopicImage) -> int:
    return -(-len(topic.partitions) // SHARD_PARTITIONS)

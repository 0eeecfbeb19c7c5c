"""`Membership`: this broker's session with the store, its registration, and its claim to the controllership.

`join` does everything in one commit, so that a start costs one sync of the disk: it writes the cluster's id and
features if there are none yet, registers the broker (ephemerally: the registration vanishes with the session), ends the
leaderships of an earlier registration, claims the controllership if there is no controller, and then also holds the
elections that wait for this broker. After an unclean shutdown the broker leaves every ISR in the same commit. If that
is more than the store accepts at once, commits before it end the leaderships, and elections are held after it. Every
registration has a new broker epoch, and every election a new leader epoch, so everything that this broker sent under an
earlier registration is stale.

What lives elsewhere: all later decisions (`controller`), when the controllership is claimed later (`failover`), acting
on the partitions (`replica_manager`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.base.uuids import random_uuid, uuid_to_text
from kwire.cluster.controller import elections
from kwire.cluster.controller.plan import ChangedStates, Plan, parts
from kwire.cluster.metadata import features
from kwire.cluster.metadata.image import Endpoint, MetadataCache
from kwire.cluster.store import keys
from kwire.cluster.store.keys import PartitionState
from kwire.cluster.store.store import (
    Check,
    CommitTooLarge,
    MetadataStore,
    Session,
    SessionLost,
    StoreError,
    StoreUnavailable,
    Write,
)

if TYPE_CHECKING:
    from kwire.base.doors import Doors
    from kwire.base.topic_partition import TopicPartition
    from kwire.cluster.controller.elections import ElectionRules, RulesOfTopic
    from kwire.cluster.metadata.features import Range
    from kwire.cluster.metadata.image import ClusterImage

ATTEMPTS_MAX: Final = 20

_logger = get_logger("kwire.cluster.membership")

IsOffline = Callable[[str, int], bool]
"""(topic, partition index) -> whether the log is in a directory that has failed."""


class Registration(NamedTuple):
    """What a broker registers: its advertised listeners, `broker.rack`, the feature levels that it supports, that
    other brokers may send it Envelopes, and its log directories (`BrokerImage`)."""

    endpoints: Sequence[Endpoint]
    rack: str | None
    features: Mapping[str, Range]
    accepts_envelopes: bool = True
    log_dirs: Sequence[Sequence[str]] = ()
    cordoned: Sequence[str] = ()


class Membership:
    """Joins the cluster and leaves it.

    ``lease_ms``: the session timeout. ``rules``: the election rules of a topic. ``on_loss`` is called when the session
    is lost.
    """

    def __init__(
        self,
        doors: Doors,
        store: MetadataStore,
        metadata: MetadataCache,
        broker_id: int,
        registration: Registration,
        *,
        lease_ms: int,
        rules: RulesOfTopic,
        on_loss: Callable[[], None],
    ) -> None:
        self._random = doors.random
        self._store = store
        self._metadata = metadata
        self._broker_id = broker_id
        self._registration = registration
        self._lease_ms = lease_ms
        self._rules = rules
        self._on_loss = on_loss
        self._session: Session | None = None
        self.founded = False
        """Whether `join` founded the cluster: the store had none."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this registration; 0 before `join`."""
        return self._metadata.created(keys.broker_key(self._broker_id)) if self._session else 0

    @property
    def registered(self) -> bool:
        """Whether this broker is registered and not fenced, according to its image."""
        return self._broker_id in self._metadata.image.brokers

    @property
    def alive(self) -> bool:
        """Whether there is a session that is not known to be lost; False before `join`."""
        return self._session is not None and self._session.alive

    def stands(self) -> bool:
        """Whether this broker is certainly registered, so that its image is as new as acknowledged changes demand."""
        session = self._session
        return session is not None and self._broker_id in self._metadata.image.brokers and session.alive

    async def join(
        self, *, cluster_id: str | None = None, clean: bool = True, is_offline: IsOffline = lambda _topic, _index: False
    ) -> str:
        """Register this broker; returns the cluster id, which is generated if neither store nor caller has one.

        ``cluster_id``: the one in the data directory. INCONSISTENT_CLUSTER_ID if the store has another one,
        DUPLICATE_BROKER_REGISTRATION if another live broker has this broker id, UNSUPPORTED_VERSION if the cluster has
        finalised a feature level that this broker does not support. ``clean``: no record was lost since this broker was
        last registered.
        """
        await self._wait_for_earlier_session()
        self._session = await self._store.open_session(f"broker {self._broker_id}", lease_ms=self._lease_ms)
        self._session.on_loss(self._on_loss)
        try:
            return await self._register(cluster_id, clean, is_offline)
        except BaseException:
            await self.leave()  # otherwise ``on_loss`` would be called for an unused session
            raise

    async def _register(self, cluster_id: str | None, clean: bool, is_offline: IsOffline) -> str:
        refused = 0
        in_parts = False  # many partitions are more than ZooKeeper accepts at once; `failover` then holds the elections
        while refused < ATTEMPTS_MAX:
            plan = Plan(self._metadata)
            self.founded = False
            found_or_made = self._plan_cluster(plan, cluster_id)
            self._plan_features(plan)
            self._plan_registration(plan)
            becomes_controller = self._plan_controllership(plan)
            changed = self._elections(plan.image, clean, is_offline, becomes_controller and not in_parts)
            first, *others = list(parts(_partitions(changed))) or [[]]
            unfinished = in_parts and bool(others)
            if unfinished:
                plan = self._end_leaderships(changed, first)
            else:
                plan.write_states(changed)
            try:
                committed = await plan.commit(self._store)
            except CommitTooLarge:
                if in_parts:
                    raise
                in_parts = True
                continue
            if committed and not unfinished:
                return found_or_made
            refused += not committed
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Other changes kept getting in between.")

    async def rejoin(self, is_offline: IsOffline) -> None:
        """Register again after the session was lost. No record is lost, but replicas whose log directory has failed
        stay offline: ``is_offline`` names them by topic and partition."""
        await self.join(cluster_id=self._metadata.image.cluster_id, is_offline=is_offline)

    async def leave(self) -> None:
        """End the session: registration and controllership are gone when this returns or, if the store fails, when the
        store is next started."""
        if self._session is not None:
            try:
                await self._session.close()
            except StoreError as error:
                _logger.warning("the registration stays until the next start", error=str(error))

    def _plan_cluster(self, plan: Plan, cluster_id: str | None) -> str:
        image = plan.image
        if image.cluster_id:
            if cluster_id not in (None, image.cluster_id):
                raise KafkaError(
                    ErrorCode.INCONSISTENT_CLUSTER_ID,
                    f"The data directory belongs to cluster {cluster_id}, the metadata store to {image.cluster_id}.",
                )
            return image.cluster_id
        cluster_id = cluster_id or uuid_to_text(random_uuid(self._random))
        plan.write(keys.CLUSTER, keys.pack(id=cluster_id))
        self.founded = True
        return cluster_id

    def _plan_features(self, plan: Plan) -> None:
        """Check that this broker supports the finalised levels, and write them again: a concurrent update that has not
        seen this registration is refused then."""
        supported = self._registration.features
        levels = features.of_new_cluster(supported) if self.founded else plan.image.features
        problem = features.why_not(supported, levels)
        if problem is not None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, problem)
        plan.write(keys.FEATURES, keys.pack(levels=levels))

    def _plan_registration(self, plan: Plan) -> None:
        if self._broker_id in plan.image.brokers:
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Another broker with id {self._broker_id} is registered."
            )
        plan.write(keys.broker_key(self._broker_id), self._registration_value(), self.session_id)
        plan.write(keys.registration_key(self._broker_id), self._registration_value())

    async def _wait_for_earlier_session(self) -> None:
        """A broker that was killed stays registered until its lease expires."""
        await self._metadata.until(lambda image: self._broker_id not in image.brokers, 2 * self._lease_ms / 1000)

    def _registration_value(self, **more: bool) -> bytes:
        mine = self._registration
        return keys.pack(
            endpoints=[list(each) for each in mine.endpoints],
            rack=mine.rack,
            features=dict(mine.features),
            envelopes=mine.accepts_envelopes,
            log_dirs=[list(names) for names in mine.log_dirs],
            cordoned=list(mine.cordoned),
            **more,
        )

    def _plan_controllership(self, plan: Plan) -> bool:
        """Claim the controllership if there is no controller; whether that is so."""
        if plan.image.controller_id != -1:
            return False
        epoch = plan.image.controller_epoch + 1
        plan.write(keys.CONTROLLER, keys.pack(broker=self._broker_id, epoch=epoch), self.session_id)
        plan.write(keys.CONTROLLER_EPOCH, keys.pack(epoch=epoch))
        return True

    def _end_leaderships(self, changed: ChangedStates, part: Sequence[TopicPartition]) -> Plan:
        """A plan that ends leaderships in one part of the partitions, while this broker is not registered yet. What is
        left is planned from the next image."""
        plan = Plan(self._metadata)
        plan.check(keys.broker_key(self._broker_id))
        some: ChangedStates = {}
        for topic, index in part:
            some.setdefault(topic, {})[index] = changed[topic][index]
        plan.write_states(some)
        return plan

    def _elections(
        self, image: ClusterImage, clean: bool, is_offline: IsOffline, becomes_controller: bool
    ) -> ChangedStates:
        """The end of this broker's earlier leaderships; a new controller also elects a leader wherever there can be
        one."""
        me = self._broker_id
        live = {*image.brokers, me}
        changed: ChangedStates = {}
        for topic in image.topics.values():
            rules = self._rules(image, topic.name)
            for index, state in enumerate(topic.partitions):
                new = state
                if me in state.replicas:
                    new = self._after_restart(state, live, rules, clean, is_offline(topic.name, index))
                if becomes_controller:
                    new = elections.after(new, live, rules)
                if new is not state:
                    changed.setdefault(topic.name, {})[index] = elections.numbered(state, new)
        return changed

    def _after_restart(
        self, state: PartitionState, live: set[int], rules: ElectionRules, clean: bool, offline: bool
    ) -> PartitionState:
        me = self._broker_id
        new = state
        if state.leader == me or me in state.isr or (not clean and me in state.elr):
            without_unclean_election = rules._replace(unclean=False)
            new = elections.after(state, live - {me}, without_unclean_election, unclean_shutdown=() if clean else (me,))
        if offline != (me in state.offline):
            others = tuple(each for each in state.offline if each != me)
            new = new._replace(offline=(*others, me) if offline else others)
        return new

    async def claim_controllership(self) -> bool:
        """Become the controller if there is none; whether that succeeded. An unregistered broker does not claim it."""
        plan = Plan(self._metadata)
        if not self.alive or not self.registered:
            return False
        plan.check(keys.broker_key(self._broker_id))
        if not self._plan_controllership(plan):
            return False
        try:
            return await plan.commit(self._store)
        except (SessionLost, StoreUnavailable):
            return False

    async def announce_leaving(self) -> None:
        """Begin a controlled shutdown: the registration says so, and the controller elects other leaders."""
        if not self.registered:
            return
        key = keys.broker_key(self._broker_id)
        version = self._metadata.version(key)
        write = Write(key, self._registration_value(leaving=True), self.session_id)
        await self._store.commit([Check(key, version)], [write])

    @property
    def session_id(self) -> int:
        """The session that this broker's ephemeral keys vanish with. Only after `join`."""
        assert self._session is not None
        return self._session.id


def _partitions(changed: ChangedStates) -> Iterator[TopicPartition]:
    return ((topic, index) for topic, states in changed.items() for index in states)

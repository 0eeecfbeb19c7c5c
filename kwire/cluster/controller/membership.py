"""This broker's place in the cluster: its session, its registration, and the controller's office.

`join` does it all in one commit, so that a start costs one sync of the disk: the cluster's id and features where they
are not there yet, the registration (ephemeral: it vanishes with the session), the end of what an earlier life of this
broker led, the office of controller if it is free, and, with the office, all elections that wait for this broker. A
broker that lost unsynced data leaves every ISR in that same commit. Every registration is a new broker epoch, and every
election a new leader epoch, so whatever an earlier life of this broker still tries is stale.

What lives elsewhere: all later decisions (`controller`), when the office is claimed later on (`failover`), acting on
the partitions (`replica_manager`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.base.uuids import random_uuid, uuid_to_text
from kwire.cluster.controller import elections
from kwire.cluster.controller.plan import ChangedStates, Plan
from kwire.cluster.metadata import features
from kwire.cluster.metadata.image import ClusterImage, Endpoint, MetadataCache
from kwire.cluster.store import keys
from kwire.cluster.store.keys import PartitionState
from kwire.cluster.store.store import Check, MetadataStore, Session, SessionLost, StoreError, StoreUnavailable, Write

if TYPE_CHECKING:
    from kwire.base.doors import Doors
    from kwire.cluster.metadata.features import Range

ATTEMPTS_MAX: Final = 20

_logger = get_logger("kwire.cluster.membership")

ElectionRules = Callable[[ClusterImage, str], tuple[int, bool]]
"""`Controller.election_rules`."""


def plain_rules(_image: ClusterImage, _topic: str) -> tuple[int, bool]:
    """Kafka's defaults."""
    return 1, False


class Membership:
    """Joins the cluster and leaves it. ``supported``: the features that this broker supports."""

    def __init__(
        self,
        doors: Doors,
        store: MetadataStore,
        metadata: MetadataCache,
        broker_id: int,
        *,
        lease_ms: int = 9000,
        supported: Mapping[str, Range] = features.SUPPORTED,
        rules: ElectionRules = plain_rules,
    ) -> None:
        self._rules = rules
        self._endpoints: Sequence[Endpoint] = ()
        self._rack: str | None = None
        self._on_loss: Callable[[], None] | None = None
        self._random = doors.random
        self._store = store
        self._metadata = metadata
        self._broker_id = broker_id
        self._lease_ms = lease_ms
        self._supported = supported
        self._session: Session | None = None
        self._is_offline: Callable[[str, int], bool] = lambda _topic, _index: False
        self.founded = False
        """Whether `join` made the cluster: the store had none."""

    @property
    def broker_epoch(self) -> int:
        """The number of this registration; 0 before `join`."""
        return self._metadata.created(keys.broker_key(self._broker_id)) if self._session else 0

    @property
    def registered(self) -> bool:
        """Whether the cluster knows this broker as one that is there."""
        return self._broker_id in self._metadata.image.brokers

    @property
    def alive(self) -> bool:
        """False before `join`, and from the moment in which the session is known to be lost."""
        return self._session is not None and self._session.alive

    async def join(
        self,
        endpoints: Sequence[Endpoint],
        *,
        cluster_id: str | None = None,
        rack: str | None = None,
        on_loss: Callable[[], None] | None = None,
        clean: bool = True,
        is_offline: Callable[[str, int], bool] = lambda _topic, _index: False,
    ) -> str:
        """Register this broker; returns the cluster's id, which is made up if neither store nor caller has one.

        ``cluster_id``: what the data directory says. INCONSISTENT_CLUSTER_ID if the store says otherwise,
        DUPLICATE_BROKER_REGISTRATION if another live broker has this id, UNSUPPORTED_VERSION if the cluster has
        finalised a level of a feature that this broker does not support. ``clean``: no data was lost since this broker
        was last there. ``is_offline``: partitions whose log is in a directory that has failed.
        """
        self._is_offline = is_offline
        await self._wait_for_an_earlier_life()
        self._session = await self._store.open_session(f"broker {self._broker_id}", lease_ms=self._lease_ms)
        if on_loss is not None:
            self._session.on_loss(on_loss)
        self._endpoints, self._rack, self._on_loss = endpoints, rack, on_loss
        try:
            return await self._register(cluster_id, clean)
        except BaseException:
            await self.leave()  # a session left behind would be heard of when it is lost
            raise

    async def _register(self, cluster_id: str | None, clean: bool) -> str:
        for _ in range(ATTEMPTS_MAX):
            plan = Plan(self._metadata)
            self.founded = False
            found_or_made = self._plan_cluster(plan, cluster_id)
            self._plan_features(plan)
            self._plan_registration(plan)
            takes_office = self._plan_office(plan)
            self._plan_elections(plan, clean, takes_office)
            if await plan.commit(self._store):
                return found_or_made
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Other changes kept getting in between.")

    async def rejoin(self) -> None:
        """Register anew after the session was lost; nothing on disk was."""
        on_loss = self._on_loss
        await self.join(self._endpoints, cluster_id=self._metadata.image.cluster_id, rack=self._rack, on_loss=on_loss)

    async def leave(self) -> None:
        """End the session: registration and office are gone when this returns, or (the store fails) with the next
        start on it."""
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
        """What is finalised must be supported here. It is written anew, so that an update that has not seen this
        registration is refused."""
        levels = features.of_new_cluster(self._supported) if self.founded else plan.image.features
        problem = features.why_not(self._supported, levels)
        if problem is not None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, problem)
        plan.write(keys.FEATURES, keys.pack(levels=levels))

    def _plan_registration(self, plan: Plan) -> None:
        if self._broker_id in plan.image.brokers:
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Another broker with id {self._broker_id} is registered."
            )
        plan.write(keys.broker_key(self._broker_id), self._registration(), self._session_id)
        plan.write(keys.registration_key(self._broker_id), self._registration())

    async def _wait_for_an_earlier_life(self) -> None:
        """A broker that died may still be registered until its lease is over."""
        await self._metadata.until(lambda image: self._broker_id not in image.brokers, 2 * self._lease_ms / 1000)

    def _registration(self, **more: bool) -> bytes:
        endpoints = [list(endpoint) for endpoint in self._endpoints]
        return keys.pack(endpoints=endpoints, rack=self._rack, features=dict(self._supported), **more)

    def _plan_office(self, plan: Plan) -> bool:
        """Whether the office is free and this broker asks for it."""
        if plan.image.controller_id != -1:
            return False
        epoch = plan.image.controller_epoch + 1
        plan.write(keys.CONTROLLER, keys.pack(broker=self._broker_id, epoch=epoch), self._session_id)
        plan.write(keys.CONTROLLER_EPOCH, keys.pack(epoch=epoch))
        return True

    def _plan_elections(self, plan: Plan, clean: bool, takes_office: bool) -> None:
        """What this broker led before is over; with the office, what can be led now has a leader."""
        image = plan.image
        living = {*image.brokers, self._broker_id}
        changed: ChangedStates = {}
        for topic in image.topics.values():
            rules = self._rules(image, topic.name)
            for index, state in enumerate(topic.partitions):
                new = self._reborn(state, living, rules, clean, self._is_offline(topic.name, index))
                if takes_office:
                    new = elections.after(new, living, rules[0], unclean=rules[1])
                if new is not state:
                    changed.setdefault(topic.name, {})[index] = elections.numbered(state, new)
        plan.write_states(changed)

    def _reborn(
        self, state: PartitionState, living: set[int], rules: tuple[int, bool], clean: bool, offline: bool
    ) -> PartitionState:
        me = self._broker_id
        if me not in state.replicas:
            return state
        new = state
        if state.leader == me or me in state.isr or (not clean and me in state.elr):
            new = elections.after(state, living - {me}, rules[0], forgetful=() if clean else (me,))
        if offline != (me in state.offline):
            others = tuple(each for each in state.offline if each != me)
            new = new._replace(offline=(*others, me) if offline else others)
        return new

    async def claim_office(self) -> bool:
        """Become the controller if there is none; whether that came true. A broker that was unregistered does not."""
        plan = Plan(self._metadata)
        if not self.alive or not self.registered:
            return False
        plan.check(keys.broker_key(self._broker_id))
        if not self._plan_office(plan):
            return False
        try:
            return await plan.commit(self._store)
        except (SessionLost, StoreUnavailable):
            return False

    async def announce_leaving(self) -> None:
        """Tell the controller that this broker is about to stop, so that others lead (controlled shutdown)."""
        if not self.registered:
            return
        key = keys.broker_key(self._broker_id)
        version = self._metadata.version(key)
        write = Write(key, self._registration(leaving=True), self._session_id)
        await self._store.commit([Check(key, version)], [write])

    @property
    def _session_id(self) -> int:
        assert self._session is not None
        return self._session.id

"""This broker's place in the cluster: its session, its registration, and the controller's office.

`join` does it all in one commit, so that a start costs one sync of the disk: the cluster's id and features where they
are not there yet, the registration (ephemeral: it vanishes with the session), the office of controller if it is free,
and, with the office, the election of this broker for the partitions that wait for it. Every registration is a new
broker epoch, and every election a new leader epoch, so whatever an earlier life of this broker still tries is stale.

What lives elsewhere: all later decisions (`controller`), acting on the partitions (`replica_manager`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.base.uuids import random_uuid, uuid_to_text
from kwire.cluster import keys
from kwire.cluster.controller import led_by, write_states
from kwire.cluster.image import ClusterImage, Endpoint, MetadataCache
from kwire.cluster.keys import PartitionState
from kwire.cluster.store import Check, Conflict, MetadataStore, Session, StoreError, Write

if TYPE_CHECKING:
    from kwire.base.doors import Doors

ATTEMPTS_MAX: Final = 20

_logger = get_logger("kwire.cluster.membership")


class Membership:
    """Joins the cluster and leaves it. ``features``: the levels that a new cluster starts with."""

    def __init__(
        self,
        doors: Doors,
        store: MetadataStore,
        metadata: MetadataCache,
        broker_id: int,
        *,
        lease_ms: int = 9000,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self._random = doors.random
        self._store = store
        self._metadata = metadata
        self._broker_id = broker_id
        self._lease_ms = lease_ms
        self._features = dict(features or {})
        self._session: Session | None = None
        self._is_offline: Callable[[str, int], bool] = lambda _topic, _index: False
        self.founded = False
        """Whether `join` made the cluster: the store had none."""

    @property
    def broker_epoch(self) -> int:
        """The number of this registration; 0 before `join`."""
        return self._metadata.created(keys.broker_key(self._broker_id)) if self._session else 0

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
        is_offline: Callable[[str, int], bool] = lambda _topic, _index: False,
    ) -> str:
        """Register this broker; returns the cluster's id, which is made up if neither store nor caller has one.

        ``cluster_id``: what the data directory says. INCONSISTENT_CLUSTER_ID if the store says otherwise,
        DUPLICATE_BROKER_REGISTRATION if another live broker has this id. ``is_offline``: partitions that this broker
        cannot lead, because the directory of their log has failed.
        """
        self._is_offline = is_offline
        self._session = await self._store.open_session(f"broker {self._broker_id}", lease_ms=self._lease_ms)
        if on_loss is not None:
            self._session.on_loss(on_loss)
        for _ in range(ATTEMPTS_MAX):
            checks: dict[str, Check] = {}
            writes: dict[str, Write] = {}
            image = self._metadata.image
            cluster_id = self._plan_cluster(image, cluster_id, checks, writes)
            self._plan_registration(image, endpoints, rack, checks, writes)
            self._plan_office(image, checks, writes)
            try:
                revision = await self._store.commit(list(checks.values()), list(writes.values()))
            except Conflict as conflict:
                revision, _ = await self._store.read(conflict.key)
                await self._metadata.wait_for(revision)
                continue
            await self._metadata.wait_for(revision)
            return cluster_id
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Other changes kept getting in between.")

    async def leave(self) -> None:
        """End the session: registration and office are gone when this returns, or (the store fails) with the next
        start on it."""
        if self._session is not None:
            try:
                await self._session.close()
            except StoreError as error:
                _logger.warning("the registration stays until the next start", error=str(error))

    def _write(
        self, checks: dict[str, Check], writes: dict[str, Write], key: str, value: bytes | None, session: int | None
    ) -> None:
        checks[key] = Check(key, self._metadata.version(key))
        writes[key] = Write(key, value, session)

    def _plan_cluster(
        self, image: ClusterImage, cluster_id: str | None, checks: dict[str, Check], writes: dict[str, Write]
    ) -> str:
        if image.cluster_id:
            if cluster_id not in (None, image.cluster_id):
                raise KafkaError(
                    ErrorCode.INCONSISTENT_CLUSTER_ID,
                    f"The data directory belongs to cluster {cluster_id}, the metadata store to {image.cluster_id}.",
                )
            return image.cluster_id
        cluster_id = cluster_id or uuid_to_text(random_uuid(self._random))
        self._write(checks, writes, keys.CLUSTER, keys.pack(id=cluster_id), None)
        self.founded = True
        self._write(checks, writes, keys.FEATURES, keys.pack(levels=self._features), None)
        return cluster_id

    def _plan_registration(
        self,
        image: ClusterImage,
        endpoints: Sequence[Endpoint],
        rack: str | None,
        checks: dict[str, Check],
        writes: dict[str, Write],
    ) -> None:
        if self._broker_id in image.brokers:
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Another broker with id {self._broker_id} is registered."
            )
        value = keys.pack(endpoints=[list(endpoint) for endpoint in endpoints], rack=rack, features=self._features)
        self._write(checks, writes, keys.broker_key(self._broker_id), value, self._session_id)

    def _plan_office(self, image: ClusterImage, checks: dict[str, Check], writes: dict[str, Write]) -> None:
        if image.controller_id != -1:
            return
        epoch = image.controller_epoch + 1
        value = keys.pack(broker=self._broker_id, epoch=epoch)
        self._write(checks, writes, keys.CONTROLLER, value, self._session_id)
        self._write(checks, writes, keys.CONTROLLER_EPOCH, keys.pack(epoch=epoch), None)

        def write(key: str, value: bytes | None) -> None:
            self._write(checks, writes, key, value, None)

        write_states(image, write, self._elections(image))

    def _elections(self, image: ClusterImage) -> dict[str, dict[int, PartitionState]]:
        """The partitions that this broker leads from now on: those without a living leader whose ISR it is in. Where
        its disk has failed, nobody does."""
        elected: dict[str, dict[int, PartitionState]] = {}
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                if state.leader not in image.brokers and self._broker_id in state.isr:
                    leader = -1 if self._is_offline(topic.name, index) else self._broker_id
                    if leader != -1 or state.leader != -1:
                        elected.setdefault(topic.name, {})[index] = led_by(state, leader)
        return elected

    @property
    def _session_id(self) -> int:
        assert self._session is not None
        return self._session.id

"""`ClusterImage` and `MetadataCache`: the cluster's metadata on this broker, which follows the store's feed.

`ClusterImage` is an immutable snapshot; a handler takes it once per request, so that a response rests on one state. An
update copies only the dictionaries that change, so a snapshot is cheap even with many topics. `MetadataCache` follows
the feed, holds the newest image and the versions of its keys (for compare-and-set), and passes each change to its
listeners (`Delta`). What lives elsewhere: decisions (`controller`), this broker's partitions (`replica_manager`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.config.listeners import Endpoint
from kwire.base.uuids import uuid_from_text, uuid_to_text
from kwire.cluster.metadata import features
from kwire.cluster.metadata.dotted_names import DottedNames
from kwire.cluster.store import keys
from kwire.cluster.store.keys import SHARD_PARTITIONS, BalanceState, ConfigResource, PartitionState
from kwire.cluster.store.store import ABSENT, Event, MetadataStore, Subscription

if TYPE_CHECKING:
    from kwire.cluster.metadata.features import Range
    from kwire.quotas.entities import ClientQuotas
    from kwire.security.acls.bindings import AclBinding
    from kwire.security.delegation_tokens import DelegationToken
    from kwire.security.scram_credentials import ScramCredential

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""Topics that belong to the broker itself (Kafka's `Topic.isInternal`)."""

NO_CONFIG: Final[Mapping[str, str]] = MappingProxyType({})
NO_ACLS: Final[dict[str, AclBinding]] = {}
NO_QUOTAS: Final[ClientQuotas] = {}
NO_BALANCE: Final = BalanceState()
NO_FEATURES: Final[Mapping[str, Range]] = MappingProxyType({})


class BrokerImage(NamedTuple):
    """A registered broker. ``endpoints``: the advertised address by listener name; ``epoch``: the broker epoch, -1 if
    it is fenced; ``leaving``: it is in controlled shutdown; ``features``: the levels that it supports;
    ``accepts_envelopes``: whether it serves Envelope, which kwire 0.1.0 does not; ``log_dirs``: its log directories,
    each with the names by which it may be cordoned; ``cordoned``: `cordoned.log.dirs` when it started."""

    id: int
    epoch: int
    endpoints: Mapping[str, Endpoint]
    rack: str | None
    leaving: bool = False
    features: Mapping[str, Range] = NO_FEATURES
    accepts_envelopes: bool = False
    log_dirs: tuple[tuple[str, ...], ...] = ()
    cordoned: tuple[str, ...] = ()


class TopicImage(NamedTuple):
    """A topic with its partitions, which are numbered from 0 without a gap."""

    name: str
    id: bytes
    partitions: tuple[PartitionState, ...]

    @property
    def internal(self) -> bool:
        """Whether the topic belongs to the broker itself (Kafka's `Topic.isInternal`)."""
        return self.name in INTERNAL_TOPICS


class Delta(NamedTuple):
    """The changes of one step of the feed, each in a stable order. A topic that was deleted and created again under the
    same name is in ``deleted`` (the old topic) and in ``changed`` (the name). ``partitions``: for each changed topic
    the indexes of the partitions that are new or whose state has changed."""

    changed: list[str]
    deleted: list[TopicImage]
    configs: list[tuple[ConfigResource, str]]
    brokers: bool
    controller: bool
    partitions: Mapping[str, Sequence[int]]


class ClusterImage:
    """An immutable snapshot of the cluster. All mappings are read-only by convention.

    ``brokers`` are the live ones; ``registered`` also has the fenced ones, which may hold replicas until they are
    unregistered.
    """

    __slots__ = (
        "acls",
        "balance",
        "brokers",
        "client_quotas",
        "cluster_id",
        "configs",
        "controller_epoch",
        "controller_id",
        "delegation_tokens",
        "features",
        "next_producer_id",
        "notes",
        "registered",
        "revision",
        "scram_credentials",
        "scram_secret",
        "topics",
        "topics_by_id",
    )

    def __init__(
        self,
        *,
        revision: int = 0,
        cluster_id: str = "",
        controller_id: int = -1,
        controller_epoch: int = 0,
        brokers: dict[int, BrokerImage] | None = None,
        registered: dict[int, BrokerImage] | None = None,
        topics: dict[str, TopicImage] | None = None,
        topics_by_id: dict[bytes, TopicImage] | None = None,
        configs: dict[tuple[ConfigResource, str], Mapping[str, str]] | None = None,
        features: dict[str, int] | None = None,
        next_producer_id: int = 0,
        scram_credentials: dict[tuple[int, str], ScramCredential] | None = None,
        scram_secret: bytes = b"",
        delegation_tokens: dict[str, DelegationToken] | None = None,
        acls: dict[str, AclBinding] | None = None,
        client_quotas: ClientQuotas = NO_QUOTAS,
        balance: BalanceState = NO_BALANCE,
    ) -> None:
        self.revision = revision
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.brokers: dict[int, BrokerImage] = brokers or {}
        self.registered: dict[int, BrokerImage] = registered or self.brokers
        self.topics: dict[str, TopicImage] = topics or {}
        self.topics_by_id: dict[bytes, TopicImage] = topics_by_id or {}
        self.configs: dict[tuple[ConfigResource, str], Mapping[str, str]] = configs or {}
        self.features: dict[str, int] = features or {}
        self.next_producer_id = next_producer_id
        self.scram_credentials: dict[tuple[int, str], ScramCredential] = scram_credentials or {}
        self.scram_secret = scram_secret
        """The secret from which the salts of unknown SCRAM users are computed, the same on all brokers; empty until a
        broker with SCRAM has started."""
        self.delegation_tokens: dict[str, DelegationToken] = delegation_tokens or {}
        self.acls: dict[str, AclBinding] = NO_ACLS if acls is None else acls
        """Access control entries by key; the same object until one is added or deleted."""
        self.client_quotas = client_quotas
        """The quotas of clients; the same object until one is altered."""
        self.balance = balance
        """How far partitions are spread over the brokers (`kwire.balance.enable`)."""
        self.notes: dict[Any, Any] = {}
        """Scratch space for data derived from this snapshot (prepared responses); it is dropped with the snapshot."""

    def topic(self, name: str) -> TopicImage | None:
        """A topic by name, or None."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        """A topic by id, or None."""
        return self.topics_by_id.get(topic_id)

    def partition(self, topic: str, index: int) -> PartitionState | None:
        """A partition's state, or None if there is no such partition."""
        image = self.topics.get(topic)
        if image is None or not 0 <= index < len(image.partitions):
            return None
        return image.partitions[index]

    def config(self, resource: ConfigResource, name: str) -> Mapping[str, str]:
        """The dynamic properties of a topic, a broker ("": all brokers), client metrics or a group."""
        return self.configs.get((resource, name), NO_CONFIG)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """The dynamic properties of a topic."""
        return self.configs.get((ConfigResource.TOPIC, name), NO_CONFIG)

    def scram_credential(self, mechanism: int, user: str) -> ScramCredential | None:
        """A user's credential of a mechanism (by its code), or None."""
        return self.scram_credentials.get((mechanism, user))

    def delegation_token(self, token_id: str) -> DelegationToken | None:
        """A delegation token, or None. It may be expired."""
        return self.delegation_tokens.get(token_id)

    def sorted_brokers(self, *, fenced: bool = False) -> list[BrokerImage]:
        """The live brokers by id, or with ``fenced`` all registered ones."""
        brokers = self.registered if fenced else self.brokers
        return [brokers[broker_id] for broker_id in sorted(brokers)]


class MetadataCache:
    """Follows the store's feed. ``image`` is the newest consistent snapshot.

    Listeners are called on the loop, in the order in which they were added, after ``image`` has been replaced; the
    first call after `start` has the whole state as its delta.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.image = ClusterImage()
        self._store = store
        self._builder = _Builder()
        self._listeners: list[Callable[[ClusterImage, Delta], None]] = []
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._conditions: dict[asyncio.Future[None], Callable[[ClusterImage], bool]] = {}
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        """Read the whole state; ``image`` is complete when this returns."""
        self._subscription = await self._store.subscribe(self._on_event)

    def close(self) -> None:
        """Stop following the feed; ``image`` stays as it is."""
        if self._subscription is not None:
            self._subscription.close()

    def version(self, key: str) -> int:
        """The version of a key as of the newest event (`ABSENT` if it does not exist), for `Check`."""
        return self._builder.versions.get(key, ABSENT)

    def created(self, key: str) -> int:
        """The revision that created a key; 0 if it does not exist."""
        return self._builder.created.get(key, 0)

    def collision(self, name: str, requested: Collection[str] = ()) -> str | None:
        """A topic of the newest image, but for those that are ``requested`` together, whose name collides with that of
        a new topic; None if there is none."""
        return self._builder.dotted.collision(name, self.image.topics, requested)

    def add_listener(self, listener: Callable[[ClusterImage, Delta], None]) -> None:
        """Call ``listener`` with each new image, and at once with the whole state if there is one already."""
        self._listeners.append(listener)
        if self._subscription is not None:
            listener(self.image, whole_delta(self.image))

    async def wait_for(self, revision: int) -> None:
        """Return when the image has reached a revision that a commit returned."""
        if self.image.revision < revision:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((revision, future))
            await future

    async def until(self, condition: Callable[[ClusterImage], bool], timeout_s: float) -> bool:
        """Wait until a condition holds for the image; False if it does not within ``timeout_s`` seconds."""
        if condition(self.image):
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._conditions[future] = condition
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return condition(self.image)
        finally:
            self._conditions.pop(future, None)
        return True

    def _on_event(self, event: Event) -> None:
        self._builder.gather(event)
        if not event.consistent:
            return
        self.image, delta = self._builder.build(self.image, event.revision)
        for listener in self._listeners:
            listener(self.image, delta)
        for future, condition in list(self._conditions.items()):
            if not future.done() and condition(self.image):
                future.set_result(None)
        if self._waiters:
            due = [future for revision, future in self._waiters if revision <= event.revision]
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > event.revision]
            for future in due:
                if not future.done():
                    future.set_result(None)


def whole_delta(image: ClusterImage) -> Delta:
    """The delta from an empty image to this one."""
    every = {topic.name: range(len(topic.partitions)) for topic in image.topics.values()}
    return Delta(list(image.topics), [], list(image.configs), brokers=True, controller=True, partitions=every)


class _Builder:
    """Builds the next image from feed events. Topics are assembled from their shards, so it keeps the shards."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.created: dict[str, int] = {}
        self._pending: dict[str, bytes | None] = {}
        self._shards: dict[str, dict[int, list[PartitionState]]] = {}  # by topic id text
        self._names: dict[str, str] = {}  # topic id text -> name
        self._registrations: dict[int, BrokerImage] = {}
        self.dotted = DottedNames()

    def gather(self, event: Event) -> None:
        """Collect an event for `build`."""
        for key, entry in event.changes:
            if entry is None:
                self.versions.pop(key, None)
                self.created.pop(key, None)
                self._pending[key] = None
            else:
                self.versions[key] = entry.version
                self.created[key] = entry.created
                self._pending[key] = entry.value

    def build(self, old: ClusterImage, revision: int) -> tuple[ClusterImage, Delta]:
        """The image after all events gathered since the last call."""
        pending, self._pending = self._pending, {}
        groups: dict[str, list[tuple[str, bytes | None]]] = {}
        for key, value in pending.items():
            groups.setdefault(key.partition("/")[0], []).append((key, value))
        image = ClusterImage(
            revision=revision,
            cluster_id=old.cluster_id,
            controller_id=old.controller_id,
            controller_epoch=old.controller_epoch,
            brokers=old.brokers,
            registered=old.registered,
            topics=old.topics,
            topics_by_id=old.topics_by_id,
            configs=old.configs,
            features=old.features,
            next_producer_id=old.next_producer_id,
            scram_credentials=old.scram_credentials,
            scram_secret=old.scram_secret,
            delegation_tokens=old.delegation_tokens,
            acls=old.acls,
            client_quotas=old.client_quotas,
            balance=old.balance,
        )
        self._build_single_keys(image, pending)
        if "brokers" in groups or "registrations" in groups:
            self._build_brokers(image, groups.get("brokers", ()), groups.get("registrations", ()))
        if "scram" in groups or "delegation-tokens" in groups:
            _build_credentials(image, groups.get("scram", ()), groups.get("delegation-tokens", ()))
        if "acls" in groups:
            from kwire.cluster.metadata.acls import changed_acls  # few clusters have any

            image.acls = changed_acls(image.acls, groups["acls"])
        if "quotas" in groups:
            from kwire.cluster.metadata.client_quotas import changed_quotas  # few clusters have any

            image.client_quotas = changed_quotas(image.client_quotas, groups["quotas"]) or NO_QUOTAS
        partitions, deleted = self._build_topics(image, groups.get("topics", ()), groups.get("partitions", ()))
        configs = self._build_configs(image, groups.get("configs", ()))
        delta = Delta(
            list(partitions),
            deleted,
            configs,
            brokers="brokers" in groups,
            controller=keys.CONTROLLER in pending,
            partitions=partitions,
        )
        return image, delta

    def _build_single_keys(self, image: ClusterImage, pending: Mapping[str, bytes | None]) -> None:
        if (value := pending.get(keys.CLUSTER)) is not None:
            image.cluster_id = keys.unpack(keys.CLUSTER, value)["id"]
        if (value := pending.get(keys.FEATURES)) is not None:
            image.features = features.read_levels(keys.unpack(keys.FEATURES, value)["levels"])
        if (value := pending.get(keys.PRODUCER_IDS)) is not None:
            image.next_producer_id = keys.unpack(keys.PRODUCER_IDS, value)["next"]
        if (value := pending.get(keys.BALANCE)) is not None:
            image.balance = keys.unpack_balance(value)
        if (value := pending.get(keys.SCRAM_SECRET)) is not None:
            image.scram_secret = bytes.fromhex(keys.unpack(keys.SCRAM_SECRET, value)["secret"])
        if keys.CONTROLLER in pending:
            value = pending[keys.CONTROLLER]
            fields = {"broker": -1} if value is None else keys.unpack(keys.CONTROLLER, value)
            image.controller_id = fields["broker"]
        if (value := pending.get(keys.CONTROLLER_EPOCH)) is not None:
            image.controller_epoch = keys.unpack(keys.CONTROLLER_EPOCH, value)["epoch"]

    def _build_brokers(
        self,
        image: ClusterImage,
        changes: Iterable[tuple[str, bytes | None]],
        registrations: Iterable[tuple[str, bytes | None]],
    ) -> None:
        image.brokers = dict(image.brokers)
        for key, value in changes:
            _put_broker(image.brokers, key, value, self.created.get(key, 0))
        for key, value in registrations:
            _put_broker(self._registrations, key, value, -1)
        image.registered = {**self._registrations, **image.brokers}

    def _build_topics(
        self,
        image: ClusterImage,
        topics: Sequence[tuple[str, bytes | None]],
        shards: Sequence[tuple[str, bytes | None]],
    ) -> tuple[dict[str, Sequence[int]], list[TopicImage]]:
        """The changed partitions of each changed topic, and the topics that were deleted."""
        if not topics and not shards:
            return {}, []
        image.topics = dict(image.topics)
        image.topics_by_id = dict(image.topics_by_id)
        touched: dict[str, list[int]] = {}  # the changed partitions by topic id, in order
        new: dict[str, None] = {}
        deleted = []
        for key, value in topics:
            name = key.partition("/")[2]
            topic_id = None if value is None else keys.unpack(key, value)["id"]
            old = image.topics.get(name)
            if old is not None and uuid_to_text(old.id) != topic_id:
                deleted.append(old)
                del image.topics[name], image.topics_by_id[old.id]
                del self._names[uuid_to_text(old.id)]
                self.dotted.discard(name)
            if topic_id is not None:
                self._names[topic_id] = name
                touched[topic_id] = []
                new[topic_id] = None
                self.dotted.add(name)
        for key, shard in shards:
            topic_id, changed = self._gather_shard(key, shard)
            touched.setdefault(topic_id, []).extend(changed)
        partitions: dict[str, Sequence[int]] = {}
        for topic_id, changed in touched.items():
            topic = self._assemble(image, topic_id)
            if topic is not None:
                partitions[topic.name] = range(len(topic.partitions)) if topic_id in new else changed
        return partitions, deleted

    def _gather_shard(self, key: str, value: bytes | None) -> tuple[str, list[int]]:
        """Take over a shard; the topic's id and the partitions that changed. The states of all others stay the same
        objects, so that comparing an image with the one before is cheap."""
        _, topic_id, number = key.split("/")
        shard = int(number)
        if value is not None:
            shards = self._shards.setdefault(topic_id, {})
            states, former = keys.unpack_shard(key, value), shards.get(shard, [])
            changed = []
            for at, state in enumerate(states):
                if at < len(former) and state == former[at]:
                    states[at] = former[at]
                else:
                    changed.append(shard * SHARD_PARTITIONS + at)
            shards[shard] = states
            return topic_id, changed
        if topic_id in self._shards:
            self._shards[topic_id].pop(shard, None)
            if not self._shards[topic_id]:
                del self._shards[topic_id]
        return topic_id, []

    def _assemble(self, image: ClusterImage, topic_id: str) -> TopicImage | None:
        """Assemble a topic from its shards; None if it has been deleted."""
        name = self._names.get(topic_id)
        if name is None:
            return None
        shards = self._shards.get(topic_id, {})
        partitions = tuple(chain.from_iterable(shards[number] for number in sorted(shards)))
        topic = TopicImage(name, uuid_from_text(topic_id), partitions)
        image.topics[name] = image.topics_by_id[topic.id] = topic
        return topic

    def _build_configs(
        self, image: ClusterImage, changes: Sequence[tuple[str, bytes | None]]
    ) -> list[tuple[ConfigResource, str]]:
        if not changes:
            return []
        image.configs = dict(image.configs)
        resources = []
        for key, value in changes:
            resource = keys.config_resource(key)
            resources.append(resource)
            if value is None:
                image.configs.pop(resource, None)
            else:
                image.configs[resource] = MappingProxyType(keys.unpack(key, value)["values"])
        return resources


def _build_credentials(
    image: ClusterImage, scram: Sequence[tuple[str, bytes | None]], tokens: Sequence[tuple[str, bytes | None]]
) -> None:
    from kwire.cluster.metadata import credentials  # few clusters have any

    if scram:
        image.scram_credentials = credentials.changed_credentials(image.scram_credentials, scram)
    if tokens:
        image.delegation_tokens = credentials.changed_tokens(image.delegation_tokens, tokens)


def _put_broker(brokers: dict[int, BrokerImage], key: str, value: bytes | None, epoch: int) -> None:
    broker_id = int(key.partition("/")[2])
    if value is None:
        brokers.pop(broker_id, None)
        return
    fields = keys.unpack(key, value)
    endpoints = {endpoint[0]: Endpoint(*endpoint) for endpoint in fields["endpoints"]}
    brokers[broker_id] = BrokerImage(
        broker_id,
        epoch,
        endpoints,
        fields["rack"],
        fields.get("leaving", False),
        features.read_ranges(fields.get("features", {})),
        fields.get("envelopes", False),
        tuple(tuple(names) for names in fields.get("log_dirs", ())),
        tuple(fields.get("cordoned", ())),
    )


__all__ = [
    "INTERNAL_TOPICS",
    "NO_CONFIG",
    "SHARD_PARTITIONS",
    "BrokerImage",
    "ClusterImage",
    "ConfigResource",
    "Delta",
    "Endpoint",
    "MetadataCache",
    "PartitionState",
    "TopicImage",
    "whole_delta",
]

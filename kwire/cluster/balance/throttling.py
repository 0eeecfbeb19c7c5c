"""The throttles of replication while partitions are moved to other brokers, and their removal. Pure: plans what is
written.

They are Kafka's (KIP-73), as `kafka-reassign-partitions --throttle` sets them: the rates of each broker, and for each
topic the replicas that they apply to. What an operator has set is neither changed nor removed; which ones are not an
operator's is kept in the metadata store with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kwire.cluster.replication.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from kwire.cluster.store import keys
from kwire.cluster.store.keys import BalanceState, ConfigResource

if TYPE_CHECKING:
    from kwire.cluster.controller.plan import Plan
    from kwire.cluster.controller.topics import Reassignment
    from kwire.cluster.metadata.image import ClusterImage

_RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
_REPLICAS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


def throttle(image: ClusterImage, plan: Plan, moves: Sequence[Reassignment], rate: int) -> None:
    """Throttle these reassignments, which are about to begin. ``rate``: bytes per second of each broker."""
    balance = image.balance
    topics, rates = dict.fromkeys(balance.topics), dict.fromkeys(balance.rates)
    by_topic: dict[str, list[Reassignment]] = {}
    for move in moves:
        by_topic.setdefault(move.topic, []).append(move)
    for name, of_topic in by_topic.items():
        if name in image.topics and (name in topics or not _has_any(image.topic_config(name), _REPLICAS)):
            topics[name] = None
            _set(image, plan, (ConfigResource.TOPIC, name), _throttled_replicas(image, of_topic))
    defaults = image.config(ConfigResource.BROKER, "")
    for broker in sorted(image.brokers):
        resource = (ConfigResource.BROKER, str(broker))
        if broker not in rates and not _has_any({**defaults, **image.config(*resource)}, _RATES):
            rates[broker] = None
            _set(image, plan, resource, dict.fromkeys(_RATES, str(rate)))
    _note(plan, balance, balance._replace(topics=tuple(topics), rates=tuple(rates)))


def release(image: ClusterImage, plan: Plan, brokers: Iterable[int]) -> None:
    """Remove the throttles: partitions are spread over these brokers."""
    balance = image.balance
    for name in balance.topics:
        if name in image.topics:
            _set(image, plan, (ConfigResource.TOPIC, name), dict.fromkeys(_REPLICAS))
    for broker in balance.rates:
        _set(image, plan, (ConfigResource.BROKER, str(broker)), dict.fromkeys(_RATES))
    _note(plan, balance, BalanceState(tuple(sorted({*balance.brokers, *brokers}))))


def _note(plan: Plan, before: BalanceState, after: BalanceState) -> None:
    if after != before:
        plan.write(keys.BALANCE, keys.pack_balance(after))


def _throttled_replicas(image: ClusterImage, moves: Sequence[Reassignment]) -> Mapping[str, str]:
    """The properties of a topic: its replicas send, those that are added receive."""
    leaders, followers = [], []
    for move in moves:
        state = image.partition(move.topic, move.partition)
        present = () if state is None else state.replicas
        leaders += [f"{move.partition}:{each}" for each in present]
        followers += [f"{move.partition}:{each}" for each in move.replicas or () if each not in present]
    return {LEADER_REPLICAS: ",".join(leaders), FOLLOWER_REPLICAS: ",".join(followers)}


def _has_any(values: Mapping[str, str], names: Iterable[str]) -> bool:
    return any(name in values for name in names)


def _set(
    image: ClusterImage, plan: Plan, resource: tuple[ConfigResource, str], changes: Mapping[str, str | None]
) -> None:
    """Change properties of a topic or a broker; those with None or no text are removed."""
    values = {**image.config(*resource), **changes}
    kept = {name: value for name, value in values.items() if value}
    if kept == dict(image.config(*resource)):
        return
    if resource[0] == ConfigResource.TOPIC:
        plan.check(keys.topic_key(resource[1]))
    plan.write(keys.config_key(*resource), keys.pack(values=kept) if kept else None)

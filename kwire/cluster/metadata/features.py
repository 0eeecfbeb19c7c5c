"""Feature levels: what a cluster whose brokers have several versions may use (KIP-584).

A feature has levels. Every broker supports a range of levels, which is part of its registration; the cluster has
*finalised* one level of each feature, and all brokers obey it. A broker that does not support a finalised level cannot
join; an update (UpdateFeatures, decided by the controller) is refused if a registered broker, even a fenced one, does
not support it. Both are compare-and-sets on the same key, so one cannot miss the other. Level 0 means that the feature
is absent, and is the only level that a broker supports of a feature it does not know.

The meaning of a level is in the code that obeys it: `transaction.version` in the transaction coordinator,
`group.version` and `streams.version` in the handlers of KIP-848 and KIP-1071, `eligible.leader.replicas.version` in
`leaders`. `metadata.version` is for the format of the metadata store and of messages between brokers; there is only one
so far. `ACCESS_VERSION` is kwire's own: clients neither see nor update it. It is finalised with the first entry that it
is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from kwire.base.errors import ErrorCode, KafkaError

R = TypeVar("R")

Range = tuple[int, int]
"""Lowest and highest level."""

GROUP_VERSION: Final = "group.version"
"""1: the consumer group protocol of KIP-848."""
KRAFT_VERSION: Final = "kraft.version"
"""1: the voters of Kafka's metadata quorum can be changed (KIP-853). kwire has no such voters: the level stays 0."""
METADATA_VERSION: Final = "metadata.version"
SHARE_VERSION: Final = "share.version"
"""1: share groups (KIP-932)."""
STREAMS_VERSION: Final = "streams.version"
"""1: streams groups (KIP-1071)."""
TRANSACTION_VERSION: Final = "transaction.version"
"""1: flexible fields in the coordinator's records; 2: a producer epoch for each transaction (KIP-890)."""
ELR_VERSION: Final = "eligible.leader.replicas.version"
"""1: eligible leader replicas (KIP-966)."""
OWN_PREFIX: Final = "kwire."
"""How features begin that are no concern of clients."""
ACCESS_VERSION: Final = "kwire.access.version"
"""1: access control entries, credentials, delegation tokens and quotas of clients in the store. A broker that does not
know them would let everybody do everything."""

LATEST_METADATA_VERSION: Final = 30
"""The level that Kafka calls 4.3-IV0."""

SUPPORTED: Final[Mapping[str, Range]] = MappingProxyType(
    {
        ACCESS_VERSION: (0, 1),
        ELR_VERSION: (0, 1),
        GROUP_VERSION: (0, 1),
        KRAFT_VERSION: (0, 1),
        METADATA_VERSION: (7, LATEST_METADATA_VERSION),
        SHARE_VERSION: (0, 1),
        STREAMS_VERSION: (0, 1),
        TRANSACTION_VERSION: (0, 2),
    }
)
"""The levels that this version of kwire supports; those of `KRAFT_VERSION` are shown to clients only."""

ABSENT: Final[Range] = (0, 0)

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class FeatureUpdate(NamedTuple):
    """A request for another level. ``kind``: `UPGRADE`, `SAFE_DOWNGRADE` or `UNSAFE_DOWNGRADE`."""

    name: str
    level: int
    kind: int = UPGRADE


def supported(limits: Iterable[str] = ()) -> Mapping[str, Range]:
    """The levels that this broker supports. ``limits``: ``name=lowest-highest`` overrides a range, which simulates an
    older or newer broker (`kwire.test.supported.features`). INVALID_CONFIG for a malformed limit."""
    found = dict(SUPPORTED)
    for text in limits:
        name, _, levels = text.strip().partition("=")
        low, dash, high = levels.partition("-")
        if not (name and dash and low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"kwire.test.supported.features: {text!r} is not of the form name=0-1."
            )
        found[name] = (int(low), int(high))
    return found


def of_new_cluster(ranges: Mapping[str, Range]) -> dict[str, int]:
    """The levels of a new cluster: the highest that its first broker supports."""
    return {name: high for name, (_, high) in ranges.items() if name != KRAFT_VERSION}


def read_levels(stored: Mapping[str, int]) -> dict[str, int]:
    """The finalised levels from the store. The first kwire versions wrote no level of `ELR_VERSION`, but had all of
    level 1."""
    return {ELR_VERSION: 1, **stored}


def read_ranges(stored: Mapping[str, Any]) -> dict[str, Range]:
    """The supported levels in a registration. The first kwire versions wrote only the highest level of each feature."""
    found = {name: ABSENT if levels is None else _range(levels) for name, levels in stored.items()}
    if any(isinstance(levels, int) for levels in stored.values()):
        found.setdefault(ELR_VERSION, (1, 1))
    return found


def _range(levels: Any) -> Range:
    if isinstance(levels, int):
        return 0, levels
    low, high = levels
    return int(low), int(high)


def for_clients(levels: Mapping[str, R]) -> dict[str, R]:
    """The features that clients know of."""
    return {name: level for name, level in levels.items() if not name.startswith(OWN_PREFIX)}


def with_access(levels: Mapping[str, int], brokers: Mapping[int, Mapping[str, Range]]) -> dict[str, int]:
    """The levels with `ACCESS_VERSION` 1. ``brokers``: the levels that each registered broker supports.
    UNSUPPORTED_VERSION if one of them does not know it."""
    for broker in sorted(brokers):
        if not brokers[broker].get(ACCESS_VERSION, ABSENT)[1]:
            text = (
                f"Broker {broker} runs a version of kwire without access control, and would let everybody do"
                f" everything. Upgrade it, or unregister it (kwire cluster unregister --id {broker})."
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
    return {**levels, ACCESS_VERSION: 1}


def why_not(ranges: Mapping[str, Range], levels: Mapping[str, int]) -> str | None:
    """Why a broker cannot join a cluster with these levels; None if it can."""
    for name, level in levels.items():
        low, high = ranges.get(name, ABSENT)
        if not low <= level <= high:
            reason = f"supports only {low} to {high}" if high else "does not know this feature"
            return f"The cluster has finalised level {level} of {name}, this broker {reason}."
    return None


def updated(
    levels: Mapping[str, int], updates: Sequence[FeatureUpdate], brokers: Mapping[int, Mapping[str, Range]], me: int
) -> dict[str, int]:
    """All levels after an update. INVALID_UPDATE_VERSION names the first level that is refused; then none changes.

    ``brokers``: the levels that each registered broker supports; ``me``: the controller, which is checked first.
    """
    new = dict(levels)
    by_name = {update.name: update for update in updates}  # of several for one feature the last counts
    for update in by_name.values():
        problem = _problem(levels.get(update.name, 0), update, brokers, me)
        if problem:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.level} for feature {update.name}. {problem}",
            )
        new[update.name] = update.level
    return new


def _problem(present: int, update: FeatureUpdate, brokers: Mapping[int, Mapping[str, Range]], me: int) -> str | None:
    """Why an update is refused, in Kafka's words."""
    if update.kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if update.name.startswith(OWN_PREFIX):
        return f"Local controller {me} does not support this feature."
    for broker in sorted(brokers, key=lambda each: (each != me, each)):
        who = f"{'Local controller' if broker == me else 'Broker'} {broker}"
        low, high = brokers[broker].get(update.name, ABSENT)
        if not low <= update.level <= high:
            levels = f"{low}-{high}" if low < high else f"{low}"
            return f"{who} only supports versions {levels}" if high else f"{who} does not support this feature."
    if update.level < present and update.kind == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe"
            " downgrade."
        )
    if update.level > present and update.kind != UPGRADE:
        return "Can't downgrade to a newer version."
    if update.name == KRAFT_VERSION and update.level > present:
        return "Not all of the voters support it."
    if update.level < present and update.name == METADATA_VERSION:
        return "Refusing to perform the requested downgrade because it might delete metadata information."
    return None

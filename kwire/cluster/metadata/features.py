"""Features: what a cluster of brokers of several versions may use, and when (KIP-584).

A feature has levels. Every broker supports a range of them, which its registration tells; the cluster has *finalised*
one level of each, and all brokers act by that. A broker whose range does not have the finalised level does not join;
an update (UpdateFeatures, which only the controller decides) is refused while one registered broker, be it away, does
not support it. Both are decided by compare-and-set on the same key, so neither can slip past the other. Level 0 is the
feature's absence, and what a broker supports of a feature that it does not know.

What the levels mean is where they are obeyed: `transaction.version` in the transaction coordinator, `group.version` in
the handlers of KIP-848, `eligible.leader.replicas.version` in `leaders`. `metadata.version` is for the format of what
is in the metadata store and said between brokers: there is one so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError

Range = tuple[int, int]
"""Lowest and highest level."""

GROUP_VERSION: Final = "group.version"
"""1: the consumer group protocol of KIP-848."""
METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
"""1: flexible fields in the coordinator's records; 2: a producer epoch for each transaction (KIP-890)."""
ELR_VERSION: Final = "eligible.leader.replicas.version"
"""1: eligible leader replicas (KIP-966)."""

LATEST_METADATA_VERSION: Final = 30
"""The level that Kafka calls 4.3-IV0."""

SUPPORTED: Final[Mapping[str, Range]] = MappingProxyType({
    ELR_VERSION: (0, 1),
    GROUP_VERSION: (0, 1),
    METADATA_VERSION: (7, LATEST_METADATA_VERSION),
    TRANSACTION_VERSION: (0, 2),
})  # fmt: skip
"""What this kwire is whole in."""

ABSENT: Final[Range] = (0, 0)

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class FeatureUpdate(NamedTuple):
    """A wish for another level. ``kind``: `UPGRADE`, `SAFE_DOWNGRADE` or `UNSAFE_DOWNGRADE`."""

    name: str
    level: int
    kind: int = UPGRADE


def supported(limits: Iterable[str] = ()) -> Mapping[str, Range]:
    """What this broker supports. ``limits``: ``name=lowest-highest`` in place of what it could, which makes an older or
    a newer broker of it (`kwire.test.supported.features`). INVALID_CONFIG for a text of another form."""
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
    """What a new cluster is finalised at: the most that its first broker supports."""
    return {name: high for name, (_, high) in ranges.items()}


def read_levels(stored: Mapping[str, int]) -> dict[str, int]:
    """The finalised levels from the store. The first kwires wrote no level of `ELR_VERSION`, and had all that level 1
    is."""
    return {ELR_VERSION: 1, **stored}


def read_ranges(stored: Mapping[str, Any]) -> dict[str, Range]:
    """What a registration tells. The first kwires told one level of each feature, up to which they supported it."""
    found = {name: ABSENT if told is None else _range(told) for name, told in stored.items()}
    if any(isinstance(told, int) for told in stored.values()):
        found.setdefault(ELR_VERSION, (1, 1))
    return found


def _range(told: Any) -> Range:
    if isinstance(told, int):
        return 0, told
    low, high = told
    return int(low), int(high)


def why_not(ranges: Mapping[str, Range], levels: Mapping[str, int]) -> str | None:
    """Why a broker cannot be in a cluster with these levels; None if it can."""
    for name, level in levels.items():
        low, high = ranges.get(name, ABSENT)
        if not low <= level <= high:
            knows = f"supports only {low} to {high}" if high else "does not know this feature"
            return f"The cluster has finalised level {level} of {name}, this broker {knows}."
    return None


def updated(
    levels: Mapping[str, int], updates: Sequence[FeatureUpdate], brokers: Mapping[int, Mapping[str, Range]], me: int
) -> dict[str, int]:
    """All levels after an update. INVALID_UPDATE_VERSION names the first wish that cannot be met; then none is.

    ``brokers``: what each registered broker supports; ``me`` is the controller, which is asked first.
    """
    new = dict(levels)
    wishes = {update.name: update for update in updates}  # of several for one feature the last counts
    for update in wishes.values():
        problem = _problem(levels.get(update.name, 0), update, brokers, me)
        if problem:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"No feature was updated: level {update.level} of {update.name} is refused: {problem}",
            )
        new[update.name] = update.level
    return new


def _problem(present: int, update: FeatureUpdate, brokers: Mapping[int, Mapping[str, Range]], me: int) -> str | None:
    if update.kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{update.kind} is no type of upgrade."
    if update.level < 0:
        return "a level is 0 or more."
    for broker in sorted(brokers, key=lambda each: (each != me, each)):
        low, high = brokers[broker].get(update.name, ABSENT)
        if not low <= update.level <= high:
            knows = f"supports only {low} to {high}." if high else "does not know this feature."
            return f"broker {broker}{' (the controller)' if broker == me else ''} {knows}"
    if update.level < present and update.kind == UPGRADE:
        return f"it is {present} now, and a downgrade must be asked for as one."
    if update.level > present and update.kind != UPGRADE:
        return f"it is {present} now, that would be no downgrade."
    if update.level < present and update.name == METADATA_VERSION:
        return f"it is {present} now, and what the cluster knows may need that."
    return None

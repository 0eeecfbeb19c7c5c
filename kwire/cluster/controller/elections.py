"""Leader election: the leader and the ISR that follow when brokers come and go. Pure functions, no state.

The rules are those of KRaft with eligible leader replicas (KIP-966):

* A broker that is not registered leaves the ISR. If the ISR becomes smaller than `min.insync.replicas`, the broker
  becomes an *eligible leader replica* (ELR): nothing is committed from then on, so it has every committed record.
* A broker that comes back after an unclean shutdown may have lost records that were not synced: it leaves ISR and ELR.
* Without eligible leader replicas (`features.ELR_VERSION` 0) the last in-sync replicas stay in the ISR, whatever
  becomes of them.
* The leader is the first replica that is in the ISR; else the first in the ELR; else, if both were empty, the last
  known leader; else, with `unclean.leader.election.enable`, the first live replica.
* Each election starts a new leader epoch; every change starts a new partition epoch.

What lives elsewhere: the decision in the store (`controller`, `membership`), the leader's own changes of the ISR
(`isr_writer`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.cluster.store.keys import PartitionState

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage

NO_LEADER: Final = -1
_NONE: Final[frozenset[int]] = frozenset()


class ElectionRules(NamedTuple):
    """The topic properties that elections depend on: `min.insync.replicas` (0: there is no ELR) and
    `unclean.leader.election.enable`."""

    min_isr: int
    unclean: bool


RulesOfTopic = Callable[["ClusterImage", str], ElectionRules]
"""The rules of a topic, by its name in an image (`LeaderElections.election_rules`)."""


def led_by(state: PartitionState, leader: int) -> PartitionState:
    """A partition after the election of ``leader``."""
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)


def numbered(old: PartitionState, new: PartitionState) -> PartitionState:
    """``new`` as one change from ``old``, however many steps it was made in: the next partition epoch, and the next
    leader epoch if there was an election. The same object if nothing changed."""
    if new is old:
        return old
    elected = new.leader_epoch > old.leader_epoch
    return new._replace(leader_epoch=old.leader_epoch + elected, partition_epoch=old.partition_epoch + 1)


def with_isr(state: PartitionState, isr: tuple[int, ...], min_isr: int) -> PartitionState:
    """A partition after its leader changed the ISR (AlterPartition)."""
    elr = _elr(state, isr, min_isr, _NONE)
    return state._replace(isr=isr, elr=elr, last_leader=(), partition_epoch=state.partition_epoch + 1)


def after(
    state: PartitionState,
    live: Collection[int],
    rules: ElectionRules,
    *,
    unclean_shutdown: Collection[int] = _NONE,
    leaving: frozenset[int] = _NONE,
) -> PartitionState:
    """The partition when only the ``live`` brokers are registered; the same object if nothing changes.

    ``unclean_shutdown``: brokers that came back without a clean-shutdown marker. ``leaving``: live brokers in
    controlled shutdown; such a broker leads only if all in-sync replicas are leaving.
    """
    if state.offline:
        live = [each for each in live if each not in state.offline]
    isr = tuple(each for each in state.isr if each in live and each not in unclean_shutdown)
    if not isr and not rules.min_isr:
        isr = tuple(each for each in state.isr if each in live)
    leader = state.leader
    if leader not in isr or (leader in leaving and not leaving.issuperset(isr)):
        leader = _elect(state, isr, live, unclean_shutdown, leaving, rules.unclean)
        if leader != NO_LEADER and leader not in isr:
            isr = (leader,)
        elif leader == NO_LEADER and not rules.min_isr:
            isr = state.isr
    elr = _elr(state, isr, rules.min_isr, unclean_shutdown)
    last: tuple[int, ...] = ()
    if not isr:  # also beside an ELR: a broker with a failed disk may leave the ELR by an unclean shutdown
        last = (state.leader,) if state.leader != NO_LEADER else state.last_leader
    if (isr, elr, last, leader) == (state.isr, state.elr, state.last_leader, state.leader):
        return state
    return state._replace(
        isr=isr,
        elr=elr,
        last_leader=last,
        leader=leader,
        leader_epoch=state.leader_epoch + (leader != state.leader),
        partition_epoch=state.partition_epoch + 1,
    )


def _elect(
    state: PartitionState,
    isr: Collection[int],
    live: Collection[int],
    unclean_shutdown: Collection[int],
    leaving: Collection[int],
    unclean: bool,
) -> int:
    candidates = [each for each in state.replicas if each in isr]
    staying = [each for each in candidates if each not in leaving]
    if candidates:
        return (staying or candidates)[0]
    eligible = [each for each in state.elr if each in live and each not in unclean_shutdown]
    if eligible:
        return eligible[0]
    if not state.isr and not state.elr and state.last_leader and state.last_leader[0] in live:
        return state.last_leader[0]
    if unclean:
        return next((each for each in state.replicas if each in live), NO_LEADER)
    return NO_LEADER


def _elr(
    state: PartitionState, isr: tuple[int, ...], min_isr: int, unclean_shutdown: Collection[int]
) -> tuple[int, ...]:
    if not min_isr:  # no new ELR without `features.ELR_VERSION`; an old one stays while the ISR is empty
        return () if isr else state.elr
    if len(isr) >= min(min_isr, len(state.replicas)):
        return ()
    former = dict.fromkeys((*state.elr, *state.isr))
    return tuple(each for each in former if each not in isr and each not in unclean_shutdown and each in state.replicas)

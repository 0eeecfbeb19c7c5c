"""Who leads a partition, and who is in sync: what follows from brokers that come and go. Pure functions, no state.

The rules are those of KRaft with eligible leader replicas (KIP-966):

* A broker that is not registered leaves the ISR; where that becomes smaller than `min.insync.replicas` it is
  remembered as an *eligible leader replica* (ELR): nothing is committed without it from then on, so it has everything.
* A broker that comes back without its clean-shutdown marker may have lost what was not synced: it leaves ISR and ELR.
* The leader is taken from the ISR, in the order of the replicas; then from the ELR; then, where both are empty, it is
  the last known leader; then, with `unclean.leader.election.enable`, any living replica.
* Each election is a new leader epoch, each change at all a new partition epoch.

What lives elsewhere: the decision in the store (`controller`, `membership`), the leader's own changes of the ISR
(`isr_writer`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kwire.cluster.store.keys import PartitionState

NOBODY: Final = -1
_NONE: Final[frozenset[int]] = frozenset()


def led_by(state: PartitionState, leader: int) -> PartitionState:
    """A partition after an election."""
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)


def numbered(old: PartitionState, new: PartitionState) -> PartitionState:
    """``new`` as the one change that leads there from ``old``, however many steps it was made in: the next partition
    epoch, and the next leader epoch if there was an election. The same object if nothing changed."""
    if new is old:
        return old
    elected = new.leader_epoch > old.leader_epoch
    return new._replace(leader_epoch=old.leader_epoch + elected, partition_epoch=old.partition_epoch + 1)


def with_isr(state: PartitionState, isr: tuple[int, ...], min_isr: int) -> PartitionState:
    """A partition whose leader changed the ISR."""
    elr = _elr(state, isr, min_isr, _NONE)
    return state._replace(isr=isr, elr=elr, last_leader=(), partition_epoch=state.partition_epoch + 1)


def after(
    state: PartitionState,
    living: Collection[int],
    min_isr: int,
    *,
    unclean: bool = False,
    forgetful: Collection[int] = _NONE,
    leaving: Collection[int] = _NONE,
) -> PartitionState:
    """The partition when only ``living`` brokers are there; the same object if nothing changes.

    ``unclean``: `unclean.leader.election.enable`. ``forgetful``: came back without a clean-shutdown marker.
    ``leaving``: living, but about to stop: they lead only what nobody else in sync can lead.
    """
    if state.offline:
        living = [each for each in living if each not in state.offline]
    isr = tuple(each for each in state.isr if each in living and each not in forgetful)
    leader = state.leader
    if leader not in isr or (leader in leaving and not leaving.issuperset(isr)):  # type: ignore[attr-defined]
        leader = _elect(state, isr, living, forgetful, leaving, unclean)
        if leader != NOBODY and leader not in isr:
            isr = (leader,)
    elr = _elr(state, isr, min_isr, forgetful)
    last: tuple[int, ...] = ()
    if not isr:  # beside the ELR too: a broker whose disk failed may lose that by an unclean end before it is back
        last = (state.leader,) if state.leader != NOBODY else state.last_leader
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
    living: Collection[int],
    forgetful: Collection[int],
    leaving: Collection[int],
    unclean: bool,
) -> int:
    candidates = [each for each in state.replicas if each in isr]
    staying = [each for each in candidates if each not in leaving]
    if candidates:
        return (staying or candidates)[0]
    eligible = [each for each in state.elr if each in living and each not in forgetful]
    if eligible:
        return eligible[0]
    if not state.isr and not state.elr and state.last_leader and state.last_leader[0] in living:
        return state.last_leader[0]
    if unclean:
        return next((each for each in state.replicas if each in living), NOBODY)
    return NOBODY


def _elr(state: PartitionState, isr: tuple[int, ...], min_isr: int, forgetful: Collection[int]) -> tuple[int, ...]:
    if not min_isr:  # there are none (`features.ELR_VERSION`), but for what an empty ISR still needs
        return () if isr else state.elr
    if len(isr) >= min(min_isr, len(state.replicas)):
        return ()
    former = dict.fromkeys((*state.elr, *state.isr))
    return tuple(each for each in former if each not in isr and each not in forgetful and each in state.replicas)

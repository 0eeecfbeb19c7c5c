"""Moving a partition's replicas to other brokers (KIP-455). Pure functions, no state.

While a move is under way, the replicas are those of the target and those that still have to stay; ``adding`` and
``removing`` tell them apart. It ends when all that come are in sync and somebody in sync stays: then those that go are
no replicas any more, and delete their logs. What lives elsewhere: writing it down with its epochs (`leaders`), noticing
that a move can end (`failover`), who leads then (`elections`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.cluster.store.keys import PartitionState


def is_moving(state: PartitionState) -> bool:
    """Whether a move is under way."""
    return bool(state.adding or state.removing)


def begin(state: PartitionState, target: Sequence[int]) -> PartitionState:
    """The partition on its way to ``target``, its preferred leader first; a move that was under way is given up. The
    same object if it is there already."""
    former = tuple(each for each in state.replicas if each not in state.adding)
    if tuple(target) == state.replicas and not is_moving(state):
        return state
    removing = tuple(each for each in former if each not in target)
    return _moved(state, (*target, *removing), tuple(each for each in target if each not in former), removing)


def cancel(state: PartitionState) -> PartitionState:
    """The partition as it was before the move."""
    return _moved(state, tuple(each for each in state.replicas if each not in state.adding), (), ())


def complete(state: PartitionState) -> PartitionState:
    """The partition after its move, if that can end now; the same object otherwise."""
    staying = tuple(each for each in state.isr if each not in state.removing)
    if not is_moving(state) or not staying or any(each not in state.isr for each in state.adding):
        return state
    return _moved(state, tuple(each for each in state.replicas if each not in state.removing), (), ())


def _moved(
    state: PartitionState, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
) -> PartitionState:
    return state._replace(
        replicas=replicas,
        adding=adding,
        removing=removing,
        isr=tuple(each for each in state.isr if each in replicas),
        elr=tuple(each for each in state.elr if each in replicas),
        offline=tuple(each for each in state.offline if each in replicas),
    )

"""Partition reassignment: moving replicas to other brokers (KIP-455). Pure functions, no state.

During a reassignment, the replicas are those of the target and those to be removed; ``adding`` and ``removing`` mark
them. It can be completed when all added replicas are in sync and an in-sync replica remains: then the removed brokers
are no longer replicas and delete their logs. What lives elsewhere: writing the state with its epochs (`leaders`),
detecting that a reassignment can be completed (`failover`), electing a leader (`elections`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.cluster.store.keys import PartitionState


def is_moving(state: PartitionState) -> bool:
    """Whether a reassignment is in progress."""
    return bool(state.adding or state.removing)


def begin(state: PartitionState, target: Sequence[int]) -> PartitionState:
    """The partition with a reassignment to ``target``, the preferred leader first; it replaces one in progress. The
    same object if ``target`` is what the partition has."""
    former = tuple(each for each in state.replicas if each not in state.adding)
    if tuple(target) == state.replicas and not is_moving(state):
        return state
    removing = tuple(each for each in former if each not in target)
    return _with_replicas(state, (*target, *removing), tuple(each for each in target if each not in former), removing)


def cancel(state: PartitionState) -> PartitionState:
    """The partition as before the reassignment."""
    return _with_replicas(state, tuple(each for each in state.replicas if each not in state.adding), (), ())


def complete(state: PartitionState) -> PartitionState:
    """The partition after its reassignment, if that can be completed now; the same object otherwise."""
    staying = tuple(each for each in state.isr if each not in state.removing)
    if not is_moving(state) or not staying or any(each not in state.isr for each in state.adding):
        return state
    return _with_replicas(state, tuple(each for each in state.replicas if each not in state.removing), (), ())


def _with_replicas(
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

"""Mutants of share groups across leaders, coordinators and writes that fail.

Seeds of `campaigns.simulated_cluster --share` must notice them. How mutants are run: `campaigns.mutants`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import PropertyMock, patch

from campaigns import simulated_cluster
from campaigns.mutants.mutant import Mutant
from kwire.coordinator.share.records import ShareState
from kwire.coordinator.share.shard import ShareShard
from kwire.handlers.share.leader_partition import LeaderSharePartition
from kwire.handlers.share.writing import StateWriter
from kwire.share import acknowledging
from kwire.share.in_flight import InFlightState
from kwire.share.partition import Write
from kwire.share.values import RecordState
from kwire.share.window import Window

SEEDS = 30


def seeds(first: int, count: int, *, base: int = 0) -> tuple[Counter[str], list[str]]:
    """Run seeds, counted from ``base``, until the share group of one is not served as promised."""
    for seed in range(base + first, base + first + count):
        wrong = simulated_cluster.run(seed, share=True).wrong
        if wrong:
            return Counter(), [f"seed {seed}: {wrong[0]}"]
    return Counter(), []


def _given_twice() -> Any:
    open_to_all = property(
        lambda self: self.state in (RecordState.AVAILABLE, RecordState.ACQUIRED) and not self.pending
    )
    return patch.object(InFlightState, "acquirable", open_to_all)


@contextmanager
def _answered_before_written() -> Iterator[None]:
    write = StateWriter.write

    def write_later(self: StateWriter, change: Write) -> asyncio.Future[Any]:
        write(self, change)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    with patch.object(StateWriter, "write", write_later):
        yield


@contextmanager
def _written_in_any_order() -> Iterator[None]:
    """As before 12d743b: what is tried again arrives after later changes."""

    def write_now(self: StateWriter, change: Write) -> asyncio.Future[Any]:
        done = asyncio.get_running_loop().create_future()

        async def run() -> None:
            outcome = await self._try([change])
            self._completed(change, outcome)
            done.set_result(outcome)

        self._spawn(run())
        return done

    async def send_as_it_was(self: LeaderSharePartition, writes: Sequence[Write]) -> None:
        then = LeaderSharePartition.__new__(LeaderSharePartition)
        then.__dict__.update(self.__dict__)
        then.machine = _AsSent(writes[0])  # type: ignore[assignment]
        await send(then, writes)

    send = LeaderSharePartition._send
    with (
        patch.object(StateWriter, "write", write_now),
        patch.object(LeaderSharePartition, "_send", send_as_it_was),
    ):
        yield


class _AsSent:
    """A machine whose start offset and count are those of a change, whatever has happened since."""

    def __init__(self, write: Write) -> None:
        self.state_epoch = write.state_epoch
        self.start_offset = write.start_offset
        self.delivery_complete_count = write.delivery_complete_count


@contextmanager
def _start_goes_back() -> Iterator[None]:
    """Changes are written in any order, and the share coordinator takes each start offset."""
    write = ShareShard.write

    def write_as_asked(self: ShareShard, key: Any, change: ShareState, now: Any) -> Any:
        kept = self._kept.get(key)
        if kept is None:
            return write(self, key, change, now)
        state = kept.state
        kept.state = state._replace(start_offset=min(state.start_offset, max(change.start_offset, 0)))
        try:
            result = write(self, key, change, now)
        finally:
            kept.state = state
        return result

    with patch.object(ShareShard, "write", write_as_asked), _written_in_any_order():
        yield


@contextmanager
def _snapshots_without_batches() -> Iterator[None]:
    """A snapshot has the start offset only: what was done after it is forgotten by whoever loads it."""
    apply = ShareShard._apply_snapshot

    def apply_start(self: ShareShard, key: Any, state: ShareState) -> None:
        apply(self, key, state._replace(batches=()))

    with patch.object(ShareShard, "_apply_snapshot", apply_start):
        yield


def _locks_never_end() -> Any:
    return patch.object(acknowledging, "_held", lambda _window: [])


def _no_delivery_limit() -> Any:
    leave = InFlightState.leave
    return patch.object(InFlightState, "leave", lambda self, state, _limit: leave(self, state, 1 << 30))


def _gaps_are_forgotten() -> Any:
    return patch.object(Window, "gap_start", PropertyMock(return_value=None))


@contextmanager
def _begun_again() -> Iterator[None]:
    """Each initialisation begins a state anew."""
    initialize = ShareShard.initialize

    def begin(self: ShareShard, key: Any, state_epoch: int, start_offset: int, now: Any) -> Any:
        kept = self._kept.pop(key, None)
        result = initialize(self, key, state_epoch, start_offset, now)
        if kept is not None:
            self._kept[key] = kept
        return result

    with patch.object(ShareShard, "initialize", begin):
        yield


@contextmanager
def _altered_in_vain() -> Iterator[None]:
    """A state that exists keeps its start offset when it is begun again at another one."""
    initialize = ShareShard.initialize

    def keep(self: ShareShard, key: Any, state_epoch: int, start_offset: int, now: Any) -> Any:
        kept = self._kept.get(key)
        return initialize(self, key, state_epoch, start_offset if kept is None else kept.state.start_offset, now)

    with patch.object(ShareShard, "initialize", keep):
        yield


def _mutant(breaks: str, apply: Callable[[], Any], base: int = 0) -> Mutant:
    return Mutant(breaks, apply, partial(seeds, base=base), SEEDS)


MUTANTS: dict[str, Mutant] = {
    "share-cluster-given-twice": _mutant("a record has one holder", _given_twice),
    "share-cluster-answered-early": _mutant("what is answered is written", _answered_before_written),
    "share-cluster-start-goes-back": _mutant("start offsets do not go back", _start_goes_back, 20_000_000),
    "share-cluster-bare-snapshots": _mutant("a state is whole after a failover", _snapshots_without_batches),
    "share-cluster-locks-never-end": _mutant("a lock ends", _locks_never_end),
    "share-cluster-no-limit": _mutant("a record is given up after its last delivery", _no_delivery_limit),
    "share-cluster-lost-gaps": _mutant("what another leader's members had comes again", _gaps_are_forgotten),
    "share-cluster-begun-again": _mutant("what is initialised stays", _begun_again, 21_000_000),
    "share-cluster-altered-in-vain": _mutant("an altered start offset is where it begins", _altered_in_vain),
}

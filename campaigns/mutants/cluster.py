"""Mutants of replication: elections, the ISR, truncation and fencing.

Seeds of `campaigns.simulated_cluster` must notice them. How mutants are run: `campaigns.mutants`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from campaigns import simulated_cluster as cluster_campaign
from campaigns.mutants.mutant import Mutant
from kwire.cluster.controller import elections
from kwire.cluster.controller.membership import Membership
from kwire.cluster.replication.fetcher import Fetcher, _FetchState
from kwire.cluster.replication.isr_writer import IsrWriter
from kwire.cluster.replication.partition import Partition
from kwire.cluster.replication.replica_manager import ReplicaManager
from kwire.cluster.store.keys import PartitionState
from kwire.handlers.data.fetch.partitions import Fetch
from kwire.log.state.producer_state import ProducerStateManager

SEEDS = 500


def seeds(first: int, count: int, *, access: bool = False) -> tuple[Counter[str], list[str]]:
    """Run seeds of the simulated cluster until one fails. ``access``: with an authorizer."""
    for seed in range(first, first + count):
        wrong = cluster_campaign.run(seed, access=access).wrong
        if wrong:
            return Counter(), [f"seed {seed}: {wrong[0]}"]
    return Counter(), []


@contextmanager
def _stays_in_sync() -> Iterator[None]:
    """An unclean restart is registered as a clean one."""
    join = Membership.join

    async def clean_join(self: Membership, *args: Any, **options: Any) -> str:
        return await join(self, *args, **{**options, "clean": True})

    with patch.object(Membership, "join", clean_join):
        yield


@contextmanager
def _acks_at_once() -> Iterator[None]:
    with patch.object(Partition, "wait_committed", lambda self, offset: None):
        yield


@contextmanager
def _truncates_by_high_watermark() -> Iterator[None]:
    """As before KIP-101: a new follower truncates to its high watermark and fetches from there."""
    fetch_partition, add = _FetchState.fetch_partition, Fetcher.add

    def without_epoch(self: _FetchState, max_bytes: int) -> Any:
        fetch = fetch_partition(self, max_bytes)
        fetch.last_fetched_epoch = -1
        return fetch

    def truncate_and_add(self: Fetcher, partition: Partition) -> None:
        if partition.log.log_end_offset > partition.log.high_watermark:
            partition.truncate_to(partition.log.high_watermark)
        add(self, partition)

    with (
        patch.object(_FetchState, "fetch_partition", without_epoch),
        patch.object(Fetcher, "add", truncate_and_add),
    ):
        yield


@contextmanager
def _fetches_without_epochs() -> Iterator[None]:
    """The leader checks neither a follower's leader epoch nor the epoch of its last record."""
    require = Partition.require_leader
    with (
        patch.object(Partition, "require_leader", lambda self, _epoch=-1: require(self)),
        patch.object(Fetch, "_divergence", lambda *_: None),
    ):
        yield


class _Unchecked:
    """A store that ignores all checks of a commit."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, checks: Any, writes: Any) -> Any:
        return await self._store.commit([], writes)


@contextmanager
def _shrinks_without_checks() -> Iterator[None]:
    write = IsrWriter._write

    async def write_unchecked(self: IsrWriter, batch: Any) -> None:
        if not isinstance(self._store, _Unchecked):
            self._store = _Unchecked(self._store)
        await write(self, batch)

    with patch.object(IsrWriter, "_write", write_unchecked):
        yield


@contextmanager
def _elects_anybody() -> Iterator[None]:
    def elect(state: PartitionState, _isr: Collection[int], live: Collection[int], *_: Any) -> int:
        candidates = [each for each in state.replicas if each in live and each != state.leader]
        return candidates[-1] if candidates else elections.NO_LEADER

    with patch.object(elections, "_elect", elect):
        yield


@contextmanager
def _forgets_producers() -> Iterator[None]:
    load = ProducerStateManager.load_snapshot

    def load_nothing(self: ProducerStateManager, offset: int, now_ms: int) -> None:
        load(self, offset, now_ms)
        self.clear()
        self.map_end_offset = offset

    with patch.object(ProducerStateManager, "load_snapshot", load_nothing):
        yield


@contextmanager
def _serves_everything() -> Iterator[None]:
    read = Partition.read

    def read_to_end(self: Partition, *args: Any, committed_only: bool = False, **options: Any) -> Any:
        return read(self, *args, **{**options, "committed_only": committed_only, "to_end": not committed_only})

    with patch.object(Partition, "read", read_to_end):
        yield


@contextmanager
def _goes_on_fenced() -> Iterator[None]:
    """A broker without registration still leads its partitions."""
    with patch.object(ReplicaManager, "fence", lambda self: None):
        yield


MUTANTS: dict[str, Mutant] = {
    "unclean-stays-in-isr": Mutant("who lost data leaves the ISR", _stays_in_sync, seeds, SEEDS),
    "ack-before-replication": Mutant("acks=all waits for the ISR", _acks_at_once, seeds, SEEDS),
    "truncated-by-high-watermark": Mutant("epochs tell where to cut", _truncates_by_high_watermark, seeds, SEEDS),
    "fetch-without-epochs": Mutant("Fetch is checked by epochs", _fetches_without_epochs, seeds, SEEDS),
    "isr-without-compare-and-set": Mutant("ISR changes are checked", _shrinks_without_checks, seeds, SEEDS),
    "elected-outside-isr": Mutant("leaders come from the ISR", _elects_anybody, seeds, SEEDS),
    "snapshot-forgotten": Mutant("producers are known after a restart", _forgets_producers, seeds, SEEDS),
    "served-above-high-watermark": Mutant("what is read is committed", _serves_everything, seeds, SEEDS),
    "fenced-leader-goes-on": Mutant("without registration nothing is led", _goes_on_fenced, seeds, SEEDS),
}

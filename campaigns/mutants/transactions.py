"""Mutants of transactions, from the coordinator's shard to read_committed consumers.

Schedules of producers on the broker's own coordinators, handlers and logs (`campaigns.schedules`) must notice them. For
events that are rare there, the tests of the shard, of delayed requests or of the log must. `campaigns.mutants`
describes how mutants run.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from _pytest.outcomes import fail as failed

from campaigns.mutants.mutant import Mutant, together
from kwire.base.errors import ErrorCode
from kwire.coordinator.groups.offsets.store import OffsetStore
from kwire.coordinator.runtime.machine import Result
from kwire.coordinator.runtime.runtime import Runtime
from kwire.coordinator.transactions import shard as transaction_shard
from kwire.coordinator.transactions.coordinator import TransactionCoordinator, _Ending
from kwire.coordinator.transactions.markers import MarkerWriter
from kwire.coordinator.transactions.records import transition
from kwire.coordinator.transactions.remote_markers import Marker
from kwire.coordinator.transactions.shard import Producer, TransactionShard
from kwire.handlers.data.fetch import partitions as fetch
from kwire.handlers.transactions import txn_offset_commit
from kwire.log.partition.partition_log import PartitionLog
from kwire.log.segment.segment import Segment
from kwire.log.state.producer_state import ProducerStateManager

LONGEST_S: Final = 5.0
"""A test on a broker that takes longer than this has failed."""

# -- campaigns ---------------------------------------------------------------------------------------------------------


def schedules(first: int, count: int) -> tuple[Any, list[str]]:
    """Schedules of producers, one after the other, until a violation is found."""
    from campaigns.schedules import campaign as schedule_campaign

    return schedule_campaign.run_seeds(
        2 * first + 1, count, 2, failures_max=1
    )  # odd seeds are schedules of transactions


def operations(first: int, count: int) -> tuple[Any, list[str]]:
    """The tests of the shard. There is only one seed."""
    from tests.coordinator.transactions import test_transaction_shard

    return None, _of_tests(test_transaction_shard)


def overtaken(first: int, count: int) -> tuple[Any, list[str]]:
    """The tests of delayed requests on a broker."""
    from tests.handlers.transactions import test_overtaken_transactions

    return None, _of_tests(test_overtaken_transactions)


def log_rules(first: int, count: int) -> tuple[Any, list[str]]:
    """The tests of producer state in a log."""
    from tests.log.state import test_producer_state

    return None, _of_tests(test_producer_state)


def _of_tests(module: Any) -> list[str]:
    """The first failure of a module's tests, or none."""
    for name, test in list(vars(module).items()):
        for case in _cases(test) if name.startswith("test_") else ():
            failure = _failure(lambda test=test, case=case: _run_test(test, case))  # type: ignore[misc]
            if failure is not None:
                return [f"{name} {case}: {failure}"]
    return []


def _cases(test: Any) -> Iterator[dict[str, Any]]:
    """The parameter sets with which pytest would call a test."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    for values in itertools.product(*(mark.args[1] for mark in marks)):
        yield dict(zip((mark.args[0] for mark in marks), values, strict=True))


def _run_test(test: Any, case: dict[str, Any]) -> None:
    """Run a test as pytest does, with the fixtures that these modules use."""
    wanted = inspect.signature(test).parameters
    with tempfile.TemporaryDirectory() as folder:
        if "client" in wanted:
            asyncio.run(asyncio.wait_for(_with_client(test, Path(folder), case), LONGEST_S))
        elif "tmp_path" in wanted:
            test(tmp_path=Path(folder), **case)
        else:
            test(**case)


async def _with_client(test: Any, folder: Path, case: dict[str, Any]) -> None:
    from tests.handlers.transactions.test_transactions import client_of_a_broker

    async with client_of_a_broker(folder) as client:
        await test(client, **case)


def _failure(run: Callable[[], Any]) -> str | None:
    try:
        run()
    except (Exception, failed.Exception) as error:
        return f"{type(error).__name__}: {error}"
    return None


# -- the shard ---------------------------------------------------------------------------------------------------------


def _any_epoch_may_end() -> Any:
    end = TransactionShard.end

    def ended(self: TransactionShard, transactional_id: str, producer: Producer, **how: Any) -> Any:
        found = self.transactions.get(transactional_id)
        if found is not None and found.producer_id == producer.id:
            producer = Producer(found.producer_id, found.producer_epoch)
        return end(self, transactional_id, producer, **how)

    return patch.object(TransactionShard, "end", ended)


def _any_epoch_may_add() -> Any:
    return patch.object(transaction_shard, "_check_producer", lambda *_: ErrorCode.NONE)


def _transition(**changes: Any) -> Any:
    """Change the records of state transitions: each change is a function of the transaction, the state and the correct
    value."""

    def other(transaction: Any, state: Any, level: int, **meant: Any) -> Any:
        for name, function in changes.items():
            if name in meant:
                meant[name] = function(transaction, state, meant[name])
        return transition(transaction, state, level, **meant)

    return patch.object(transaction_shard, "transition", other)


def _ends_do_not_bump() -> Any:
    return _transition(producer_epoch=lambda found, state, meant: found.producer_epoch if state.is_prepared else meant)


def _complete_keeps_partitions() -> Any:
    return _transition(partitions=lambda found, state, meant: meant or found.partitions)


def _partitions_replace() -> Any:
    def last(found: Any, state: Any, meant: dict[Any, None]) -> dict[Any, None]:
        return {name: None for name in meant if name not in found.partitions} or meant

    return _transition(partitions=last)


def _aborts_become_commits() -> Any:
    prepare = TransactionShard._prepare

    def committed(self: TransactionShard, *given: Any, **how: Any) -> None:
        prepare(self, *given, **{**how, "commit": True})

    return patch.object(TransactionShard, "_prepare", committed)


def _begun_anew() -> Any:
    """InitProducerId succeeds at once, without aborting the ongoing transaction."""

    def fence(self: TransactionShard, transaction: Any, out: Result[Any], now: Any) -> None:
        begun = self._begin(transaction, Producer(transaction.producer_id, transaction.producer_epoch + 1), -1, 1, now)
        out.response, out.records, out.applied = begun.response, begun.records, begun.applied

    return patch.object(TransactionShard, "_fence", fence)


def _never_timed_out() -> Any:
    return patch.object(TransactionShard, "abort_timed_out", lambda *_: Result())


def _retried_ends_are_refused() -> Any:
    end = TransactionShard._end_with_bump

    def strict(self: TransactionShard, transaction: Any, producer: Producer, **how: Any) -> Any:
        if producer.epoch != transaction.producer_epoch:
            return Result(transaction_shard.Outcome(ErrorCode.PRODUCER_FENCED))
        return end(self, transaction, producer, **how)

    return patch.object(TransactionShard, "_end_with_bump", strict)


# -- the coordinator and its log ---------------------------------------------------------------------------------------


def _markers_before_the_decision_is_committed() -> Any:
    return patch.object(Runtime, "barrier", lambda _: None)


def _prepared_is_forgotten() -> Any:
    def loaded(self: TransactionShard, now: Any) -> Result[None]:
        self.unfinished.clear()
        return Result()

    return patch.object(TransactionShard, "loaded", loaded)


def _markers_are_not_repeated() -> Any:
    def over(self: _Ending, errors: Any) -> None:
        self.commits = {}

    return patch.object(_Ending, "commits_are_over", over)


def _completed_before_its_markers() -> Any:
    persist = TransactionCoordinator._persist

    async def early(self: TransactionCoordinator, runtime: Any, ending: _Ending) -> None:
        self._complete(runtime, ending)
        await asyncio.sleep(0.1)
        await persist(self, runtime, ending)

    return together(
        patch.object(TransactionCoordinator, "_try_to_end", lambda *_: False),
        patch.object(TransactionCoordinator, "_persist", early),
    )


def _one_marker_is_missing() -> Any:
    write = MarkerWriter.write

    def fewer(self: MarkerWriter, marker: Marker, partitions: Any) -> Any:
        return write(self, marker, list(partitions)[:-1] or partitions)

    def settled(self: _Ending, partition: Any, error: ErrorCode) -> None:
        self.left.clear()

    return together(patch.object(MarkerWriter, "write", fewer), patch.object(_Ending, "_settle", settled))


# -- offsets in transactions -------------------------------------------------------------------------------------------


def _aborted_offsets_count() -> Any:
    end = OffsetStore.end_transaction

    def ended(self: OffsetStore, producer_id: int, *, committed: bool) -> None:
        end(self, producer_id, committed=True)

    return patch.object(OffsetStore, "end_transaction", ended)


def _offsets_are_not_checked_again() -> Any:
    return patch.object(txn_offset_commit, "is_part_of", lambda *_: True)


# -- the log and its readers -------------------------------------------------------------------------------------------


def _stable_is_all() -> Any:
    return patch.object(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark))


def _stable_before_the_marker_is_committed() -> Any:
    def complete(self: ProducerStateManager, completed: Any) -> None:
        self._ongoing.pop(completed.first_offset, None)

    return patch.object(ProducerStateManager, "complete", complete)


def _no_aborted_index() -> Any:
    return patch.object(Segment, "note_aborted", lambda *_: None)


def _only_the_first_aborted_is_listed() -> Any:
    aborted = fetch._aborted
    return patch.object(fetch, "_aborted", lambda *asked: aborted(*asked)[:1])


def _nothing_is_verified() -> Any:
    return together(
        patch.object(ProducerStateManager, "start_verification", lambda *_, **__: None),
        patch.object(ProducerStateManager, "_check_verified", lambda *_: None),
    )


def _late_responses_count() -> Any:
    """The coordinator's response for a completed transaction opens the next one."""
    return patch.object(ProducerStateManager, "_check_verified", lambda *_: None)


def _zombies_may_write() -> Any:
    return together(
        patch.object(ProducerStateManager, "_check_epoch", lambda *_: None),
        patch.object(ProducerStateManager, "check_not_fenced", lambda *_: None),
    )


TRANSACTION_MUTANTS: dict[str, Mutant] = {
    "any-epoch-may-end": Mutant("the epoch of EndTxn", _any_epoch_may_end, schedules, 60),
    "any-epoch-may-add": Mutant("the epoch of AddPartitionsToTxn", _any_epoch_may_add, operations, 1),
    "ends-do-not-bump": Mutant("an epoch for every transaction", _ends_do_not_bump, schedules, 60),
    "complete-keeps-partitions": Mutant(
        "a Complete record without partitions", _complete_keeps_partitions, operations, 1
    ),
    "partitions-replace": Mutant("all partitions of a transaction", _partitions_replace, schedules, 60),
    "aborts-become-commits": Mutant("aborted is not committed", _aborts_become_commits, schedules, 60),
    "begun-anew": Mutant("aborting the former producer's transaction", _begun_anew, schedules, 60),
    "never-timed-out": Mutant("transaction.timeout.ms", _never_timed_out, schedules, 60),
    "retried-ends-refused": Mutant("retries of EndTxn", _retried_ends_are_refused, operations, 1),
    "markers-too-early": Mutant(
        "markers after the decision is committed", _markers_before_the_decision_is_committed, schedules, 300
    ),
    "prepared-forgotten": Mutant("completing transactions after a crash", _prepared_is_forgotten, schedules, 60),
    "markers-not-repeated": Mutant("retries of lost markers", _markers_are_not_repeated, overtaken, 1),
    "completed-too-early": Mutant("Complete after all markers", _completed_before_its_markers, schedules, 60),
    "one-marker-missing": Mutant("a marker for every partition", _one_marker_is_missing, schedules, 60),
    "aborted-offsets-count": Mutant("offsets of aborted transactions", _aborted_offsets_count, schedules, 60),
    "offsets-not-checked-again": Mutant(
        "offsets of a transaction that has ended", _offsets_are_not_checked_again, overtaken, 1
    ),
    "stable-is-all": Mutant("the last stable offset", _stable_is_all, schedules, 60),
    "stable-too-early": Mutant(
        "markers that are not committed yet", _stable_before_the_marker_is_committed, log_rules, 1
    ),
    "no-aborted-index": Mutant("the index of aborted transactions", _no_aborted_index, schedules, 60),
    "one-aborted-listed": Mutant(
        "all aborted transactions of a read", _only_the_first_aborted_is_listed, schedules, 60
    ),
    "nothing-verified": Mutant("verification before a write", _nothing_is_verified, schedules, 100),
    "late-responses-count": Mutant("a verification that is outdated", _late_responses_count, overtaken, 1),
    "zombies-may-write": Mutant("the epoch of Produce", _zombies_may_write, log_rules, 1),
}

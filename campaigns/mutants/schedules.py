"""Mutants of groups and transactions in their coordinators.

The schedules of `campaigns.schedules` must notice them. `campaigns.mutants` describes how mutants run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from campaigns.mutants.mutant import Mutant, together
from campaigns.schedules import campaign as schedule_campaign
from campaigns.schedules import groups
from campaigns.seeds import Found, run_all
from kwire.base.errors import ErrorCode
from kwire.codec.records import COMMIT
from kwire.coordinator.groups.classic.group import ClassicGroup
from kwire.coordinator.groups.classic.rebalance import Rebalancer
from kwire.coordinator.groups.consumer import migration as consumer_migration
from kwire.coordinator.groups.consumer import protocol as consumer_protocol
from kwire.coordinator.groups.consumer import reconcile as consumer_reconcile
from kwire.coordinator.groups.consumer.group import ConsumerGroup
from kwire.coordinator.groups.consumer.member_update import MemberUpdate
from kwire.coordinator.groups.consumer.migration import Migration
from kwire.coordinator.groups.consumer.protocol import ConsumerProtocol
from kwire.coordinator.groups.offsets.store import OffsetStore
from kwire.coordinator.groups.shard import GroupShard
from kwire.coordinator.runtime.long_operations import OperationQueue
from kwire.coordinator.runtime.machine import Result
from kwire.coordinator.runtime.runtime import Runtime
from kwire.coordinator.transactions import markers as transaction_markers
from kwire.coordinator.transactions import shard as transaction_shard
from kwire.coordinator.transactions.coordinator import TransactionCoordinator, _Ending
from kwire.coordinator.transactions.shard import TransactionShard
from kwire.handlers.data.produce import handler as produce
from kwire.log.segment.segment import Segment
from kwire.log.state.producer_state import ProducerStateManager

SEEDS = 400


def _groups(first: int, count: int) -> Found:
    return schedule_campaign.run_seeds(2 * first, count, 2, failures_max=1)


def _transactions(first: int, count: int) -> Found:
    return schedule_campaign.run_seeds(2 * first + 1, count, 2, failures_max=1)


def _short_retention(first: int, count: int) -> Found:
    """Only schedules of groups with a short offset retention."""
    seeds = [seed for seed in range(0, 1000, 2) if groups.Schedule(seed).short_retention]
    return run_all(seeds[first : first + count], schedule_campaign.run_seed, "schedules", failures_max=1)


def _small_steps(first: int, count: int) -> Found:
    """Only schedules whose operations on committed offsets take several turns."""
    step = 2 * groups.SMALL_STEPS_EVERY
    return schedule_campaign.run_seeds(step * first, count, step, failures_max=1)


def _later_groups(first: int, count: int) -> Found:
    """Seeds among which a rare event occurs early."""
    return _groups(first + 185, count)


def _upgrades(first: int, count: int) -> Found:
    """Seeds with an upgrade of a group in which a member has not received its assignment yet."""
    return _groups(first + 1_502_434, count)


def _later_transactions(first: int, count: int) -> Found:
    """Seeds among which a rare event occurs early."""
    return _transactions(first + 330, count)


def _nothing(*_: Any, **__: Any) -> None:
    """Replaces a function by one that does nothing."""


def _method(owner: Any, name: str, instead: Any) -> Callable[[], Any]:
    return lambda: patch.object(owner, name, instead)


def _together(*mutants: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: together(*(each() for each in mutants))


# -- groups ------------------------------------------------------------------------------------------------------------


def _loses_a_member() -> Any:
    upgrade = Migration.upgrade

    def careless(self: Migration, classic: ClassicGroup, *rest: Any) -> ConsumerGroup:
        if len(classic.members) > 1:
            classic.members.pop(next(reversed(classic.members)))
        return upgrade(self, classic, *rest)

    return patch.object(Migration, "upgrade", careless)


def _without_epochs(self: MemberUpdate, old: Any, new: Any, bump: bool) -> None:
    self.group.checked_epoch = self.epoch


def _forgets_refused_timers() -> Any:
    run = Runtime._run

    def careless(self: Runtime[Any], operation: Any) -> bool:
        run(self, operation)
        return True

    return patch.object(Runtime, "_run", careless)


def _keeps_old_metadata() -> Any:
    applied_member = ClassicGroup._applied_member

    def careless(self: ClassicGroup, written: Any) -> Any:
        member = self.members.get(written.member_id)
        if member is None:
            return applied_member(self, written)
        member.assignment = bytes(written.assignment)
        return member

    return patch.object(ClassicGroup, "_applied_member", careless)


def _any_instance(self: ConsumerProtocol, group: ConsumerGroup, member_id: str, instance_id: str) -> Any:
    return group.members.get(member_id) or group.static_member(instance_id)


def _old_instance_stays() -> Any:
    static_member = ConsumerProtocol.static_member

    def careless(self: ConsumerProtocol, group: Any, member_id: str, instance_id: str, records: Any, **how: Any) -> Any:
        found = static_member(self, group, member_id, instance_id, records, **how)
        del records[:3]  # the tombstones of the predecessor
        return found

    return patch.object(ConsumerProtocol, "static_member", careless)


def _overlapping() -> Any:
    begin = OperationQueue.begin

    def in_a_queue_of_its_own(self: OperationQueue, steps: Any) -> None:
        begin(OperationQueue(self._turns, _nothing), steps)

    return patch.object(OperationQueue, "begin", in_a_queue_of_its_own)


def _expires_what_is_subscribed(self: Any, topic: str) -> bool:
    return False


# -- transactions ------------------------------------------------------------------------------------------------------


def _visible_at_once(self: OffsetStore, producer_id: int, *commit: Any) -> None:
    self.put(*commit)


def _does_not_go_on() -> Any:
    load = TransactionCoordinator._load

    async def careless(self: TransactionCoordinator, runtime: Any) -> None:
        with patch.object(TransactionCoordinator, "_go_on", _nothing):
            await load(self, runtime)
        runtime.shard.unfinished.clear()

    return patch.object(TransactionCoordinator, "_load", careless)


def _same_epoch() -> Any:
    prepare = TransactionShard._prepare

    def careless(self: TransactionShard, transaction: Any, *what: Any, **how: Any) -> None:
        with patch.object(transaction_shard, "EPOCH_BUMP", 99):
            prepare(self, transaction, *what, **{**how, "fence": False})

    return patch.object(TransactionShard, "_prepare", careless)


def _always_commits() -> Any:
    return patch.object(transaction_markers, "ABORT", COMMIT)


def _does_not_fence() -> Any:
    init = TransactionShard.init

    def careless(self: TransactionShard, name: str, timeout_ms: int, expected: Any, now: Any) -> Any:
        known = self.transactions.get(name)
        if known is not None and known.producer_epoch >= 0 and not known.state.is_prepared:
            return Result(
                transaction_shard.Outcome(
                    ErrorCode.NONE, transaction_shard.Producer(known.producer_id, known.producer_epoch)
                )
            )
        return init(self, name, timeout_ms, expected, now)

    return patch.object(TransactionShard, "init", careless)


def _no_partition_left(self: _Ending, errors: Any) -> None:
    self.commits = {}


MUTANTS: dict[str, Mutant] = {
    "member-epoch-not-checked": Mutant(
        "fencing of old member epochs", _method(consumer_protocol, "_check_epoch", _nothing), _groups, SEEDS
    ),
    "group-epoch-not-bumped": Mutant(
        "a new epoch for every change", _method(MemberUpdate, "_check_topics", _without_epochs), _groups, SEEDS
    ),
    "given-before-revoked": Mutant(
        "one owner at a time", _method(consumer_reconcile, "_is_free", lambda *_: True), _groups, SEEDS
    ),
    "revocation-not-awaited": Mutant(
        "waiting for the revocation", _method(consumer_reconcile, "_still_owns", lambda *_: False), _groups, SEEDS
    ),
    "old-instance-stays": Mutant("one member per instance id", _old_instance_stays, _groups, SEEDS),
    "rebalance-timeout-ignored": Mutant(
        "the rebalance timeout", _method(ConsumerProtocol, "_watch_revocation", _nothing), _groups, SEEDS
    ),
    "session-never-expires": Mutant("sessions", _method(ConsumerProtocol, "restart_session", _nothing), _groups, SEEDS),
    "classic-session-never-expires": Mutant(
        "classic sessions", _method(Rebalancer, "_session_expired", _nothing), _groups, SEEDS
    ),
    "sync-never-overdue": Mutant(
        "the wait for SyncGroup", _method(Rebalancer, "_sync_overdue", _nothing), _later_groups, SEEDS
    ),
    "refused-timer-forgotten": Mutant("timers that fire again", _forgets_refused_timers, _groups, SEEDS),
    "commit-without-epoch": Mutant(
        "epochs of OffsetCommit",
        _together(
            _method(ConsumerGroup, "check_offset_commit", _nothing),
            _method(ConsumerGroup, "check_partition_commit", _nothing),
            _method(ClassicGroup, "check_offset_commit", _nothing),
        ),
        _groups,
        SEEDS,
    ),
    "upgrade-gives-away-what-is-held": Mutant(
        "one owner at a time in an upgrade",
        _method(consumer_migration, "_keep_what_is_held", _nothing),
        _upgrades,
        SEEDS,
    ),
    "migration-loses-a-member": Mutant("all members migrate", _loses_a_member, _groups, SEEDS),
    "downgrade-without-rebalance": Mutant(
        "a rebalance after a downgrade", _method(GroupShard, "loaded", lambda self, now: Result()), _groups, SEEDS
    ),
    "old-metadata-after-a-reload": Mutant("the newest metadata", _keeps_old_metadata, _groups, SEEDS),
    "offset-of-a-group-with-members-expires": Mutant(
        "retention in groups with members",
        _together(
            _method(ConsumerGroup, "is_subscribed_to", _expires_what_is_subscribed),
            _method(ClassicGroup, "is_subscribed_to", _expires_what_is_subscribed),
        ),
        _short_retention,
        20,
    ),
    "long-operation-not-alone": Mutant("one operation at a time", _overlapping, _small_steps, SEEDS),
    "long-operation-outlives-leadership": Mutant(
        "long operations end with the leadership",
        _method(Runtime, "_while_active", lambda self, steps: steps),
        _small_steps,
        SEEDS,
    ),
    "response-before-commit": Mutant(
        "responses that wait for the commit", _method(Runtime, "barrier", lambda self: None), _groups, SEEDS
    ),
    "end-without-epoch": Mutant(
        "fencing of producers",
        _method(transaction_shard, "_check_producer", lambda *_: ErrorCode.NONE),
        _transactions,
        SEEDS,
    ),
    "epoch-not-bumped-by-an-end": Mutant("an epoch per transaction", _same_epoch, _transactions, SEEDS),
    "new-producer-does-not-fence": Mutant("InitProducerId fences", _does_not_fence, _transactions, SEEDS),
    "prepared-not-resumed": Mutant("prepared transactions are completed", _does_not_go_on, _transactions, SEEDS),
    "lost-marker-not-repeated": Mutant(
        "markers are committed", _method(_Ending, "commits_are_over", _no_partition_left), _later_transactions, SEEDS
    ),
    "offsets-visible-before-commit": Mutant(
        "pending offsets", _method(OffsetStore, "put_pending", _visible_at_once), _transactions, SEEDS
    ),
    "transaction-never-times-out": Mutant(
        "transaction.timeout.ms",
        _method(TransactionShard, "abort_timed_out", lambda self, now: Result()),
        _transactions,
        SEEDS,
    ),
    "abort-commits": Mutant("abort markers", _always_commits, _transactions, SEEDS),
    "aborted-not-indexed": Mutant(
        "the index of aborted", _method(Segment, "note_aborted", _nothing), _transactions, SEEDS
    ),
    "open-transaction-is-stable": Mutant(
        "the last stable offset",
        _method(ProducerStateManager, "first_unstable_offset", property(lambda self: -1)),
        _transactions,
        SEEDS,
    ),
    "batch-not-verified": Mutant(
        "verification of batches", _method(produce, "verification_guards", lambda *_: {}), _transactions, SEEDS
    ),
}

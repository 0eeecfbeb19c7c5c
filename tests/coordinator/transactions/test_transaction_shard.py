"""The state machine of transactional ids, one operation at a time: retries of EndTxn, records, epochs, fencing."""

from __future__ import annotations

import pytest

from kwire.base.errors import ErrorCode
from kwire.coordinator.transactions.records import NONE, TransactionState, parse_value
from kwire.coordinator.transactions.shard import Outcome, Producer
from tests.coordinator.transactions.test_transaction_schedules import DAY_MS, Bench

OK = ErrorCode.NONE
OTHER = {True: False, False: True}


def begun(bench: Bench, *partitions: int, version: int = 2, timeout_ms: int = 60_000) -> Producer:
    """A producer with a transaction that contains these partitions."""
    outcome = bench.run(bench.shard.init("a", timeout_ms, None, bench.now))
    assert outcome.error is OK
    add(bench, outcome.producer, *partitions, version=version)
    producer: Producer = outcome.producer
    return producer


def add(bench: Bench, producer: Producer, *partitions: int, version: int = 2) -> ErrorCode:
    names = [("t", index) for index in partitions]
    error: ErrorCode = bench.run(bench.shard.add_partitions("a", producer, names, version, bench.now))
    return error


def end(bench: Bench, producer: Producer, *, commit: bool, version: int = 2) -> Outcome:
    outcome: Outcome = bench.run(bench.shard.end("a", producer, commit=commit, client_version=version, now=bench.now))
    return outcome


def complete(bench: Bench) -> None:
    """All markers are committed: complete the transaction."""
    while bench.marking:
        bench.mark_one()


def state(bench: Bench) -> TransactionState:
    return bench.shard.transactions["a"].state


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_a_retried_end_gets_the_same_response(commit: bool, version: int) -> None:
    bench = Bench(1, version)
    who = begun(bench, 0, version=version)
    first = end(bench, who, commit=commit, version=version)
    assert first.error is OK
    assert end(bench, who, commit=commit, version=version).error is ErrorCode.CONCURRENT_TRANSACTIONS
    complete(bench)
    records = len(bench.log)
    assert end(bench, who, commit=commit, version=version) == first
    assert end(bench, who, commit=OTHER[commit], version=version).error is ErrorCode.INVALID_TXN_STATE
    assert len(bench.log) == records, "a retry changes nothing"


@pytest.mark.parametrize("commit", [True, False])
def test_a_delayed_end_of_the_last_transaction_does_not_end_the_next_one(commit: bool) -> None:
    bench = Bench(1, 2)
    who = begun(bench, 0)
    following = end(bench, who, commit=commit).producer
    complete(bench)
    assert following == (who.id, who.epoch + 1)
    assert add(bench, following, 1) is OK
    for late in (commit, OTHER[commit]):
        assert end(bench, who, commit=late).error is ErrorCode.PRODUCER_FENCED
    assert state(bench) is TransactionState.ONGOING


def test_the_epoch_before_an_older_clients_end_is_fenced() -> None:
    bench = Bench(1, 2)
    fenced = begun(bench, 0)
    end(bench, fenced, commit=True)
    complete(bench)
    who = begun(bench, 0, version=0)
    assert end(bench, who, commit=False, version=0).error is OK
    complete(bench)
    late = Producer(who.id, who.epoch - 1)
    assert end(bench, late, commit=False).error is ErrorCode.PRODUCER_FENCED
    assert end(bench, who, commit=False, version=0).error is OK, "a retry of the last EndTxn"


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_the_complete_record_has_no_partitions(commit: bool, version: int) -> None:
    bench = Bench(1, version)
    who = begun(bench, 0, 1, version=version)
    end(bench, who, commit=commit, version=version)
    assert [list(partitions) for *_, partitions in bench.marking.values()] == [[("t", 0), ("t", 1)]]
    complete(bench)
    value = bench.log[-1].value
    assert value is not None
    assert parse_value(value).transaction_partitions == []
    assert bench.shard.transactions["a"].partitions == {}
    bench.crash()
    assert bench.shard.transactions["a"].partitions == {} and not bench.marking


@pytest.mark.parametrize("version", [0, 2])
def test_the_next_transaction_has_only_its_own_partitions(version: int) -> None:
    bench = Bench(1, version)
    who = begun(bench, 0, 1, version=version)
    following = end(bench, who, commit=True, version=version).producer
    complete(bench)
    who = who if version == 0 else following
    assert add(bench, who, 2, version=version) is OK
    assert list(bench.shard.transactions["a"].partitions) == [("t", 2)]
    assert bench.shard.verify("a", who, [("t", 0)]).response == {("t", 0): ErrorCode.TRANSACTION_ABORTABLE}


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("wrong", [Producer(99, 0), Producer(1, 7), Producer(1, -1)])
def test_another_producer_cannot_change_a_transaction(wrong: Producer, version: int) -> None:
    bench = Bench(1, version)
    begun(bench, 0, version=version)
    before = len(bench.log)
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING if wrong.id == 99 else ErrorCode.PRODUCER_FENCED
    assert add(bench, wrong, 1, version=version) is mapping
    assert bench.shard.verify("a", wrong, [("t", 0)]).response == {("t", 0): mapping}
    for commit in (True, False):
        assert end(bench, wrong, commit=commit, version=version).error is mapping
    assert len(bench.log) == before and state(bench) is TransactionState.ONGOING


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced() -> None:
    bench = Bench(1, 2)
    who = begun(bench, 0, timeout_ms=1000)
    bench.now_ms = 1000
    bench.run(bench.shard.abort_timed_out(bench.now))
    assert state(bench) is TransactionState.ONGOING
    bench.now_ms = 1001
    bench.run(bench.shard.abort_timed_out(bench.now))
    assert state(bench) is TransactionState.PREPARE_ABORT
    complete(bench)
    assert add(bench, who, 0) is ErrorCode.PRODUCER_FENCED
    assert end(bench, who, commit=True).error is not OK


def test_an_ongoing_transaction_keeps_its_start_time() -> None:
    bench = Bench(1, 2)
    who = begun(bench, 0, timeout_ms=1000)
    bench.now_ms = 900
    assert add(bench, who, 1) is OK
    bench.now_ms = 1001
    bench.run(bench.shard.abort_timed_out(bench.now))
    assert state(bench) is TransactionState.PREPARE_ABORT


@pytest.mark.parametrize("level", [0, 2])
def test_a_new_producer_aborts_the_ongoing_transaction_first(level: int) -> None:
    bench = Bench(1, level)
    old = begun(bench, 0, version=level)
    again = bench.run(bench.shard.init("a", 1000, None, bench.now))
    assert again.error is ErrorCode.CONCURRENT_TRANSACTIONS and state(bench) is TransactionState.PREPARE_ABORT
    assert bench.run(bench.shard.init("a", 1000, None, bench.now)).error is ErrorCode.CONCURRENT_TRANSACTIONS
    complete(bench)
    new = bench.run(bench.shard.init("a", 1000, None, bench.now))
    assert new.error is OK and new.producer.id == old.id and new.producer.epoch > old.epoch
    assert add(bench, old, 0, version=level) is ErrorCode.PRODUCER_FENCED


def test_with_version_2_the_marker_has_a_greater_epoch_than_the_records() -> None:
    bench = Bench(1, 2)
    who = begun(bench, 0)
    end(bench, who, commit=True)
    _, marking, commit, _ = bench.marking["a"]
    assert (marking, commit) == ((who.id, who.epoch + 1), True)


def test_with_version_2_an_abort_without_a_transaction_bumps_the_epoch() -> None:
    bench = Bench(1, 2)
    who = bench.run(bench.shard.init("a", 1000, None, bench.now)).producer
    assert end(bench, who, commit=True).error is ErrorCode.INVALID_TXN_STATE
    outcome = end(bench, who, commit=False)
    assert outcome == (OK, (who.id, who.epoch + 1))
    complete(bench)
    assert end(bench, who, commit=False) == outcome


def test_an_end_at_the_last_epoch_gives_a_new_id_and_can_be_retried() -> None:
    bench = Bench(1, 2)
    who = begun(bench, 0)
    bench.shard.transactions["a"].producer_epoch = 32766
    who = Producer(who.id, 32766)
    first = end(bench, who, commit=True)
    assert first.error is OK and first.producer.epoch == 0 and first.producer.id not in (who.id, NONE)
    complete(bench)
    assert end(bench, who, commit=True) == first
    assert end(bench, who, commit=False).error is ErrorCode.INVALID_TXN_STATE


def test_ids_with_an_ongoing_transaction_do_not_expire() -> None:
    bench = Bench(1, 2)
    who = begun(bench, 0)
    bench.now_ms = 30 * DAY_MS
    bench.run(bench.shard.expire(bench.now))
    assert state(bench) is TransactionState.ONGOING
    end(bench, who, commit=True)
    bench.run(bench.shard.expire(bench.now))
    assert state(bench) is TransactionState.PREPARE_COMMIT
    complete(bench)
    bench.now_ms += 7 * DAY_MS
    bench.run(bench.shard.expire(bench.now))
    assert not bench.shard.transactions

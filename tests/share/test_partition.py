"""The share partition: acquisition, acknowledgement, locks, start offset, roll-back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.share.aborted import aborted_batches
from kwire.share.partition import SharePartition, Write
from kwire.share.values import (
    Acknowledgement,
    AcquiredRecords,
    FetchedBatch,
    Limits,
    PersistedState,
    RecordState,
    StateBatch,
)

LIMITS = Limits(max_record_locks=200, delivery_count_limit=5, lock_duration_ms=1000, renew_enabled=True)
ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]


class Partition:
    """A share partition with what most tests do."""

    def __init__(self, *batches: StateBatch, start: int = 0, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self.it = SharePartition(lambda: self.limits, PersistedState(1, start, batches))

    def acquire(
        self,
        *batches: tuple[int, int],
        member: str = "m",
        most: int = 500,
        limited: bool = False,
        size: int = 500,
        now_ms: int = 0,
        aborted: Sequence[FetchedBatch] = (),
    ) -> list[tuple[int, int, int]]:
        """What a member acquires of batches read from the next fetch offset."""
        found = self.it.acquire(
            member,
            [FetchedBatch(*batch) for batch in batches],
            fetch_offset=self.it.next_fetch_offset(),
            max_records=most,
            batch_size=size,
            record_limit=limited,
            aborted=aborted,
            now_ms=now_ms,
        )
        return [tuple(records) for records in found]  # type: ignore[misc]

    def acknowledge(self, first: int, last: int, types: Sequence[int], member: str = "m", now_ms: int = 0) -> Write:
        """An acknowledgement that has to be written."""
        write = self.it.acknowledge(member, [Acknowledgement(first, last, types)], now_ms)
        assert write is not None
        return write

    def written(self, first: int, last: int, types: Sequence[int], member: str = "m") -> None:
        """An acknowledgement that is written."""
        self.it.committed(self.acknowledge(first, last, types, member), 0)

    def error(self, first: int, last: int, types: Sequence[int], member: str = "m") -> ErrorCode:
        """The error of an acknowledgement."""
        with pytest.raises(KafkaError) as refused:
            self.it.acknowledge(member, [Acknowledgement(first, last, types)], 0)
        return refused.value.code


def test_new_records_are_acquired_in_batches_of_at_least_the_batch_size() -> None:
    partition = Partition()

    acquired = partition.acquire((0, 3), (4, 5), (6, 9), (10, 19), size=6)

    assert acquired == [(0, 5, 1), (6, 19, 1)]
    assert partition.it.next_fetch_offset() == 20


def test_record_limit_splits_a_batch() -> None:
    partition = Partition()

    assert partition.acquire((0, 9), most=3, limited=True) == [(0, 2, 1)]
    assert partition.it.next_fetch_offset() == 3
    assert partition.acquire((0, 9), most=100, limited=True, member="n") == [(3, 9, 1)]


def test_batch_optimized_acquisition_ends_with_a_batch() -> None:
    partition = Partition()

    assert partition.acquire((0, 9), (10, 19), most=3) == [(0, 9, 1)]


def test_accepted_records_leave_the_window_once_that_is_written() -> None:
    partition = Partition()
    partition.acquire((0, 9))

    write = partition.acknowledge(0, 9, ACCEPT)

    assert write.batches == [StateBatch(0, 9, RecordState.ACKNOWLEDGED, 1)]
    assert (write.start_offset, write.delivery_complete_count, partition.it.start_offset) == (0, 10, 0)
    assert partition.it.committed(write, 0)
    assert (partition.it.start_offset, partition.it.in_flight_batches) == (10, 0)


def test_an_acknowledgement_that_cannot_be_written_is_rolled_back() -> None:
    partition = Partition()
    partition.acquire((0, 9))
    write = partition.acknowledge(0, 9, ACCEPT)

    assert partition.error(0, 9, ACCEPT) is ErrorCode.INVALID_RECORD_STATE
    assert not partition.it.failed(write, 5)
    partition.written(0, 9, ACCEPT)
    assert partition.it.start_offset == 10


def test_a_lock_that_ends_while_a_write_fails_makes_the_records_available() -> None:
    partition = Partition()
    partition.acquire((0, 9))
    write = partition.acknowledge(0, 9, ACCEPT)

    assert partition.it.expire(1000) is None
    assert partition.it.failed(write, 1001)
    assert partition.acquire((0, 9), member="n", now_ms=1001) == [(0, 9, 2)]


def test_a_failed_write_arms_the_timer_of_its_lock_again() -> None:
    partition = Partition()
    partition.acquire((0, 0), now_ms=500)
    partition.acquire((1, 1), now_ms=0)
    write = partition.acknowledge(0, 0, ACCEPT)
    assert partition.it.expire(1000) is not None
    assert partition.it.next_deadline_ms() is None

    partition.it.failed(write, 1100)

    assert partition.it.next_deadline_ms() == 1500


def test_acknowledgements_per_offset_are_written_as_ranges() -> None:
    partition = Partition()
    partition.acquire((0, 5))

    write = partition.acknowledge(0, 5, [1, 1, 2, 2, 3, 0])

    assert write.batches == [
        StateBatch(0, 1, RecordState.ACKNOWLEDGED, 1),
        StateBatch(2, 3, RecordState.AVAILABLE, 1),
        StateBatch(4, 5, RecordState.ARCHIVED, 1),
    ]
    partition.it.committed(write, 0)
    assert (partition.it.start_offset, partition.it.next_fetch_offset()) == (2, 2)


def test_released_records_are_delivered_again_until_the_limit() -> None:
    partition = Partition(limits=LIMITS._replace(delivery_count_limit=2))
    for count in (1, 2):
        assert partition.acquire((0, 4)) == [(0, 4, count)]
        partition.written(0, 4, RELEASE)

    assert partition.it.start_offset == 5


def test_records_near_the_delivery_limit_are_acquired_in_smaller_sets_and_alone_at_last() -> None:
    partition = Partition(StateBatch(0, 7, RecordState.AVAILABLE, 3))

    assert partition.acquire((0, 7)) == [(0, 3, 4)]
    partition.written(0, 3, RELEASE)
    assert partition.acquire((0, 7)) == [(0, 0, 5)]
    assert partition.acquire((0, 7)) == [(1, 1, 5)]


@pytest.mark.parametrize(
    ("first", "last", "types", "member", "error"),
    [
        (0, 4, ACCEPT, "n", ErrorCode.INVALID_RECORD_STATE),
        (3, 5, ACCEPT, "m", ErrorCode.INVALID_REQUEST),
        (7, 9, ACCEPT, "m", ErrorCode.INVALID_REQUEST),
        (0, 4, [5], "m", ErrorCode.INVALID_REQUEST),
        (0, 4, [1, 1], "m", ErrorCode.INVALID_REQUEST),
        (0, 4, [], "m", ErrorCode.INVALID_REQUEST),
    ],
)
def test_acknowledgements_that_do_not_fit_are_refused(
    first: int, last: int, types: list[int], member: str, error: ErrorCode
) -> None:
    partition = Partition()
    partition.acquire((0, 4))

    assert partition.error(first, last, types, member) is error


def test_an_error_undoes_the_whole_request() -> None:
    partition = Partition()
    partition.acquire((0, 4))

    with pytest.raises(KafkaError):
        partition.it.acknowledge("m", [Acknowledgement(0, 2, ACCEPT), Acknowledgement(2, 3, ACCEPT)], 0)

    assert partition.it.delivery_complete_count == 0
    partition.written(0, 4, ACCEPT)


def test_renewed_locks_end_later() -> None:
    partition = Partition()
    partition.acquire((0, 4))

    assert partition.it.acknowledge("m", [Acknowledgement(0, 4, RENEW)], 600) is None
    assert partition.it.expire(1000) is None
    assert partition.it.next_deadline_ms() == 1600
    write = partition.it.expire(1600)
    assert write is not None
    assert write.batches == [StateBatch(0, 4, RecordState.AVAILABLE, 1)]


def test_renewal_can_be_forbidden() -> None:
    partition = Partition(limits=LIMITS._replace(renew_enabled=False))
    partition.acquire((0, 4))

    assert partition.error(0, 4, RENEW) is ErrorCode.INVALID_RECORD_STATE


def test_closing_a_session_releases_only_its_records() -> None:
    partition = Partition()
    partition.acquire((0, 4))
    partition.acquire((5, 9), member="n")

    write = partition.it.release("m")

    assert write is not None
    assert write.batches == [StateBatch(0, 4, RecordState.AVAILABLE, 1)]
    assert partition.it.committed(write, 0)
    assert partition.acquire((0, 4), member="n") == [(0, 4, 2)]


def test_a_full_window_waits() -> None:
    partition = Partition(limits=LIMITS._replace(max_record_locks=5))
    partition.acquire((0, 9))

    assert not partition.it.can_acquire()
    assert partition.acquire((10, 19)) == []
    partition.written(2, 3, RELEASE)
    assert partition.it.can_acquire()
    assert partition.acquire((0, 9), (10, 19)) == [(2, 3, 2)]


def test_a_full_window_does_not_take_what_was_read_behind_it() -> None:
    """Apache Kafka 4.3.1 then acquires a batch that ends before it begins."""
    partition = Partition(limits=LIMITS._replace(max_record_locks=5))
    partition.acquire((0, 9))
    partition.written(8, 9, RELEASE)

    assert partition.acquire((12, 19)) == []  # 8 and 9 have been compacted away
    assert (partition.it.end_offset, partition.it.next_fetch_offset()) == (9, 10)


def test_gaps_of_the_persisted_state_are_fetched() -> None:
    """KAFKA-18494: such records were acquired, and not acknowledged, when the former leader stopped."""
    partition = Partition(
        StateBatch(10, 14, RecordState.ACKNOWLEDGED, 1), StateBatch(20, 24, RecordState.AVAILABLE, 1), start=5
    )

    assert (partition.it.start_offset, partition.it.next_fetch_offset()) == (5, 5)
    assert partition.acquire((0, 9), (10, 29)) == [(5, 9, 1), (15, 19, 1), (20, 24, 2), (25, 29, 1)]


def test_the_start_offset_stops_at_a_gap_of_the_persisted_state() -> None:
    """KAFKA-18494."""
    partition = Partition(StateBatch(0, 4, RecordState.AVAILABLE, 1), StateBatch(10, 14, RecordState.ACKNOWLEDGED, 1))
    partition.acquire((0, 4))

    partition.written(0, 4, ACCEPT)

    assert (partition.it.start_offset, partition.it.next_fetch_offset()) == (5, 5)


def test_the_start_offset_moves_once_all_gaps_are_filled() -> None:
    """In Apache Kafka 4.3.1 it stays, and a full window then stays full."""
    partition = Partition(
        StateBatch(0, 4, RecordState.AVAILABLE, 1),
        StateBatch(10, 14, RecordState.ACKNOWLEDGED, 1),
        limits=LIMITS._replace(max_record_locks=15),
    )
    assert partition.acquire((0, 4), (5, 9)) == [(0, 4, 2), (5, 9, 1)]

    partition.written(0, 9, ACCEPT)

    assert partition.it.start_offset == 15
    assert partition.it.can_acquire()


def test_a_gap_is_filled_only_up_to_the_next_batch_in_flight() -> None:
    """KAFKA-19632: a batch of the log reaches over a batch of the persisted state."""
    partition = Partition(StateBatch(15, 18, RecordState.ACKNOWLEDGED, 1), start=10)

    assert partition.acquire((10, 19), most=2) == [(10, 14, 1)]
    assert partition.acquire((10, 19), member="n") == [(19, 19, 1)]


def test_a_full_window_acquires_no_further_than_what_was_read() -> None:
    """KAFKA-19808: released records in the middle of a full window, of which a fetch reads only the first."""
    partition = Partition(limits=LIMITS._replace(max_record_locks=25))
    partition.acquire((0, 9), (10, 19), (20, 29), size=10)
    partition.written(0, 9, RELEASE)
    partition.written(20, 29, RELEASE)

    assert partition.acquire((0, 9)) == [(0, 9, 2)]
    assert partition.it.next_fetch_offset() == 20


def test_the_next_fetch_offset_leaves_out_records_whose_release_is_being_written() -> None:
    """KAFKA-19463, KAFKA-18084."""
    partition = Partition()
    partition.acquire((0, 9))
    write = partition.acknowledge(0, 9, RELEASE)

    assert partition.it.next_fetch_offset() == 10
    assert partition.acquire((0, 9), member="n") == []
    partition.it.committed(write, 0)
    assert partition.it.next_fetch_offset() == 0


def test_completed_records_at_the_start_of_the_persisted_state_are_dropped() -> None:
    partition = Partition(
        StateBatch(5, 9, RecordState.ARCHIVED, 1), StateBatch(10, 14, RecordState.AVAILABLE, 1), start=5
    )

    assert (partition.it.start_offset, partition.it.delivery_complete_count) == (10, 0)


@pytest.mark.parametrize(
    "batch", [StateBatch(4, 9, RecordState.AVAILABLE, 1), StateBatch(9, 8, RecordState.AVAILABLE, 1)]
)
def test_impossible_persisted_state_is_refused(batch: StateBatch) -> None:
    with pytest.raises(KafkaError) as refused:
        Partition(batch, start=5)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_records_deleted_from_the_log_leave_the_window() -> None:
    partition = Partition()
    partition.acquire((0, 9))
    partition.acquire((10, 19))
    partition.written(0, 9, RELEASE)

    partition.it.move_log_start(15)

    assert (partition.it.start_offset, partition.it.next_fetch_offset()) == (15, 20)
    partition.written(10, 19, RELEASE)
    assert partition.it.next_fetch_offset() == 15


def test_the_start_offset_stays_when_the_last_record_before_the_log_start_is_released() -> None:
    """In Apache Kafka 4.3.1 it goes back to the end of the records in flight."""
    partition = Partition()
    partition.acquire((0, 9))
    partition.it.move_log_start(20)

    write = partition.it.release("m")

    assert write is not None
    assert write.batches == [StateBatch(0, 9, RecordState.ARCHIVED, 1)]
    partition.it.committed(write, 0)
    assert partition.it.start_offset == partition.it.end_offset == 20


def test_the_start_offset_does_not_go_back_to_a_gap_before_the_log_start() -> None:
    partition = Partition(StateBatch(0, 4, RecordState.AVAILABLE, 1), StateBatch(10, 14, RecordState.AVAILABLE, 1))
    assert partition.acquire((0, 4)) == [(0, 4, 2)]
    partition.it.move_log_start(8)

    write = partition.it.release("m")

    assert write is not None
    partition.it.committed(write, 0)
    assert partition.it.start_offset == 8


def test_gaps_before_the_log_start_are_not_fetched() -> None:
    partition = Partition(StateBatch(10, 14, RecordState.AVAILABLE, 1), StateBatch(20, 24, RecordState.AVAILABLE, 1))

    partition.it.move_log_start(16)

    assert partition.it.next_fetch_offset() == 16
    assert partition.acquire((8, 24)) == [(16, 19, 1), (20, 24, 2)]


def test_records_that_leave_the_log_during_a_write_that_fails_are_not_delivered_again() -> None:
    """In Apache Kafka 4.3.1 the next fetch offset goes back before the start offset."""
    partition = Partition()
    partition.acquire((0, 9))
    partition.acquire((10, 19))
    write = partition.acknowledge(0, 9, ACCEPT)
    partition.it.move_log_start(10)

    partition.it.failed(write, 1000)

    assert partition.it.next_fetch_offset() == 20


def test_records_split_during_a_release_are_acquired_only_after_its_write() -> None:
    partition = Partition()
    partition.acquire((0, 9))
    write = partition.acknowledge(0, 9, RELEASE)
    partition.it.move_log_start(5)

    assert partition.acquire((5, 9)) == []
    assert partition.it.committed(write, 0)
    assert partition.acquire((5, 9)) == [(5, 9, 2)]


def test_records_compacted_away_are_archived() -> None:
    partition = Partition()
    partition.acquire((0, 9))
    partition.written(0, 9, RELEASE)

    assert partition.acquire((6, 9)) == [(6, 9, 2)]
    assert (partition.it.start_offset, partition.it.delivery_complete_count) == (6, 0)


def test_aborted_records_are_archived_and_do_not_fill_the_window() -> None:
    """In Apache Kafka 4.3.1 a window that is full of aborted records stays full."""
    partition = Partition(limits=LIMITS._replace(max_record_locks=5))
    aborted = FetchedBatch(0, 9)

    assert partition.acquire((0, 9), (10, 14), aborted=[aborted]) == []
    assert partition.it.can_acquire()
    assert partition.acquire((10, 14)) == [(10, 14, 1)]


def test_aborted_transactions_are_told_by_producer_and_marker() -> None:
    batches = [
        FetchedBatch(0, 4, 7, transactional=True),
        FetchedBatch(5, 6, 8, transactional=True),
        FetchedBatch(7, 7, 7, transactional=True, abort_marker=True),
        FetchedBatch(8, 9, 7, transactional=True),
        FetchedBatch(10, 11),
    ]

    assert aborted_batches(batches, [(7, 0)]) == [batches[0]]


def test_an_acquisition_without_aborted_records_has_the_rest_in_ranges() -> None:
    partition = Partition()

    acquired = partition.acquire((0, 4), (5, 6), (7, 9), aborted=[FetchedBatch(5, 6)])

    assert acquired == [(0, 4, 1), (7, 9, 1)]
    assert AcquiredRecords(*acquired[0]).last_offset == 4

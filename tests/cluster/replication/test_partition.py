"""The rules of one partition, on its leader and on followers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.replication.partition import Partition
from kwire.cluster.store.keys import PartitionState
from kwire.log.common.append_info import AppendInfo
from tests.cluster.helpers import FakeLog, log_of, partition_on

ME = 1


def partition_of(
    replicas: tuple[int, ...] = (ME,), isr: tuple[int, ...] | None = None, leader: int = ME, epoch: int = 0
) -> Partition:
    partition = partition_on(ME, FakeLog())
    partition.update(PartitionState(replicas, isr or replicas, leader, epoch, epoch))
    return partition


def append(partition: Partition, acks: int = -1) -> AppendInfo:
    return partition.append(memoryview(b"batch"), required_acks=acks)


def waiter(partition: Partition, offset: int) -> asyncio.Future[None]:
    """A future that ends when the offset is committed, which it is not yet."""
    future = partition.wait_committed(offset)
    assert future is not None
    return future


def flushed(info: AppendInfo) -> asyncio.Future[None]:
    assert info.flushed is not None
    return info.flushed


async def test_with_one_replica_an_append_is_committed_at_once() -> None:
    partition = partition_of()
    info = append(partition)
    assert partition.high_watermark == 1
    assert partition.wait_committed(info.last_offset) is None


async def test_the_leader_epoch_goes_into_the_log() -> None:
    partition = partition_of(epoch=5)
    append(partition)
    assert log_of(partition).leader_epochs == [5, 5]


async def test_acks_all_waits_until_every_in_sync_replica_has_it() -> None:
    partition = partition_of(replicas=(ME, 2, 3))
    info = append(partition)
    waiting = waiter(partition, info.last_offset)
    partition.follower_at(2, 1)
    assert not waiting.done()
    partition.follower_at(3, 1)
    await waiting
    assert partition.high_watermark == 1


async def test_waiters_are_released_in_order_of_their_offsets() -> None:
    partition = partition_of(replicas=(ME, 2))
    assert [append(partition).last_offset for _ in range(4)] == [0, 1, 2, 3]
    futures: dict[int, asyncio.Future[None]] = {}
    released: list[int] = []
    for offset in (2, 0, 3, 1):
        futures[offset] = waiter(partition, offset)
        futures[offset].add_done_callback(lambda _, offset=offset: released.append(offset))  # type: ignore[misc]
    partition.follower_at(2, 3)
    await asyncio.sleep(0)
    assert released == [0, 1, 2]
    assert not futures[3].done()


async def test_a_follower_outside_the_isr_commits_nothing() -> None:
    partition = partition_of(replicas=(ME, 2, 3), isr=(ME, 2))
    append(partition)
    partition.follower_at(3, 1)
    assert partition.high_watermark == 0
    partition.follower_at(2, 1)
    assert partition.high_watermark == 1


async def test_a_smaller_isr_lets_the_high_watermark_advance() -> None:
    partition = partition_of(replicas=(ME, 2))
    waiting = waiter(partition, append(partition).last_offset)
    assert partition.update(PartitionState((ME, 2), (ME,), ME, 0, 1)) is False
    await waiting


async def test_too_few_in_sync_replicas_refuse_acks_all_only() -> None:
    partition = partition_of(replicas=(ME, 2), isr=(ME,))
    partition.set_min_isr(2)
    with pytest.raises(KafkaError) as caught:
        append(partition, acks=-1)
    assert caught.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log_end_offset == 0
    append(partition, acks=1)


async def test_min_insync_replicas_is_at_most_the_number_of_replicas() -> None:
    partition = partition_of()
    partition.set_min_isr(2)
    append(partition, acks=-1)


async def test_a_replica_that_does_not_lead_serves_nothing() -> None:
    partition = partition_of(replicas=(ME, 2), leader=2)
    actions: list[Callable[[], object]] = [
        lambda: append(partition),
        lambda: partition.read(0, 10),
        partition.require_leader,
    ]
    for action in actions:
        with pytest.raises(KafkaError) as caught:
            action()
        assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_losing_leadership_fails_waiting_requests() -> None:
    partition = partition_of(replicas=(ME, 2))
    waiting = waiter(partition, append(partition).last_offset)
    assert partition.update(PartitionState((ME, 2), (ME, 2), 2, 1, 1)) is True
    with pytest.raises(KafkaError) as caught:
        await waiting
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_stale_decision_is_ignored() -> None:
    partition = partition_of(epoch=3)
    assert partition.update(PartitionState((ME, 2), (2,), 2, 2, 2)) is False
    assert partition.leading


@pytest.mark.parametrize(
    ("said", "code"),
    [(-1, None), (4, None), (3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_another_leader_epoch_is_refused_as_fenced_or_unknown(said: int, code: ErrorCode | None) -> None:
    partition = partition_of(epoch=4)
    if code is None:
        partition.require_leader(said)
    else:
        with pytest.raises(KafkaError) as caught:
            partition.require_leader(said)
        assert caught.value.code == code


async def test_listeners_are_called_once_after_the_turn_with_the_appends() -> None:
    partition = partition_of()
    calls: list[int] = []
    callback = lambda: calls.append(partition.high_watermark)  # noqa: E731
    partition.on_change(callback)
    append(partition)
    append(partition)
    assert calls == []
    await asyncio.sleep(0)
    assert calls == [2]
    partition.off_change(callback)
    partition.off_change(callback)
    append(partition)
    await asyncio.sleep(0)
    assert calls == [2]


async def test_a_listener_may_remove_itself_while_it_is_called() -> None:
    partition = partition_of()
    calls: list[int] = []

    def once() -> None:
        calls.append(1)
        partition.off_change(once)

    partition.on_change(once)
    partition.on_change(lambda: calls.append(2))
    append(partition)
    await asyncio.sleep(0)
    assert calls == [1, 2]


async def test_with_flush_messages_nothing_is_committed_before_the_disk_has_it() -> None:
    partition = partition_of()
    log_of(partition).flushes = True
    first, second = append(partition), append(partition)
    waiting = waiter(partition, second.last_offset)
    assert partition.high_watermark == 0
    flushed(first).set_result(None)
    await asyncio.sleep(0)
    assert partition.high_watermark == 1
    flushed(second).set_result(None)
    await waiting
    assert partition.high_watermark == 2


async def test_a_failed_flush_takes_the_partition_offline() -> None:
    partition = partition_of()
    log_of(partition).flushes = True
    info = append(partition)
    waiting = waiter(partition, info.last_offset)
    flushed(info).set_exception(OSError("disk on fire"))
    with pytest.raises(KafkaError) as caught:
        await waiting
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.high_watermark == 0


@pytest.mark.parametrize("action", [append, lambda partition: partition.read(0, 10)])
async def test_a_failed_disk_takes_the_partition_offline_for_good(action: Callable[[Partition], object]) -> None:
    partition = partition_of()
    log_of(partition).failure = OSError("disk on fire")
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            action(partition)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        log_of(partition).failure = None
    partition.update(PartitionState((ME,), (ME,), ME, 1, 1))
    assert not partition.leading


async def test_reading_stops_at_the_high_watermark_or_the_last_stable_offset() -> None:
    partition = partition_of(replicas=(ME, 2))
    for _ in range(5):
        append(partition)
    partition.follower_at(2, 4)
    log_of(partition).last_stable_offset = 2
    assert partition.read(0, 100).size == 4
    assert partition.read(0, 100, committed_only=True).size == 2


async def test_waiting_on_a_partition_that_was_removed_ends_with_an_error() -> None:
    partition = partition_of(replicas=(ME, 2))
    waiting = waiter(partition, append(partition).last_offset)
    partition.remove()
    for future in (waiting, waiter(partition, 9)):
        with pytest.raises(KafkaError) as caught:
            await future
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_follower_lets_consumers_read_what_is_committed() -> None:
    partition = partition_of(replicas=(ME, 2), leader=2)
    log_of(partition).log_end_offset, log_of(partition).high_watermark = 5, 3
    partition.require_replica(0)
    assert partition.read(0, 100, from_follower=True).size == 3
    with pytest.raises(KafkaError) as caught:
        partition.read(0, 100)
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("epoch", "error"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_a_follower_checks_the_leader_epoch_too(epoch: int, error: ErrorCode) -> None:
    partition = partition_of(replicas=(ME, 2), leader=2, epoch=4)
    with pytest.raises(KafkaError) as caught:
        partition.require_replica(epoch)
    assert caught.value.code == error


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (Partition.fence, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Partition.fail, ErrorCode.KAFKA_STORAGE_ERROR),
        (Partition.remove, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_a_replica_that_was_fenced_failed_or_removed_is_not_read(
    end: Callable[[Partition], None], error: ErrorCode
) -> None:
    partition = partition_of(replicas=(ME, 2), leader=2)
    end(partition)
    actions: list[Callable[[], object]] = [
        partition.require_replica,
        lambda: partition.read(0, 100, from_follower=True),
    ]
    for action in actions:
        with pytest.raises(KafkaError) as caught:
            action()
        assert caught.value.code == error


async def test_a_new_leaders_high_watermark_lags_until_it_reaches_the_start_of_its_epoch() -> None:
    partition = partition_of(replicas=(ME, 2), leader=2)
    log_of(partition).log_end_offset, log_of(partition).high_watermark = 5, 3
    partition.update(PartitionState((ME, 2), (ME, 2), ME, 1, 1))
    assert partition.high_watermark_lags
    partition.follower_at(2, 5)
    assert not partition.high_watermark_lags


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_the_leader_epoch_is_checked_before_the_leadership(epoch: int, error: ErrorCode) -> None:
    partition = partition_of(replicas=(ME, 2), leader=2, epoch=4)
    with pytest.raises(KafkaError) as caught:
        partition.require_leader(epoch)
    assert caught.value.code == error

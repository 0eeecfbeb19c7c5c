"""The rules of one partition on its leader."""

from __future__ import annotations

import asyncio

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.replication.partition import Partition
from kwire.cluster.store.keys import PartitionState
from tests.cluster.helpers import FakeLog

ME = 1


def partition_of(replicas=(ME,), isr=None, leader=ME, epoch=0):
    partition = Partition(ME, FakeLog())
    partition.update(PartitionState(replicas, isr or replicas, leader, epoch, epoch))
    return partition


def append(partition, acks=-1):
    return partition.append(memoryview(b"batch"), required_acks=acks)


async def test_alone_what_is_appended_is_committed_at_once():
    partition = partition_of()
    info = append(partition)
    assert partition.high_watermark == 1
    assert partition.wait_committed(info.last_offset) is None


async def test_the_leader_epoch_goes_into_the_log():
    partition = partition_of(epoch=5)
    append(partition)
    assert partition.log.epochs == [5, 5]


async def test_acks_all_waits_until_every_in_sync_replica_has_it():
    partition = partition_of(replicas=(ME, 2, 3))
    info = append(partition)
    waiting = partition.wait_committed(info.last_offset)
    partition.follower_at(2, 1)
    assert not waiting.done()
    partition.follower_at(3, 1)
    await waiting
    assert partition.high_watermark == 1


async def test_waiters_are_released_in_order_of_their_offsets():
    partition = partition_of(replicas=(ME, 2))
    futures = dict.fromkeys(append(partition).last_offset for _ in range(4))
    released = []
    for offset in (2, 0, 3, 1):
        futures[offset] = partition.wait_committed(offset)
        futures[offset].add_done_callback(lambda _, offset=offset: released.append(offset))
    partition.follower_at(2, 3)
    await asyncio.sleep(0)
    assert released == [0, 1, 2]
    assert not futures[3].done()


async def test_a_follower_outside_the_isr_commits_nothing():
    partition = partition_of(replicas=(ME, 2, 3), isr=(ME, 2))
    append(partition)
    partition.follower_at(3, 1)
    assert partition.high_watermark == 0
    partition.follower_at(2, 1)
    assert partition.high_watermark == 1


async def test_a_smaller_isr_lets_the_high_watermark_move():
    partition = partition_of(replicas=(ME, 2))
    waiting = partition.wait_committed(append(partition).last_offset)
    assert partition.update(PartitionState((ME, 2), (ME,), ME, 0, 1)) is False
    await waiting


async def test_too_few_in_sync_replicas_refuse_acks_all_only():
    partition = partition_of(replicas=(ME, 2), isr=(ME,))
    partition.set_min_isr(2)
    with pytest.raises(KafkaError) as caught:
        append(partition, acks=-1)
    assert caught.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log_end_offset == 0
    append(partition, acks=1)


async def test_min_insync_replicas_never_asks_for_more_than_there_are():
    partition = partition_of()
    partition.set_min_isr(2)
    append(partition, acks=-1)


async def test_a_replica_that_does_not_lead_serves_nothing():
    partition = partition_of(replicas=(ME, 2), leader=2)
    for action in (lambda: append(partition), lambda: partition.read(0, 10), partition.require_leader):
        with pytest.raises(KafkaError) as caught:
            action()
        assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_losing_leadership_fails_those_who_wait():
    partition = partition_of(replicas=(ME, 2))
    waiting = partition.wait_committed(append(partition).last_offset)
    assert partition.update(PartitionState((ME, 2), (ME, 2), 2, 1, 1)) is True
    with pytest.raises(KafkaError) as caught:
        await waiting
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_stale_decision_is_ignored():
    partition = partition_of(epoch=3)
    assert partition.update(PartitionState((ME, 2), (2,), 2, 2, 2)) is False
    assert partition.leading


@pytest.mark.parametrize(
    ("said", "code"),
    [(-1, None), (4, None), (3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_a_client_with_another_leader_epoch_is_told_who_is_behind(said, code):
    partition = partition_of(epoch=4)
    if code is None:
        partition.require_leader(said)
    else:
        with pytest.raises(KafkaError) as caught:
            partition.require_leader(said)
        assert caught.value.code == code


async def test_listeners_hear_of_appends_once_per_turn_and_after_it():
    partition = partition_of()
    heard = []
    callback = lambda: heard.append(partition.high_watermark)  # noqa: E731
    partition.on_change(callback)
    append(partition)
    append(partition)
    assert heard == []
    await asyncio.sleep(0)
    assert heard == [2]
    partition.off_change(callback)
    partition.off_change(callback)
    append(partition)
    await asyncio.sleep(0)
    assert heard == [2]


async def test_a_listener_may_take_itself_off_while_it_is_called():
    partition = partition_of()
    heard = []

    def once():
        heard.append(1)
        partition.off_change(once)

    partition.on_change(once)
    partition.on_change(lambda: heard.append(2))
    append(partition)
    await asyncio.sleep(0)
    assert heard == [1, 2]


async def test_with_flush_messages_nothing_is_committed_before_the_disk_has_it():
    partition = partition_of()
    partition.log.flushes = True
    first, second = append(partition), append(partition)
    waiting = partition.wait_committed(second.last_offset)
    assert partition.high_watermark == 0
    first.flushed.set_result(None)
    await asyncio.sleep(0)
    assert partition.high_watermark == 1
    second.flushed.set_result(None)
    await waiting
    assert partition.high_watermark == 2


async def test_a_failed_flush_takes_the_partition_offline():
    partition = partition_of()
    partition.log.flushes = True
    info = append(partition)
    waiting = partition.wait_committed(info.last_offset)
    info.flushed.set_exception(OSError("disk on fire"))
    with pytest.raises(KafkaError) as caught:
        await waiting
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.high_watermark == 0


@pytest.mark.parametrize("action", [append, lambda partition: partition.read(0, 10)])
async def test_a_broken_disk_takes_the_partition_offline_for_good(action):
    partition = partition_of()
    partition.log.failure = OSError("disk on fire")
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            action(partition)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        partition.log.failure = None
    partition.update(PartitionState((ME,), (ME,), ME, 1, 1))
    assert not partition.leading


async def test_reading_stops_at_the_high_watermark_or_the_last_stable_offset():
    partition = partition_of(replicas=(ME, 2))
    for _ in range(5):
        append(partition)
    partition.follower_at(2, 4)
    partition.log.last_stable_offset = 2
    assert partition.read(0, 100).size == 4
    assert partition.read(0, 100, committed_only=True).size == 2


async def test_waiting_on_a_partition_that_was_removed_ends_with_an_error():
    partition = partition_of(replicas=(ME, 2))
    waiting = partition.wait_committed(append(partition).last_offset)
    partition.remove()
    for future in (waiting, partition.wait_committed(9)):
        with pytest.raises(KafkaError) as caught:
            await future
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_follower_lets_consumers_read_what_is_committed():
    partition = partition_of(replicas=(ME, 2), leader=2)
    partition.log.log_end_offset, partition.log.high_watermark = 5, 3
    partition.require_replica(0)
    assert partition.read(0, 100, from_follower=True).size == 3
    with pytest.raises(KafkaError) as caught:
        partition.read(0, 100)
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("epoch", "error"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_a_follower_knows_the_epoch_as_well(epoch, error):
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
async def test_a_replica_that_is_over_is_not_read(end, error):
    partition = partition_of(replicas=(ME, 2), leader=2)
    end(partition)
    for action in (partition.require_replica, lambda: partition.read(0, 100, from_follower=True)):
        with pytest.raises(KafkaError) as caught:
            action()
        assert caught.value.code == error


async def test_a_new_leader_knows_the_high_watermark_when_it_has_passed_what_it_began_with():
    partition = partition_of(replicas=(ME, 2), leader=2)
    partition.log.log_end_offset, partition.log.high_watermark = 5, 3
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
async def test_another_epoch_is_told_before_another_leader(epoch, error):
    partition = partition_of(replicas=(ME, 2), leader=2, epoch=4)
    with pytest.raises(KafkaError) as caught:
        partition.require_leader(epoch)
    assert caught.value.code == error

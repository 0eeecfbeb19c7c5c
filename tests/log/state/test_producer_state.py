"""Idempotent producers and transactions: what is a duplicate, what is out of order, what survives a restart."""

from __future__ import annotations

from pathlib import Path

import crcmod.predefined
import pytest

from kwire.base.errors import KafkaError
from kwire.codec.records import ABORT, COMMIT, build_control_batch
from kwire.log.common.append_info import AbortedTransaction, AppendInfo, Origin
from kwire.log.common.log_config import LogConfig
from kwire.log.partition.partition_log import PartitionLog
from kwire.log.state.producer_snapshot import CorruptSnapshot, SnapshotEntry, decode_snapshot, encode_snapshot
from tests.log.log_tools import NOW_MS, ManualClock, batch, fails, open_log


def produce(
    log: PartitionLog, sequence: int, count: int = 1, *, pid: int = 7, epoch: int = 0, **how: object
) -> AppendInfo:
    data = batch(count, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, **how)  # type: ignore[arg-type]
    info = log.append_as_leader(memoryview(data), leader_epoch=0)
    log.advance_high_watermark(log.log_end_offset)
    return info


def end_transaction(log: PartitionLog, kind: int, *, pid: int = 7, epoch: int = 0, coordinator_epoch: int = 0) -> None:
    marker = build_control_batch(
        kind, producer_id=pid, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=NOW_MS
    )
    log.append_as_leader(marker, leader_epoch=0, origin=Origin.COORDINATOR)


def test_the_last_five_batches_are_duplicates_with_their_first_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for i in range(7):
        produce(log, 2 * i, 2)
    for i in range(2, 7):
        again = produce(log, 2 * i, 2)
        assert (again.duplicate, again.first_offset, again.last_offset) == (True, 2 * i, 2 * i + 1)
        assert again.log_append_time_ms == NOW_MS + 1
    assert fails(lambda: produce(log, 2, 2)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert log.log_end_offset == 14


def test_sequences_must_follow_each_other(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 0, 3)
    assert fails(lambda: produce(log, 4)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert fails(lambda: produce(log, 1, 2)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert produce(log, 3).first_offset == 3


def test_an_unknown_producer_may_begin_with_any_sequence(tmp_path: Path) -> None:
    assert produce(open_log(tmp_path), 1234, 2).first_offset == 0


def test_a_new_epoch_begins_with_sequence_zero_and_fences_the_old(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 0, 3)
    assert fails(lambda: produce(log, 3, epoch=1)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    produce(log, 0, epoch=1)
    assert fails(lambda: produce(log, 3, epoch=0)) == "INVALID_PRODUCER_EPOCH"
    assert fails(lambda: produce(log, 0, 3, epoch=0)) == "INVALID_PRODUCER_EPOCH"


def test_sequences_wrap_to_zero(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 2**31 - 2, 3)  # 2^31 - 2, 2^31 - 1, 0
    assert produce(log, 2**31 - 2, 3).duplicate
    assert produce(log, 1).first_offset == 3
    produce(log, 2**31 - 1, pid=8)
    assert produce(log, 0, pid=8).first_offset == 5


def test_a_failed_append_does_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(max_message_bytes=150))
    produce(log, 0)
    assert fails(lambda: produce(log, 1, size=500)) == "MESSAGE_TOO_LARGE"
    assert produce(log, 1).first_offset == 1


@pytest.mark.parametrize("clean", [True, False])
def test_duplicates_are_known_after_a_restart(tmp_path: Path, clean: bool) -> None:
    config = LogConfig(internal_segment_bytes=400)
    log = open_log(tmp_path, config)
    for i in range(20):
        produce(log, 2 * i, 2)
    assert len(log.segments) > 3
    log.close() if clean else log.release()
    again = open_log(tmp_path, config, clean=clean, recovery_point=40 if clean else 0)
    assert produce(again, 38, 2).duplicate
    assert fails(lambda: produce(again, 41)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert produce(again, 40).first_offset == 40


def test_a_damaged_snapshot_gives_way_to_an_older_one_and_a_replay(tmp_path: Path) -> None:
    config = LogConfig(internal_segment_bytes=400)
    log = open_log(tmp_path, config)
    for i in range(20):
        produce(log, i // 3, pid=100 + i % 3)
        produce(log, i, pid=200)
    expected = {pid: entry.last_sequence for pid, entry in log.producer_state.producers.items()}
    log.close()
    newest = sorted(tmp_path.glob("t-0/*.snapshot"))
    assert len(newest) > 3
    for path in newest[-2:]:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    again = open_log(tmp_path, config, recovery_point=40)
    assert {pid: entry.last_sequence for pid, entry in again.producer_state.producers.items()} == expected


def test_truncation_moves_producers_back(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=400))
    for i in range(20):
        produce(log, i)
    log.truncate_to(11)
    assert log.producer_state.producers[7].last_sequence == 10
    assert produce(log, 11).first_offset == 11


def test_silent_producers_expire_unless_a_transaction_is_open(tmp_path: Path) -> None:
    clock = ManualClock()
    log = open_log(tmp_path, clock=clock)
    log.producer_state.expiration_ms = 1000
    produce(log, 0, pid=1)
    produce(log, 0, pid=2, is_transactional=True)
    log.producer_state.remove_expired(NOW_MS + 999)
    assert set(log.producer_state.producers) == {1, 2}
    log.producer_state.remove_expired(NOW_MS + 1000)
    assert set(log.producer_state.producers) == {2}


def test_an_open_transaction_limits_the_last_stable_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 0, pid=1)
    produce(log, 0, pid=7, is_transactional=True)
    produce(log, 0, pid=8, is_transactional=True)
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    end_transaction(log, COMMIT, pid=7)
    assert log.last_stable_offset == 1  # the marker is not committed yet
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 2
    end_transaction(log, ABORT, pid=8)
    log.advance_high_watermark(5)
    assert log.last_stable_offset == 5


@pytest.mark.parametrize("clean", [True, False])
def test_aborted_transactions_are_found_also_after_a_restart(tmp_path: Path, clean: bool) -> None:
    config = LogConfig(internal_segment_bytes=300)
    log = open_log(tmp_path, config)
    expected = []
    for i in range(8):
        first = produce(log, 2 * i, 2, is_transactional=True).first_offset
        end_transaction(log, ABORT if i % 2 else COMMIT)
        log.advance_high_watermark(log.log_end_offset)
        if i % 2:
            expected.append(AbortedTransaction(7, first, first + 2, first + 3))
    assert log.aborted_transactions(0, 100) == expected
    log.close() if clean else log.release()
    again = open_log(tmp_path, config, clean=clean, recovery_point=24 if clean else 0, high_watermark=24)
    assert again.aborted_transactions(0, 100) == expected
    assert again.aborted_transactions(expected[1].first_offset + 1, expected[2].first_offset) == [expected[1]]
    assert again.last_stable_offset == 24


def test_markers_of_old_coordinators_and_producers_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 0, epoch=3, is_transactional=True)
    with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
        end_transaction(log, COMMIT, epoch=2)
    end_transaction(log, COMMIT, epoch=3, coordinator_epoch=5)
    with pytest.raises(KafkaError, match="TRANSACTION_COORDINATOR_FENCED"):
        end_transaction(log, COMMIT, epoch=3, coordinator_epoch=4)


def test_a_plain_write_during_the_producers_transaction_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    produce(log, 0, is_transactional=True)
    assert fails(lambda: produce(log, 1)) == "INVALID_TXN_STATE"


def test_snapshots_have_kafkas_bytes() -> None:
    entry = SnapshotEntry(0x0102030405060708, 9, 10, 11, 12, 13, 14, -1)
    data = encode_snapshot([entry])
    body = (
        bytes.fromhex("00000001010203040506070800090000000a000000000000000b0000000c000000000000000d0000000e")
        + b"\xff" * 8
    )
    crc = crcmod.predefined.mkCrcFun("crc-32c")(body)
    assert data == b"\x00\x01" + crc.to_bytes(4, "big") + body
    assert decode_snapshot(data) == [entry]


def test_damaged_snapshots_are_recognised() -> None:
    data = encode_snapshot([SnapshotEntry(1, 2, 3, 4, 5, 6, 7, 8)] * 2)
    for damaged in (data[:-1], data[:5], b"", b"\0\2" + data[2:], data + b"\0", data[:20] + b"\x55" + data[21:]):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(damaged)

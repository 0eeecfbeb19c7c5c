"""Which batches of clients are refused, with which code: the table has the responses of Apache Kafka 4.3.1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import KafkaError
from kwire.codec.records import COMMIT, Record, build_batch, build_control_batch, iter_records
from kwire.log.common.append_info import RecordsRefused
from kwire.log.common.log_config import LogConfig
from tests.log.log_tools import NOW_MS, batch, content, fails, headers, open_log, patched

DAY = 86_400_000


def mixed_times(*times: int, compression: int = 0) -> bytearray:
    return bytearray(build_batch([Record(timestamp=t, key=b"k", value=b"v") for t in times], compression=compression))


HEADER_CASES = {
    "empty": (b"", "INVALID_RECORD"),
    "ten zeroes": (bytes(10), "INVALID_RECORD"),
    "cut off": (batch(3)[:-1], "INVALID_RECORD"),
    "trailing rest of a batch": (batch(3) + bytes(5), "NONE"),
    "trailing zeroes": (batch(3) + bytes(30), "CORRUPT_MESSAGE"),
    "two batches": (batch(3) + batch(3), "INVALID_RECORD"),
    "second batch cut off": (batch(3) + batch(3)[:-2], "NONE"),
    "base offset": (patched(batch(3), ">q", 0, 5), "INVALID_RECORD"),
    "checksum": (patched(batch(3), ">I", 17, 123, reseal=False), "CORRUPT_MESSAGE"),
    "magic 0": (patched(batch(3), ">b", 16, 0, reseal=False), "INVALID_RECORD"),
    "magic 1": (patched(batch(3), ">b", 16, 1, reseal=False), "INVALID_RECORD"),
    "magic 3": (patched(batch(3), ">b", 16, 3, reseal=False), "CORRUPT_MESSAGE"),
    "length 5": (patched(batch(3), ">i", 8, 5, reseal=False), "CORRUPT_MESSAGE"),
    "length 20": (patched(batch(3), ">i", 8, 20, reseal=False), "CORRUPT_MESSAGE"),
    "negative length": (patched(batch(3), ">i", 8, -3, reseal=False), "CORRUPT_MESSAGE"),
    "more records than offsets": (patched(batch(3), ">i", 57, 4), "INVALID_RECORD"),
    "no records": (patched(batch(3), ">i", 57, 0), "INVALID_RECORD"),
    "negative count": (patched(batch(3), ">i", 57, -1), "INVALID_RECORD"),
    "more offsets than records": (patched(batch(3), ">i", 23, 7), "INVALID_RECORD"),
    "negative offset delta": (patched(batch(3), ">i", 23, -2), "INVALID_RECORD"),
    "control batch": (patched(batch(3), ">h", 21, 0x20), "INVALID_RECORD"),
    "producer without sequence": (batch(3, producer_id=7, producer_epoch=0, base_sequence=-1), "INVALID_RECORD"),
    "producer with negative sequence": (batch(3, producer_id=7, producer_epoch=0, base_sequence=-5), "INVALID_RECORD"),
    "producer without epoch": (batch(3, producer_id=7, producer_epoch=-1, base_sequence=0), "NONE"),
    "sequence without producer": (batch(3, producer_id=-1, producer_epoch=3, base_sequence=9), "NONE"),
    "too large": (batch(1, size=1_100_000), "MESSAGE_TOO_LARGE"),
    "too large with a wrong checksum": (
        patched(batch(1, size=1_100_000), ">I", 17, 1, reseal=False),
        "MESSAGE_TOO_LARGE",
    ),
    "no timestamps": (batch(3, timestamp=-1), "NONE"),
    "ancient": (batch(3, timestamp=0), "NONE"),
    "from the future": (batch(3, timestamp=NOW_MS + 2 * DAY), "INVALID_TIMESTAMP"),
    "keyless": (batch(3, key=None), "NONE"),
    **{f"compression {codec}": (batch(3, compression=codec), "NONE") for codec in range(5)},
}


@pytest.mark.parametrize("walk", [False, True])
@pytest.mark.parametrize("case", HEADER_CASES)
def test_batches_are_validated_as_in_kafka(tmp_path: Path, case: str, walk: bool) -> None:
    log = open_log(tmp_path, LogConfig(validate_records=walk))
    data, expected = HEADER_CASES[case]
    assert fails(lambda: log.append_as_leader(bytearray(data), leader_epoch=0)) == expected
    assert log.log_end_offset == (0 if expected != "NONE" else 3)


@pytest.mark.parametrize("count", [2, 5])
def test_a_wrong_count_is_found_when_records_are_walked(tmp_path: Path, count: int) -> None:
    lying = patched(patched(batch(3), ">i", 57, count), ">i", 23, count - 1)
    log = open_log(tmp_path, LogConfig(validate_records=True))
    assert fails(lambda: log.append_as_leader(lying, leader_epoch=0)) == "INVALID_RECORD"


def test_clients_may_not_end_transactions(tmp_path: Path) -> None:
    marker = build_control_batch(COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS)
    assert fails(lambda: open_log(tmp_path).append_as_leader(marker, leader_epoch=0)) == "INVALID_RECORD"


@pytest.mark.parametrize("compression", [0, 1])
def test_single_records_with_wrong_timestamps_are_named(tmp_path: Path, compression: int) -> None:
    log = open_log(tmp_path, LogConfig(message_timestamp_before_max_ms=DAY))
    data = mixed_times(NOW_MS, NOW_MS + 2 * DAY, NOW_MS - 2 * DAY, -1, compression=compression)
    with pytest.raises(RecordsRefused) as caught:
        log.append_as_leader(data, leader_epoch=0)
    assert caught.value.code.name == "INVALID_TIMESTAMP"
    assert caught.value.message == "One or more records have been rejected due to invalid timestamp"
    assert [error.batch_index for error in caught.value.record_errors] == [1, 2]
    assert (caught.value.record_errors[0].message or "").startswith(
        f"Timestamp {NOW_MS + 2 * DAY} of message with offset 1 is out of range. The timestamp should be within ["
    )


@pytest.mark.parametrize("max_timestamp", [NOW_MS + 2 * DAY, 5])
def test_a_wrong_maximum_timestamp_in_the_header_is_corrected(tmp_path: Path, max_timestamp: int) -> None:
    log = open_log(tmp_path, LogConfig(validate_records=True))
    log.append_as_leader(patched(batch(3), ">q", 35, max_timestamp), leader_epoch=0)
    assert headers(log.read(0, 1000, upto=3))[0].max_timestamp == NOW_MS + 2


def test_a_client_cannot_set_log_append_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(patched(batch(3), ">h", 21, 8), leader_epoch=0)
    assert headers(log.read(0, 1000, upto=3))[0].timestamp_type == 0
    stamping = open_log(tmp_path / "b", LogConfig(message_timestamp_type="LogAppendTime", validate_records=True))
    assert (
        fails(lambda: stamping.append_as_leader(patched(batch(3), ">h", 21, 8), leader_epoch=0)) == "INVALID_TIMESTAMP"
    )


def test_keyless_records_on_a_compacted_topic_are_named(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(cleanup_policy=("compact", "delete")))
    data = bytearray(build_batch([Record(timestamp=NOW_MS, key=key, value=b"v") for key in (b"a", None, b"c", None)]))
    with pytest.raises(RecordsRefused) as caught:
        log.append_as_leader(data, leader_epoch=0)
    assert caught.value.code.name == "INVALID_RECORD"
    assert [error.batch_index for error in caught.value.record_errors] == [1, 3]
    assert fails(lambda: log.append_as_leader(batch(3), leader_epoch=0)) == "NONE"


def test_log_append_time_is_stamped_on_all_records(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(message_timestamp_type="LogAppendTime"))
    info = log.append_as_leader(batch(3, timestamp=5), leader_epoch=0)
    assert info.log_append_time_ms == info.max_timestamp_ms == NOW_MS
    stored = content(log.read(0, 1000, upto=3))
    assert [record.timestamp for record in iter_records(stored, max_bytes=1000)] == [NOW_MS] * 3
    log.release()
    assert open_log(tmp_path, clean=False).log_end_offset == 3  # its checksum is right


@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", [0, 1, 4])
def test_batches_get_the_topics_compression(tmp_path: Path, target: str, source: int) -> None:
    log = open_log(tmp_path, LogConfig.from_values({"compression.type": target}))
    how: dict[str, Any] = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 0}
    original = batch(4, compression=source, **how)
    sent = list(iter_records(original, max_bytes=1000))
    log.append_as_leader(original, leader_epoch=2)
    stored = content(log.read(0, 10_000, upto=4))
    (header,) = headers(log.read(0, 10_000, upto=4))
    assert header.compression == ["uncompressed", "gzip", "snappy", "lz4", "zstd"].index(target)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 0)
    assert list(iter_records(stored, max_bytes=1000)) == sent
    assert log.append_as_leader(batch(4, compression=source, **how), leader_epoch=2).duplicate


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=100))
    with pytest.raises(KafkaError, match="RECORD_LIST_TOO_LARGE"):
        log.append_as_leader(batch(1, size=100), leader_epoch=0)

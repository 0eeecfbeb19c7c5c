"""All logs together: start and stop, checkpoints, locks, deletion, adoption, flushing."""

from __future__ import annotations

import asyncio
import gc
import os
import weakref
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.waiting import until
from kwire.base.doors import Clock, Doors, Files
from kwire.base.errors import KafkaError
from kwire.base.futures import STEP_S
from kwire.base.uuids import uuid_to_text
from kwire.log.common import names
from kwire.log.common.append_info import Origin
from kwire.log.common.checkpoints import CorruptCheckpoint, read_offsets, write_offsets
from kwire.log.common.log_config import LogConfig
from kwire.log.common.log_dirs import LogDirectoryError, read_meta_properties
from kwire.log.manager import log_manager, upkeep
from kwire.log.manager.adopt import inspect_data_directory
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.settings import ManagerSettings
from kwire.log.partition.partition_log import PartitionLog
from kwire.log.verification import verifier as trust
from tests.log.log_tools import NOW_MS, TOPIC_ID, append, batch, fails, read_all

CONFIG = LogConfig(internal_segment_bytes=1000, file_delete_delay_ms=0, retention_ms=-1)


def manager(
    *paths: Path, config: LogConfig = CONFIG, settings: ManagerSettings | None = None, **how: object
) -> LogManager:
    directories = [str(path) for path in paths]
    return LogManager(Doors(), directories, lambda _topic: config, settings or ManagerSettings(), **how)  # type: ignore[arg-type]


async def started(*paths: Path, **how: object) -> LogManager:
    logs = manager(*paths, **how)  # type: ignore[arg-type]
    logs.lock("cluster", 1)
    await logs.load_all()
    logs.start()
    return logs


def with_sealed_segments(logs: LogManager) -> PartitionLog:
    """The log `t-0`, with several segments."""
    log = logs.create("t", 0, TOPIC_ID)
    for _ in range(30):
        append(log, 2)
    assert len(log.segments) > 2
    return log


async def test_a_directory_without_the_marker_was_not_shut_down_cleanly_even_if_it_is_empty(tmp_path: Path) -> None:
    logs = await started(tmp_path)
    assert not logs.stopped_clean, "it may have lost everything"
    await logs.close()
    again = await started(tmp_path)
    assert again.stopped_clean
    await again.close()
    with_another = await started(tmp_path, tmp_path / "another")
    assert not with_another.stopped_clean, "as in Apache Kafka"
    await with_another.close()


def folders(path: Path) -> list[str]:
    return [each.name for each in path.iterdir() if each.is_dir()]


async def test_logs_come_back_with_their_offsets_after_a_clean_stop(tmp_path: Path) -> None:
    logs = await started(tmp_path)
    for partition in range(3):
        log = logs.create("topic-with-dash", partition, TOPIC_ID)
        for _ in range(10 * partition):
            append(log, 2)
    logs.create("topic-with-dash", 2, TOPIC_ID).delete_records_before(21)
    await logs.close()
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert (tmp_path / "t-0").exists() is False
    seen: list[tuple[int, int, int]] = []
    again = manager(tmp_path)
    again.lock("cluster", 1)
    await again.load_all(lambda *step: seen.append(step))
    assert seen == [(1, 3, 0), (2, 3, 0), (3, 3, 0)]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    offsets = [(log.partition, log.log_start_offset, log.high_watermark, log.log_end_offset) for log in again]
    assert offsets == [(0, 0, 0, 0), (1, 0, 20, 20), (2, 21, 40, 40)]
    assert all(log.topic_id == TOPIC_ID and log.topic == "topic-with-dash" for log in again)
    await again.close()


async def test_after_a_kill_the_tail_is_scanned_and_kept(tmp_path: Path) -> None:
    logs = await started(tmp_path)
    with_sealed_segments(logs)
    logs.env.cache.close_all()
    logs.unlock()
    seen: list[int] = []
    again = manager(tmp_path)
    again.lock("cluster", 1)
    await again.load_all(lambda _done, _total, scanned: seen.append(scanned))
    found = again.get("t", 0)
    assert found is not None
    assert read_all(found) == [(2 * i, 2 * i + 1) for i in range(30)]
    assert seen == [found.size]
    await again.close()
    await logs.close()


@pytest.mark.parametrize("blocking", [False, True])
async def test_more_segments_than_may_be_open_are_synced_at_a_stop(tmp_path: Path, blocking: bool) -> None:
    logs = await started(tmp_path)
    for partition in range(3):
        log = logs.create("t", partition, TOPIC_ID)
        for _ in range(100):
            append(log, 2)
        assert len(log.segments) >= 10
    logs.env.cache.close_all()
    logs.unlock()
    again = manager(tmp_path, settings=ManagerSettings(file_budget=2))
    again.lock("cluster", 1)
    await again.load_all()  # after a kill: all of it is to be synced
    if blocking:
        for log in again:
            log.close()
    await again.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert all(log.recovery_point == 200 for log in again)
    await logs.close()


async def test_a_directory_belongs_to_one_process_and_one_cluster(tmp_path: Path) -> None:
    first, second = manager(tmp_path), manager(tmp_path)
    first.lock("cluster", 1)
    with pytest.raises(LogDirectoryError, match="another process uses the data directory"):
        second.lock("cluster", 1)
    first.unlock()
    with pytest.raises(LogDirectoryError, match="belongs to cluster cluster, not to other"):
        second.lock("other", 1)
    with pytest.raises(LogDirectoryError, match=r"belongs to node 1, but node\.id is 2"):
        second.lock("cluster", 2)
    second.lock("cluster", 1)
    second.unlock()
    meta = read_meta_properties(Files(), str(tmp_path))
    assert meta is not None
    assert (meta.cluster_id, meta.node_id, meta.version) == ("cluster", 1, 1)
    assert meta.directory_id == first.directories[0].directory_id == second.directories[0].directory_id


async def test_a_deleted_topic_is_renamed_first_and_removed_later(tmp_path: Path) -> None:
    logs = await started(tmp_path, config=LogConfig(file_delete_delay_ms=50))
    append(logs.create("t", 0, TOPIC_ID), 3)
    await logs.delete("t", 0)
    await logs.delete("t", 0)
    assert logs.get("t", 0) is None
    (leaving,) = folders(tmp_path)
    assert names.is_leaving_directory(leaving)
    assert leaving.startswith("t-0.")
    await asyncio.sleep(0)
    assert "t 0" not in (tmp_path / "replication-offset-checkpoint").read_text()
    again = logs.create("t", 0, b"another topic id")
    assert again.log_end_offset == 0
    await until(lambda: not (tmp_path / leaving).exists())
    assert fails(lambda: logs.create("t", 0, TOPIC_ID)) == "INCONSISTENT_TOPIC_ID"
    await logs.close()


async def test_a_segment_that_retention_drops_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    logs = await started(tmp_path)
    log = with_sealed_segments(logs)
    log.high_watermark = log.log_end_offset
    log.delete_records_before(log.log_end_offset)
    first = weakref.ref(log.segments[0])
    gc.disable()
    try:
        assert log.delete_old_segments() > 0
        await until(lambda: first() is None)
    finally:
        gc.enable()
        await logs.close()


async def test_a_deleted_log_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    """With what it has, such as sealed segments and a flusher."""
    logs = await started(tmp_path)
    log = with_sealed_segments(logs)
    assert len(log.segments) > 1
    synced = log.flush()
    assert synced is not None
    await synced
    parts = [weakref.ref(each) for each in (log, log.flusher, *log.segments)]
    del log, synced
    gc.disable()
    try:
        await logs.delete("t", 0)
        await until(lambda: not any(part() for part in parts))
    finally:
        gc.enable()
        await logs.close()


async def test_directories_of_deleted_topics_are_removed_at_the_next_start(tmp_path: Path) -> None:
    logs = await started(tmp_path, config=LogConfig(file_delete_delay_ms=60_000))
    logs.create("t", 0, TOPIC_ID)
    await logs.delete("t", 0)
    await logs.close()
    again = await started(tmp_path)
    assert len(again) == 0
    await until(lambda: not folders(tmp_path))
    await again.close()


async def test_new_partitions_go_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    logs = await started(tmp_path / "a", tmp_path / "b")
    for partition in range(4):
        logs.create("t", partition, TOPIC_ID)
    assert len(list((tmp_path / "a").glob("t-*"))) == len(list((tmp_path / "b").glob("t-*"))) == 2
    await logs.close()


async def test_cordoned_directories_get_no_new_partitions_while_there_are_others(tmp_path: Path) -> None:
    logs = await started(tmp_path / "a", tmp_path / "b")
    logs.cordon([str(tmp_path / "a")])
    for partition in range(4):
        logs.create("t", partition, TOPIC_ID)
    assert len(list((tmp_path / "b").glob("t-*"))) == 4
    logs.cordon(["*"])
    logs.create("assigned-by-hand", 0, TOPIC_ID)
    assert list((tmp_path / "a").glob("assigned-by-hand-0"))
    await logs.close()


async def test_checkpoints_are_written_while_running_and_only_when_they_change(tmp_path: Path) -> None:
    logs = await started(tmp_path, settings=ManagerSettings(high_watermark_interval_ms=20))
    log = logs.create("t", 0, TOPIC_ID)
    append(log, 5)
    path = tmp_path / "replication-offset-checkpoint"
    await until(lambda: path.exists() and path.read_text() == "0\n1\nt 0 5\n")
    before = path.stat().st_mtime_ns
    await asyncio.sleep(0.06)
    assert path.stat().st_mtime_ns == before
    append(log, 1)
    await until(lambda: path.read_text() == "0\n1\nt 0 6\n")
    await logs.close()


async def test_sealed_segments_are_synced_and_the_recovery_point_follows(tmp_path: Path) -> None:
    logs = await started(tmp_path)
    log = with_sealed_segments(logs)
    assert len(log.segments) > 2
    await until(lambda: log.recovery_point == log.active.base_offset)
    synced = logs.env.flush_us.count
    assert synced >= 1
    await logs.close()
    assert log.recovery_point == 60
    assert logs.env.flush_us.count > synced


async def test_an_append_that_must_be_flushed_has_a_future_for_that(tmp_path: Path) -> None:
    logs = await started(tmp_path, config=LogConfig(flush_messages=3))
    log = logs.create("t", 0, TOPIC_ID)
    assert log.append_as_leader(batch(2), leader_epoch=0).flushed is None
    first = log.append_as_leader(batch(2), leader_epoch=0)
    second = log.append_as_leader(batch(4), leader_epoch=0)
    assert first.flushed is not None
    assert second.flushed is not None
    await first.flushed
    assert log.recovery_point >= 4
    await second.flushed
    assert log.recovery_point == 8
    await logs.close()


@pytest.mark.parametrize("origin", [Origin.CLIENT, Origin.COORDINATOR])
async def test_appends_of_coordinators_wait_for_the_disk_like_those_of_clients(tmp_path: Path, origin: Origin) -> None:
    logs = await started(tmp_path, config=LogConfig(flush_messages=1))
    log = logs.create("t", 0, TOPIC_ID)
    info = log.append_as_leader(batch(2), leader_epoch=0, origin=origin)
    assert info.flushed is not None
    await info.flushed
    assert log.recovery_point == 2
    await logs.close()


async def test_flush_ms_syncs_by_itself(tmp_path: Path) -> None:
    logs = await started(
        tmp_path, config=LogConfig(flush_ms=1), settings=ManagerSettings(flush_scheduler_interval_ms=10)
    )
    log = logs.create("t", 0, TOPIC_ID)
    append(log, 3)
    await until(lambda: log.recovery_point == 3)
    await logs.close()


async def test_flush_ms_of_a_topic_is_found_among_many_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "SETTINGS_PER_STEP", 2)
    logs = await started(tmp_path)
    several = [logs.create("t", partition, TOPIC_ID) for partition in range(5)]
    for log in several:
        append(log, 3)
    several[4].config = LogConfig(flush_ms=0)
    steps = upkeep.flush(logs._logs.values(), logs.env.doors.clock)
    assert [None for _ in steps] == [None] * 3
    await until(lambda: several[4].recovery_point == 3)
    assert [log.recovery_point for log in several] == [0, 0, 0, 0, 3]
    await logs.close()


async def test_a_failing_sync_takes_the_directory_offline(tmp_path: Path) -> None:
    failures: list[str] = []

    class BadDisk(Files):
        def fsync(self, fd: int) -> None:
            raise OSError(28, "No space left on device")  # not transient, since it is a sync that fails

    logs = LogManager(
        Doors(files=BadDisk()),
        [str(tmp_path)],
        lambda _topic: LogConfig(flush_messages=1),
        ManagerSettings(),
        on_directory_failure=lambda directory, _error: failures.append(directory.path),
    )
    log = logs.create("t", 0, TOPIC_ID)
    info = log.append_as_leader(batch(1), leader_epoch=0)
    assert info.flushed is not None
    with pytest.raises(KafkaError, match="No space left"):
        await info.flushed
    await until(lambda: failures)
    assert failures == [str(tmp_path)]
    assert (log.log_end_offset, log.recovery_point, log.closed) == (1, 0, True)
    assert fails(lambda: logs.create("t", 1, TOPIC_ID)) == "KAFKA_STORAGE_ERROR"
    logs.env.cache.close_all()


async def test_retention_runs_on_its_own(tmp_path: Path) -> None:
    logs = await started(
        tmp_path,
        config=LogConfig(internal_segment_bytes=1000, retention_bytes=0, retention_ms=-1, file_delete_delay_ms=0),
        settings=ManagerSettings(retention_check_interval_ms=10),
    )
    log = with_sealed_segments(logs)
    await until(lambda: log.log_start_offset > 0)
    await logs.close()


async def test_no_file_or_timer_is_left_after_close(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    logs = await started(tmp_path)
    append(logs.create("t", 0, TOPIC_ID), 3)
    await logs.close()
    await logs.close()
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_a_stray_partition_is_set_aside_and_not_loaded_again(tmp_path: Path) -> None:
    logs = await started(tmp_path)
    append(logs.create("t", 0, TOPIC_ID), 3)
    logs.set_aside_as_stray("t", 0)
    await logs.close()
    again = await started(tmp_path)
    assert len(again) == 0
    assert [name.endswith("-stray") for name in folders(tmp_path)] == [True]
    await again.close()


def test_deletion_names_fit_a_file_name() -> None:
    name = names.leaving_directory_name("x" * 249, 12, bytes(range(16)))
    assert len(name) == 255
    assert name.endswith(f"-12.{bytes(range(16)).hex()}-delete")
    assert names.leaving_directory_name("t", 0, bytes(16)) == f"t-0.{'0' * 32}-delete"
    assert names.is_leaving_directory(name)
    assert not names.is_leaving_directory("my-delete-0")


def test_directory_names_have_topic_and_partition() -> None:
    assert names.parse_directory_name("a-b-17") == ("a-b", 17)
    assert names.parse_directory_name("a.b_c-0") == ("a.b_c", 0)
    for name in ("a", "-1", "a-", "a-b", "a-+1", f"t-0.{'0' * 32}-delete"):
        assert names.parse_directory_name(name) is None


def test_checkpoints_round_trip_and_damage_is_reported(tmp_path: Path) -> None:
    path = str(tmp_path / "replication-offset-checkpoint")
    assert read_offsets(Files(), path) == {}
    write_offsets(Files(), path, {("b", 1): 5, ("a", 0): 2**40})
    assert Path(path).read_text() == f"0\n2\na 0 {2**40}\nb 1 5\n"
    assert read_offsets(Files(), path) == {("a", 0): 2**40, ("b", 1): 5}
    for text in ("1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "x", "0\n1\na 0 y\n"):
        Path(path).write_text(text)
        with pytest.raises(CorruptCheckpoint):
            read_offsets(Files(), path)
    Path(path).write_text("")  # as Kafka leaves a file that it never wrote to
    assert read_offsets(Files(), path) == {}


async def test_what_can_be_adopted_is_listed(tmp_path: Path) -> None:
    logs = await started(tmp_path)
    append(logs.create("a", 0, TOPIC_ID), 3)
    logs.create("a", 1, TOPIC_ID)
    logs.create("b", 0, b"b" * 16)
    size = sum(log.size for log in logs)
    await logs.close()
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "lost+found").mkdir()
    found = inspect_data_directory(Files(), str(tmp_path))
    assert found.topics() == {"a": (TOPIC_ID, [0, 1]), "b": (b"b" * 16, [0])}
    assert sum(each.size for each in found.partitions) == size
    assert found.meta is not None
    assert found.meta.cluster_id == "cluster"
    assert found.clean_shutdown
    assert found.skipped == ["lost+found: not a partition"]
    (tmp_path / "a-1/partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_to_text(b'c' * 16)}\n")
    with pytest.raises(LogDirectoryError, match="different topic ids"):
        inspect_data_directory(Files(), str(tmp_path)).topics()


def test_a_folder_that_is_not_a_data_directory_is_not_adopted(tmp_path: Path) -> None:
    with pytest.raises(LogDirectoryError, match="not a Kafka data directory"):
        inspect_data_directory(Files(), str(tmp_path))
    with pytest.raises(LogDirectoryError, match="is not a directory"):
        inspect_data_directory(Files(), str(tmp_path / "missing"))


def test_settings_come_from_property_names() -> None:
    config = LogConfig.from_values(
        {"cleanup.policy": "compact, delete", "segment.bytes": 5, "retention.ms": None, "unknown.name": 1}
    )
    assert (config.cleanup_policy, config.max_segment_bytes, config.retention_ms) == (
        ("compact", "delete"),
        5,
        604_800_000,
    )
    assert LogConfig.from_values({"internal.segment.bytes": 7, "segment.bytes": 9}).max_segment_bytes == 7
    assert LogConfig.from_values({"kwire.validate.records": True}).validate_records


async def test_checkpoints_on_stable_storage_lose_a_deleted_log_before_its_name_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = await started(tmp_path)
    log = logs.create("t", 0, TOPIC_ID)
    append(log, 4)
    log.advance_high_watermark(4)
    log.delete_records_before(3)
    logs.write_checkpoints(logs.directories[0], sync=True)
    path = str(tmp_path / "log-start-offset-checkpoint")
    assert read_offsets(Files(), path) == {("t", 0): 3}
    await logs.delete("t", 0)
    synced: list[str] = []
    monkeypatch.setattr(Files, "write_atomic", lambda _self, path, data: synced.append(f"{path}: {data!r}"))
    logs.create("other", 0, TOPIC_ID)
    assert synced == []
    logs.create("t", 0, TOPIC_ID)
    assert len(synced) == 3 and not any("t 0 3" in each for each in synced)
    monkeypatch.undo()
    await logs.close()


async def test_after_a_clean_shutdown_intact_logs_cause_no_log_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One log never had a leader epoch; the other has grown before the data found at start was verified."""
    logs = await started(tmp_path)
    logs.create("empty", 0, TOPIC_ID)
    grown = logs.create("grown", 0, TOPIC_ID)
    config = LogConfig(index_interval_bytes=100, retention_ms=-1)
    grown.update_config(config)
    for number in range(10):
        append(grown, 1, timestamp=NOW_MS + number)
    await logs.close()
    told: list[str] = []
    for module in (log_manager, trust):
        monkeypatch.setattr(module, "logger", SimpleNamespace(warning=lambda text, **_: told.append(text)))
    again = manager(tmp_path, config=config)
    again.lock("cluster", 1)
    await again.load_all()
    found = again.get("grown", 0)
    assert found is not None
    for number in range(10, 20):
        append(found, 1, timestamp=NOW_MS + number)
    assert found.active.unverified < found.active.index.last()[1]  # type: ignore[index]
    assert read_all(found) == [(number, number) for number in range(20)]
    assert told == []
    await again.close()


@pytest.mark.parametrize(("look_s", "turns"), [(0.0, [0, 0, 1, 1, 2]), (2 * STEP_S, [0, 1, 2, 3, 4])])
async def test_periodic_work_looks_at_some_logs_in_a_turn_and_at_few_if_it_takes_long(
    look_s: float, turns: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``look_s``: how much later it is each time when somebody looks at the clock."""
    monkeypatch.setattr(upkeep, "LOGS_PER_STEP", 2)
    turn = 0
    seen: list[tuple[int, str]] = []
    monkeypatch.setattr(PartitionLog, "delete_old_segments", lambda log, _limit: seen.append((turn, log.name)))
    clock = Clock(perf_counter=(each * look_s for each in count()).__next__)
    settings = ManagerSettings(retention_check_interval_ms=1)
    logs = LogManager(Doors(clock=clock), [str(tmp_path)], lambda _topic: LogConfig(), settings)
    logs.lock("cluster", 1)
    await logs.load_all()
    for partition in range(5):
        logs.create("t", partition, TOPIC_ID)
    logs.start()
    while len(seen) < 5:
        await asyncio.sleep(0)
        turn += 1
        if seen:
            logs.periodic._timers["retention"].cancel()  # one pass is enough
    await logs.close()
    assert [name for _, name in seen] == [f"t-{number}" for number in range(5)]
    first = seen[0][0]
    assert [at - first for at, _ in seen] == turns


async def test_retention_removes_many_segments_of_a_log_in_several_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SEGMENTS_AT_ONCE", 2)
    clock = Clock(perf_counter=(each * STEP_S for each in count()).__next__)
    settings = ManagerSettings(retention_check_interval_ms=1)
    config = LogConfig(internal_segment_bytes=200, retention_ms=1000)
    logs = LogManager(Doors(clock=clock), [str(tmp_path)], lambda _topic: config, settings)
    logs.lock("cluster", 1)
    await logs.load_all()
    log = logs.create("t", 0, TOPIC_ID)
    for _ in range(20):
        append(log, 1, size=100, timestamp=1)
    log.high_watermark = log.log_end_offset
    left = [len(log.segments)]
    logs.start()
    while left[-1] > 1 or log.segments[0].size:
        await asyncio.sleep(0)
        left.append(len(log.segments))
        if left[-1] < left[0]:
            logs.periodic._timers["retention"].cancel()  # one pass is enough
    assert left[0] == 20 and max(before - after for before, after in pairwise(left)) == 2
    assert log.log_start_offset == log.log_end_offset == 20
    await logs.close()

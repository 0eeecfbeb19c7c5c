"""Log directories that fail: which errors are transient, and what becomes of the logs inside."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path

import pytest

from harness.waiting import until
from kwire.base.doors import Doors, Files
from kwire.base.errors import KafkaError
from kwire.base.uuids import uuid_to_text
from kwire.log.common.environment import StorageError
from kwire.log.common.log_config import LogConfig
from kwire.log.common.log_dirs import LogDirectory
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.settings import ManagerSettings
from tests.log.log_tools import TOPIC_ID, append, fails, read_all

CONFIG = LogConfig(internal_segment_bytes=1000, file_delete_delay_ms=0, retention_ms=-1)
OTHER_ID = b"o" * 16


class Breakable(Files):
    """A disk on which writing below a path fails with an errno."""

    def __init__(self) -> None:
        self.broken: dict[str, int] = {}
        self._paths: dict[int, str] = {}

    def _touch(self, path: str) -> None:
        for prefix, code in self.broken.items():
            if path.startswith(prefix):
                raise OSError(code, os.strerror(code), path)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._touch(path)
        fd = os.open(path, flags, mode)
        self._paths[fd] = path
        return fd

    def pwrite(self, fd: int, data: object, offset: int) -> int:
        self._touch(self._paths.get(fd, ""))
        return os.pwrite(fd, data, offset)  # type: ignore[arg-type]

    def makedirs(self, path: str) -> None:
        self._touch(path)
        os.makedirs(path, exist_ok=True)

    def write_atomic(self, path: str, data: bytes) -> None:
        self._touch(path)
        super().write_atomic(path, data)


class Setup:
    """A started manager on directories a, b and so on."""

    def __init__(self, path: Path, count: int = 2, **how: object) -> None:
        self.files = Breakable()
        self.paths = [path / name for name in "abc"[:count]]
        self.failed: list[str] = []
        self.logs = LogManager(
            Doors(files=self.files),
            [str(each) for each in self.paths],
            lambda _topic: CONFIG,
            ManagerSettings(high_watermark_interval_ms=20),
            on_directory_failure=self._on_failure,
            **how,  # type: ignore[arg-type]
        )

    def _on_failure(self, directory: LogDirectory, error: OSError) -> None:
        self.failed.append(Path(directory.path).name)

    async def start(self) -> LogManager:
        self.logs.lock("cluster", 1)
        await self.logs.load_all()
        self.logs.start()
        return self.logs

    def break_(self, number: int, code: int) -> None:
        self.files.broken[str(self.paths[number])] = code


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.EACCES])
async def test_a_failing_disk_takes_its_whole_directory_offline_and_no_other(tmp_path: Path, code: int) -> None:
    setup = Setup(tmp_path)
    logs = await setup.start()
    for partition in range(4):
        append(logs.create("t", partition, TOPIC_ID), 1)
    here = [log for log in logs if logs.directory_of("t", log.partition) is logs.directories[0]]
    there = [log for log in logs if log not in here]
    setup.break_(0, code)
    assert fails(lambda: append(here[0], 1)) == "KAFKA_STORAGE_ERROR"
    await until(lambda: setup.failed)
    assert setup.failed == ["a"]
    assert [log.closed for log in here] == [True, True]
    assert [logs.is_offline("t", log.partition) for log in (*here, *there)] == [True, True, False, False]
    for log in there:
        append(log, 1)
    await logs.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
async def test_transient_errors_take_nothing_offline(tmp_path: Path, code: int) -> None:
    setup = Setup(tmp_path, 1)
    logs = await setup.start()
    log = logs.create("t", 0, TOPIC_ID)
    append(log, 1)
    setup.break_(0, code)
    for _ in range(3):
        with pytest.raises(StorageError) as refused:
            append(log, 1)
        assert refused.value.transient
    await asyncio.sleep(0.05)  # checkpoints fail as well
    assert fails(lambda: logs.create("t", 1, TOPIC_ID)) == "KAFKA_STORAGE_ERROR"
    assert not (tmp_path / "a" / "t-1").exists()
    setup.files.broken.clear()
    append(log, 1)
    append(logs.create("t", 1, TOPIC_ID), 1)
    assert setup.failed == []
    await logs.close()


async def test_new_logs_go_to_the_least_loaded_directory_that_works(tmp_path: Path) -> None:
    setup = Setup(tmp_path, 3)
    logs = await setup.start()
    where = [Path(logs.create("t", partition, TOPIC_ID).directory).parent.name for partition in range(6)]
    assert where == ["a", "b", "c", "a", "b", "c"]
    append(logs.create("big", 0, OTHER_ID), 50)  # bytes do not count, logs do
    await logs.delete("t", 2)
    assert Path(logs.create("u", 0, OTHER_ID).directory).parent.name == "c"
    setup.break_(1, errno.ENOSPC)
    setup.break_(2, errno.EIO)
    assert Path(logs.create("v", 0, OTHER_ID).directory).parent.name == "a"
    await until(lambda: setup.failed == ["c"])
    await logs.close()


async def test_a_removed_directory_is_noticed_without_a_write(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    logs = await setup.start()
    append(logs.create("t", 0, TOPIC_ID), 1)
    shutil.rmtree(tmp_path / "b")
    await until(lambda: setup.failed)
    (tmp_path / "a").rename(tmp_path / "old")
    (tmp_path / "a").mkdir()
    await until(lambda: len(setup.failed) == 2)
    assert setup.failed == ["b", "a"]
    assert fails(lambda: logs.create("t", 1, TOPIC_ID)) == "KAFKA_STORAGE_ERROR"
    await logs.close()


async def test_a_missing_file_fails_its_log_only(tmp_path: Path) -> None:
    setup = Setup(tmp_path, 1)
    logs = await setup.start()
    log, other = logs.create("t", 0, TOPIC_ID), logs.create("t", 1, TOPIC_ID)
    append(log, 1)
    logs.env.cache.close_all()
    shutil.rmtree(tmp_path / "a" / "t-0")
    assert fails(lambda: append(log, 1)) == "KAFKA_STORAGE_ERROR"
    await asyncio.sleep(0.05)
    assert setup.failed == []
    append(other, 1)
    await logs.delete("t", 0)
    append(logs.create("t", 0, OTHER_ID), 1)
    await logs.close()


async def test_a_log_that_is_not_new_is_not_created_while_a_directory_is_offline(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    logs = await setup.start()
    for partition in range(2):
        append(logs.create("t", partition, TOPIC_ID), 1)
    lost = next(log.partition for log in logs if "/b/" in log.directory)
    await logs.close()
    (tmp_path / "b").rename(tmp_path / "kept")
    (tmp_path / "b").write_text("no directory")
    again = Setup(tmp_path)
    again.logs.directories[0].lock()
    with pytest.raises(OSError, match="exists") as error:
        again.logs.directories[1].lock()
    again.logs.guard.fail(again.logs.directories[1], error.value)
    await again.logs.load_all()
    assert again.logs.is_offline("t", lost)
    assert not again.logs.is_offline("t", 1 - lost)
    assert fails(lambda: again.logs.create("t", lost, TOPIC_ID, is_new=False)) == "KAFKA_STORAGE_ERROR"
    assert Path(again.logs.create("new", 0, OTHER_ID).directory).parent.name == "a"
    await again.logs.close()


async def test_a_log_that_could_not_be_opened_is_opened_when_the_error_has_passed(tmp_path: Path) -> None:
    setup = Setup(tmp_path, 1)
    logs = await setup.start()
    for partition in range(2):
        append(logs.create("t", partition, TOPIC_ID), 5)
    logs.env.cache.close_all()
    logs.unlock()  # as a killed broker leaves it: its log has to be recovered
    again = Setup(tmp_path, 1)
    again.files.broken[str(tmp_path / "a" / "t-0")] = errno.ENOSPC
    await again.start()
    assert again.logs.get("t", 0) is None
    assert fails(lambda: again.logs.create("t", 0, TOPIC_ID)) == "KAFKA_STORAGE_ERROR"
    await again.logs.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()  # it is still to be recovered
    again = Setup(tmp_path, 1)
    again.files.broken[str(tmp_path / "a" / "t-0")] = errno.ENOSPC
    await again.start()
    again.files.broken.clear()
    log = again.logs.create("t", 0, TOPIC_ID, is_new=False)
    assert read_all(log) == [(0, 4)]
    await again.logs.close()
    await logs.close()


async def test_of_two_logs_of_a_name_the_one_with_the_topic_id_stays(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    logs = await setup.start()
    append(logs.create("t", 0, TOPIC_ID), 9)
    await logs.close()
    shutil.copytree(tmp_path / "a" / "t-0", tmp_path / "b" / "t-0")
    shutil.rmtree(tmp_path / "a" / "t-0")
    setup = Setup(tmp_path)
    setup.logs.directories.pop()  # b is not mounted, and the topic is made again
    logs = await setup.start()
    append(logs.create("t", 0, OTHER_ID), 1)
    await logs.close()
    for known, end in ((OTHER_ID, 1), (TOPIC_ID, 9)):
        for name in "ab":
            for each in (tmp_path / name).glob("t-0.*-stray"):
                each.rename(tmp_path / name / "t-0")
        setup = Setup(tmp_path, topic_id_of=lambda _topic, known=known: known)
        logs = await setup.start()
        log = logs.get("t", 0)
        assert log is not None
        assert (uuid_to_text(log.topic_id), log.log_end_offset) == (uuid_to_text(known), end)
        await logs.close()


async def test_without_a_usable_directory_no_log_is_created(tmp_path: Path) -> None:
    setup = Setup(tmp_path, 1)
    logs = await setup.start()
    setup.break_(0, errno.EIO)
    with pytest.raises(KafkaError):
        logs.create("t", 0, TOPIC_ID)
    await until(lambda: setup.failed == ["a"])
    assert fails(lambda: logs.create("t", 0, TOPIC_ID)) == "KAFKA_STORAGE_ERROR"
    await logs.close()

"""The cleaner as the manager runs it: with a helper process, beside writers and readers."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import until
from kwire.base.doors import Doors
from kwire.base.processes.helpers import HelperDied
from kwire.base.quota import Quota
from kwire.codec.records import Record, build_batch, iter_headers, iter_records
from kwire.log.common.log_config import LogConfig
from kwire.log.compaction import cleaner as cleaner_module
from kwire.log.compaction.cleaner import CleanerSettings
from kwire.log.compaction.helper import CleanerHelper
from kwire.log.compaction.messages import ForgetMap, MapForgotten
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.log_mover import LogMover
from kwire.log.manager.settings import ManagerSettings
from kwire.log.partition.partition_log import PartitionLog
from tests.log.compaction.cleaner_tools import COMPACTED, final_values, kept_in
from tests.log.log_tools import TOPIC_ID, content

NICEST = 19
CONFIG = dataclasses.replace(COMPACTED, internal_segment_bytes=20_000, file_delete_delay_ms=100)


class Running:
    """A started manager with one log."""

    def __init__(self, manager: LogManager, log: PartitionLog) -> None:
        self.manager = manager
        self.log = log
        self.written: dict[int, bytes] = {}
        self.values: dict[bytes | None, bytes | None] = {}

    @property
    def figures(self) -> Any:
        return self.manager.cleaner.figures

    def write(self, first: int, count: int, keys: int = 50) -> None:
        for i in range(first, first + count):
            key, value = b"key-%d" % (i * 7 % keys), b"value %d " % i * 10
            offset = self.log.append_as_leader(
                bytearray(build_batch([Record(timestamp=1_700_000_000_000, key=key, value=value)])), leader_epoch=0
            ).first_offset
            self.written[offset], self.values[key] = value, value
        self.log.advance_high_watermark(self.log.log_end_offset)

    async def cleaned_since(self, before: int) -> None:
        await until(lambda: self.figures.cleanings > before)

    async def cleaned_to_the_end(self) -> None:
        checkpoints, directory = self.manager.cleaner.checkpoints, self.manager.directories[0]
        await until(lambda: checkpoints.get(directory, ("t", 0)) == self.log.active.base_offset)


async def started(path: Path, config: LogConfig = CONFIG, **settings: Any) -> Running:
    chosen = ManagerSettings(cleaner=CleanerSettings(**{"backoff_ms": 10, **settings}))
    manager = LogManager(Doors(), [str(path)], lambda _: config, chosen)
    manager.lock("cluster", 1)
    await manager.load_all()
    manager.start()
    log = manager.create("t", 0, TOPIC_ID, config)
    log.advance_high_watermark(log.log_end_offset)
    return Running(manager, log)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    made = await started(tmp_path)
    yield made
    await made.manager.close()


async def test_readers_and_writers_continue_while_it_cleans(running: Running) -> None:
    stop = False
    rounds = 0

    async def read_all_the_time() -> None:
        nonlocal rounds
        while not stop:
            offset = 0
            while offset < running.log.log_end_offset:
                fetched = running.log.read(offset, 50_000, upto=running.log.high_watermark)
                await asyncio.sleep(0)  # the segment may be swapped away now, before the range is sent
                data = content(fetched)
                for at, header in iter_headers(data, allow_partial=True):
                    assert header.last_offset >= offset
                    offset = header.next_offset
                    for record in iter_records(data[at : at + header.size], max_bytes=10_000):
                        assert record.value == running.written[record.offset]
            rounds += 1
            await asyncio.sleep(0)

    reading = asyncio.ensure_future(read_all_the_time())
    for first in range(0, 3000, 100):
        running.write(first, 100)
        if first == 1000:
            await running.cleaned_since(0)
        await asyncio.sleep(0.01)
    await running.cleaned_to_the_end()
    stop = True
    await reading
    assert rounds > 1 and running.figures.cleanings >= 2
    assert final_values(kept_in(running.log)) == running.values
    assert running.log.size < 0.5 * sum(map(len, running.written.values()))


async def test_the_helper_is_niced_starts_when_needed_and_ends_when_idle(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner_module, "IDLE_S", 0.2)
    helper = running.manager.cleaner._threads[0]._helper
    await asyncio.sleep(0.03)
    assert not helper.running
    running.write(0, 1000)
    await running.cleaned_since(0)
    assert helper._process is not None
    pid = helper._process.pid
    assert os.getpriority(os.PRIO_PROCESS, pid) >= min(os.getpriority(os.PRIO_PROCESS, 0) + 1, NICEST)
    await until(lambda: not helper.running)
    await until(lambda: not os.path.exists(f"/proc/{pid}"))


async def test_a_killed_helper_is_replaced_and_the_log_is_cleaned(tmp_path: Path) -> None:
    running = await started(tmp_path, io_max_bytes_per_second=1000.0)
    running.write(0, 1000)
    helper = running.manager.cleaner._threads[0]._helper
    await until(lambda: helper._process is not None and running.manager.cleaner._under_way)
    assert helper._process is not None
    os.kill(helper._process.pid, signal.SIGKILL)
    running.manager.cleaner.reconfigure(CleanerSettings(backoff_ms=10))
    await running.cleaned_since(0)
    assert running.manager.cleaner.uncleanable == {}
    assert final_values(kept_in(running.log)) == running.values
    await running.manager.close()


async def test_deleting_a_log_ends_its_cleaning_at_once(tmp_path: Path) -> None:
    running = await started(tmp_path, io_max_bytes_per_second=1000.0)
    running.write(0, 1000)
    await until(lambda: running.manager.cleaner._under_way)
    await running.manager.delete("t", 0)
    await until(lambda: not running.manager.cleaner._under_way)
    assert running.figures.aborted == 1 and running.manager.cleaner.uncleanable == {}
    await running.manager.close()


async def test_closing_in_the_middle_of_a_cleaning_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    running = await started(tmp_path, io_max_bytes_per_second=1000.0)
    running.write(0, 1000)
    await until(lambda: running.manager.cleaner._under_way)
    before = kept_in(running.log)
    await running.manager.close()
    assert not [name for name in os.listdir(tmp_path / "t-0") if name.endswith((".cleaned", ".swap"))]
    again = await started(tmp_path, enable=False)
    assert kept_in(again.log) == before
    await again.manager.close()


async def test_threads_come_and_go_with_the_setting(running: Running) -> None:
    running.manager.cleaner.reconfigure(CleanerSettings(backoff_ms=10, threads=3))
    assert len(running.manager.cleaner._threads) == 3
    running.manager.cleaner.reconfigure(CleanerSettings(backoff_ms=10, threads=1))
    running.write(0, 1000)
    await running.cleaned_since(0)
    assert running.manager.cleaner.dead_threads == 0


async def test_a_deleted_topics_checkpoint_is_removed(running: Running, tmp_path: Path) -> None:
    running.write(0, 1000)
    await running.cleaned_since(0)
    await running.manager.delete("t", 0)
    await running.manager.cleaner.checkpoints.settled()
    assert running.manager.cleaner.checkpoints.get(running.manager.directories[0], ("t", 0)) is None


async def test_a_call_fails_if_the_helper_is_killed_before_it_has_the_request() -> None:
    helper = CleanerHelper(Doors())
    call = asyncio.ensure_future(helper.call(ForgetMap()))
    await asyncio.sleep(0)
    helper.kill()
    with pytest.raises(HelperDied):
        await call
    assert await helper.call(ForgetMap()) == MapForgotten()
    await helper.stop()


ORPHAN = """
import asyncio, sys
from kwire.base.doors import Doors
from kwire.log.compaction.helper import CleanerHelper
from kwire.log.compaction.messages import ForgetMap

async def main():
    helper = CleanerHelper(Doors())
    await helper.call(ForgetMap())
    print(helper._process.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_helper_does_not_outlive_a_killed_broker() -> None:
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        pid = int(broker.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        broker.kill()
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        subprocess.run(["sleep", "0.01"], check=True)
    raise AssertionError("it lives")


ABANDONED = """
import os, pickle, struct, sys, time
from kwire.base.processes.helpers import HelperProcess
from kwire.log.compaction.messages import ForgetMap

helper = HelperProcess("kwire.log.compaction.worker")
request = pickle.dumps((ForgetMap(), 0.0))
os.write(helper._to_child, struct.pack(">I", len(request)) + request)
time.sleep(float(sys.argv[1]))
os._exit(9)
"""


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.2])
def test_a_helper_whose_broker_ended_while_it_started_ends_silently(after_s: float) -> None:
    command = [sys.executable, "-c", ABANDONED, str(after_s)]
    done = subprocess.run(
        command, stderr=subprocess.PIPE, timeout=60, check=False
    )  # until the helper has closed it too
    assert (done.returncode, done.stderr) == (9, b"")


async def test_a_log_that_moves_to_another_directory_is_clean_there(tmp_path: Path) -> None:
    manager = LogManager(
        Doors(), [str(tmp_path / "a"), str(tmp_path / "b")], lambda _: CONFIG,
        ManagerSettings(cleaner=CleanerSettings(backoff_ms=10)),
    )  # fmt: skip
    manager.lock("cluster", 1)
    manager.start()
    running = Running(manager, manager.create("t", 0, TOPIC_ID, CONFIG))
    running.write(0, 1000)
    await running.cleaned_to_the_end()
    before, target = manager.directories
    clean_to = manager.cleaner.checkpoints.get(before, ("t", 0))
    moved: list[PartitionLog] = []
    mover = LogMover(Doors(), manager, Quota(Doors().clock.monotonic), moved.append)
    mover.start(running.log, target)
    await until(lambda: moved)
    assert manager.cleaner.checkpoints.get(before, ("t", 0)) is None
    assert manager.cleaner.checkpoints.get(target, ("t", 0)) == clean_to
    await manager.close()
    assert f"t 0 {clean_to}" in (tmp_path / "b" / "cleaner-offset-checkpoint").read_text()

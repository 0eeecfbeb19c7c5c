"""Files are removed after their delay, by a thread, and one that cannot be removed keeps none of the others."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.waiting import until
from kwire.base.doors import Doors, Files
from kwire.log.common import delayed_remover
from kwire.log.common.delayed_remover import REMOVED_AT_ONCE, DelayedRemover

LONG_MS = 1_000_000


class WatchedFiles(Files):
    """Notes which thread removes, and refuses to remove some."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.threads: set[int] = set()
        self.kept: set[str] = set()

    def rmtree(self, path: str) -> None:
        """See `Files`."""
        self.threads.add(threading.get_ident())
        if path in self.kept:
            raise PermissionError(13, "Permission denied", path)
        self.removed.append(os.path.basename(path))
        super().rmtree(path)


@pytest.fixture
def files() -> WatchedFiles:
    return WatchedFiles()


@pytest.fixture
def remover(files: WatchedFiles) -> DelayedRemover:
    return DelayedRemover(Doors(files=files))


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], str]:
    def make(name: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "00000000000000000000.log").write_bytes(b"x")
        return str(folder)

    return make


async def test_a_thread_removes_what_is_due_in_the_order_in_which_it_is(
    remover: DelayedRemover, files: WatchedFiles, make: Callable[[str], str]
) -> None:
    names = [f"{number:03}" for number in range(3 * REMOVED_AT_ONCE)]
    kept = make("kept")
    remover.remove_directory(kept, LONG_MS)
    for name in names:
        remover.remove_directory(make(name), 10)
    await until(lambda: len(files.removed) == len(names))
    assert files.removed == names
    assert threading.get_ident() not in files.threads
    assert files.exists(kept)
    remover.close()


async def test_the_loop_goes_on_between_the_calls_of_the_thread(
    remover: DelayedRemover, make: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    remove = remover._remove

    def counted(due: list[str]) -> list[tuple[str, OSError]]:
        calls.append(len(due))
        return remove(due)

    monkeypatch.setattr(remover, "_remove", counted)
    for number in range(2 * REMOVED_AT_ONCE + 1):
        remover.remove_directory(make(str(number)), 0)
    await until(lambda: sum(calls) == 2 * REMOVED_AT_ONCE + 1)
    assert max(calls) == REMOVED_AT_ONCE


async def test_what_cannot_be_removed_is_logged_and_the_rest_removed(
    remover: DelayedRemover, files: WatchedFiles, make: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    logger = SimpleNamespace(warning=lambda _event, *, path, error: lines.append(path))
    monkeypatch.setattr(delayed_remover, "logger", logger)
    one, other = make("one"), make("other")
    files.kept.add(one)
    remover.remove_directory(one, 0)
    remover.remove_directory(f"{one}-that-is-not-there", 0)
    remover.remove_directory(other, 0)
    await until(lambda: not os.path.exists(other) and lines == [one])
    assert files.exists(one)
    remover.remove_directory(make("later"), 0)
    await until(lambda: "later" in files.removed)


async def test_files_are_renamed_at_once_and_removed_after_the_delay(
    remover: DelayedRemover, files: WatchedFiles, make: Callable[[str], str]
) -> None:
    folder = make("log")
    remover.remove_files([f"{folder}/00000000000000000000.log"], 1)
    assert files.listdir(folder) == ["00000000000000000000.log.deleted"]
    await until(lambda: not files.listdir(folder))


async def test_closed_it_leaves_the_rest_to_the_next_start(
    remover: DelayedRemover, files: WatchedFiles, make: Callable[[str], str]
) -> None:
    folder = make("left")
    remover.remove_directory(folder, 1)
    remover.close()
    await asyncio.sleep(0.05)
    assert files.exists(folder) and not files.removed


def test_uvloop_has_no_timer_for_what_is_due_at_once(
    remover: DelayedRemover, files: WatchedFiles, make: Callable[[str], str]
) -> None:
    """Its `call_at` returns a handle that does not know its time."""
    uvloop = pytest.importorskip("uvloop")
    folders = [make(name) for name in ("a", "b", "c")]

    async def remove() -> None:
        for folder, delay_ms in zip(folders, (0, 1, 0), strict=True):
            remover.remove_directory(folder, delay_ms)
        await until(lambda: len(files.removed) == len(folders))

    uvloop.run(remove())


def test_without_a_loop_all_is_removed_at_once(remover: DelayedRemover, make: Callable[[str], str]) -> None:
    folder = make("gone")
    remover.remove_directory(folder, LONG_MS)
    assert not os.path.exists(folder)


def test_a_directory_with_directories_in_it_is_removed(make: Callable[[str], str]) -> None:
    folder = make("outer")
    os.makedirs(f"{folder}/inner/innermost")
    Path(f"{folder}/inner/file").touch()
    Files().rmtree(folder)
    assert not os.path.exists(folder)

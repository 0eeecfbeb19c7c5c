"""Backups of a data directory that changes, ended at any moment: the newest one is whole, and nothing else is touched.

    .venv/bin/python -m campaigns.archive.backup_seeds --seed 1 --count 1000

A seed makes a data directory and changes it as a broker does: appends, rolls, checkpoints, retention, compaction that
replaces segments, a topic made again. Between changes it is backed up to a folder, and each run may end at any of its
writes and deletions, as if it was killed there; sometimes the directory changes while a run goes on. After each run the
newest backup is restored: it must have exactly the bytes that were committed when its run began or later, and other
objects in the place must be as they were.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from campaigns.mutants.mutant import together
from campaigns.seeds import Found, main
from kwire.archive.backup import creating, cut, metadata
from kwire.archive.backup.restoring import restore
from kwire.archive.backup.stores import Place
from kwire.archive.errors import ArchiveError
from kwire.base.doors import Files
from kwire.base.uuids import uuid_to_text
from kwire.cluster.store import keys
from kwire.cluster.store.embedded import FILE_NAME, Database
from kwire.cluster.store.store import Write
from kwire.codec.records import Record, build_batch
from kwire.log.common import checkpoints, names
from kwire.log.common.log_dirs import MetaProperties, write_meta_properties

CLUSTER: Final = "a3dpcmUtYmFja3VwLXRlcw"
_RUNS: Final = 4
_KEEP: Final = 2
_FOREIGN: Final = ("segments/orders-0.mine/note.txt", "backups/readme.md", "other.bin")


class Killed(BaseException):
    """The run ended here."""


class Partition:
    """The log of one partition, as a model: batches by base offset, in segments."""

    def __init__(self, folder: Path, topic_id: bytes) -> None:
        self.folder = folder
        self.segments: dict[int, list[tuple[int, bytes]]] = {0: []}
        self.end = self.high = self.recovery = 0
        self.cleaned = -1
        folder.mkdir(parents=True)
        checkpoints.write_topic_id(Files(), str(folder), topic_id)
        checkpoints.write_text(Files(), f"{folder}/{checkpoints.LEADER_EPOCH_FILE}", "0\n1\n0 0\n")
        self._write(0)

    def append(self, value: bytes) -> None:
        """A batch of one record, which is not committed yet."""
        batch = bytes(build_batch([Record(timestamp=1, key=b"k", value=value)], base_offset=self.end))
        base = max(self.segments)
        self.segments[base].append((self.end, batch))
        self.end += 1
        with self.path(base).open("ab") as file:
            file.write(batch)

    def roll(self) -> None:
        """A new segment; the recovery point moves there with the indexes of the old one."""
        base = max(self.segments)
        if self.end == base:
            return
        for suffix in (names.INDEX_SUFFIX, names.TIME_INDEX_SUFFIX):
            self.path(base, suffix).write_bytes(b"%d%s" % (base, suffix.encode()))
        self.path(self.end, names.SNAPSHOT_SUFFIX).write_bytes(b"snapshot %d" % self.end)
        self.segments[self.end] = []
        self._write(self.end)

    def delete_oldest(self) -> None:
        """Retention."""
        if len(self.segments) > 1 and sorted(self.segments)[1] <= self.high:
            base = min(self.segments)
            del self.segments[base]
            for suffix in (names.LOG_SUFFIX, names.INDEX_SUFFIX, names.TIME_INDEX_SUFFIX):
                self.path(base, suffix).unlink(missing_ok=True)

    def clean(self, chance: random.Random) -> None:
        """Compaction: closed segments lose batches that a later one supersedes, and become other files."""
        active = max(self.segments)
        if active > self.high:
            return
        for base in sorted(self.segments)[:-1]:
            self.segments[base] = [each for each in self.segments[base] if chance.random() < 0.7]
            swap = self.path(base).with_name(self.path(base).name + names.SWAP_SUFFIX)
            swap.write_bytes(b"".join(batch for _, batch in self.segments[base]))
            swap.replace(self.path(base))
        self.cleaned = active

    def committed(self) -> dict[str, bytes]:
        """The bytes before the high watermark, by segment."""
        found = {}
        for base, batches in self.segments.items():
            if base < self.high:
                found[self.path(base).name] = b"".join(batch for offset, batch in batches if offset < self.high)
        if self.high in self.segments or not found:
            found[self.path(self.high).name] = b""  # what is appended next begins a segment
        return found

    def path(self, base: int, suffix: str = names.LOG_SUFFIX) -> Path:
        """A file of a segment."""
        return self.folder / names.file_name(base, suffix)

    def _write(self, base: int) -> None:
        self.path(base).write_bytes(b"")


class Directory:
    """A data directory with a topic of two partitions and a compacted one."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path = path
        self._chance = chance
        self._number = 0
        path.mkdir()
        write_meta_properties(Files(), str(path), MetaProperties(CLUSTER, 1, bytes(15) + b"d"))
        self.partitions: dict[tuple[str, int], Partition] = {}
        self._ids: dict[str, bytes] = {}
        for topic, count in (("orders", 2), ("totals", 1)):
            self._make(topic, count)
        self._store()
        self.checkpoint()

    def change(self) -> None:
        """One thing that a broker does."""
        partition = self._chance.choice(list(self.partitions.values()))
        kind = self._chance.random()
        if kind < 0.6:
            for _ in range(self._chance.randrange(1, 6)):
                self._number += 1
                partition.append(b"value %d " % self._number + b"x" * self._chance.randrange(200))
        elif kind < 0.75:
            partition.roll()
        elif kind < 0.85:
            self.checkpoint()
        elif kind < 0.92:
            self.partitions["orders", self._chance.randrange(2)].delete_oldest()
        elif kind < 0.99:
            self.partitions["totals", 0].clean(self._chance)
            self._write_checkpoints()
        else:
            self._again()
            self._write_checkpoints()

    def checkpoint(self) -> None:
        """High watermarks and recovery points reach the disk, all in one piece."""
        for each in self.partitions.values():
            each.high = each.end
            each.recovery = max(each.segments)
        self._write_checkpoints()

    def committed(self) -> dict[str, dict[str, bytes]]:
        """What a backup must have."""
        return {names.directory_name(*key): each.committed() for key, each in self.partitions.items()}

    def _make(self, topic: str, count: int) -> None:
        self._ids[topic] = self._chance.randbytes(16)
        for number in range(count):
            folder = self.path / names.directory_name(topic, number)
            self.partitions[topic, number] = Partition(folder, self._ids[topic])

    def _again(self) -> None:
        """The topic `orders` is deleted and made again."""
        for number in range(2):
            shutil.rmtree(self.path / names.directory_name("orders", number))
        self._make("orders", 2)
        self._store()

    def _store(self) -> None:
        for name in (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
            (self.path / name).unlink(missing_ok=True)
        state = keys.PartitionState((1,), (1,), 1, 0, 0)
        writes = [Write(keys.CLUSTER, keys.pack(id=CLUSTER))]
        for topic, topic_id in self._ids.items():
            count = sum(name == topic for name, _ in self.partitions)
            writes.append(Write(keys.topic_key(topic), keys.pack(id=uuid_to_text(topic_id))))
            writes.append(Write(keys.shard_key(topic_id, 0), keys.pack_shard([state] * count)))
        values = {"cleanup.policy": "compact"}
        writes.append(Write(keys.config_key(keys.ConfigResource.TOPIC, "totals"), keys.pack(values=values)))
        database = Database(f"{self.path}/{FILE_NAME}", Files())
        database.open()
        database.commit((), writes)
        database.close()

    def _write_checkpoints(self) -> None:
        for file, offsets in (
            (checkpoints.HIGH_WATERMARK_FILE, {key: each.high for key, each in self.partitions.items()}),
            (checkpoints.RECOVERY_POINT_FILE, {key: each.recovery for key, each in self.partitions.items()}),
            (checkpoints.CLEANER_FILE, {k: each.cleaned for k, each in self.partitions.items() if each.cleaned >= 0}),
        ):
            checkpoints.write_offsets(Files(), f"{self.path}/{file}", offsets, sync=False)


@contextmanager
def ended_at(step: int | None, at_each: Callable[[], None]) -> Iterator[None]:
    """End a run at its write or deletion of this number. ``at_each`` is called before each."""
    done = 0

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def act(self: Place, *arguments: Any, **options: Any) -> Any:
            nonlocal done
            at_each()
            done += 1
            if step is not None and done > step:
                raise Killed
            return work(self, *arguments, **options)

        return act

    with patch.object(Place, "put", counted(Place.put)), patch.object(Place, "delete", counted(Place.delete)):
        yield


def run_seed(seed: int) -> list[str]:
    """One directory, backed up `_RUNS` times; what is wrong."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kwire-backups-") as home:
        directory = Directory(Path(home) / "data", chance)
        folder = Path(home) / "place"
        for name in _FOREIGN:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(name.encode())
        accepted: list[dict[str, dict[str, bytes]]] = []
        for run in range(_RUNS):
            for _ in range(chance.randrange(1, 25)):
                directory.change()
            if chance.random() < 0.7:
                directory.checkpoint()
            problems = _run(directory, folder, chance, accepted)
            problems += [f"{name} has gone" for name in _FOREIGN if not (folder / name).exists()]
            if problems:
                return [f"seed {seed}, run {run}: {each}" for each in problems]
    return []


def _run(
    directory: Directory, folder: Path, chance: random.Random, accepted: list[dict[str, dict[str, bytes]]]
) -> list[str]:
    """One run of a backup and what its place has after it. ``accepted``: what the newest backup may have."""
    step = None if chance.random() < 0.4 else chance.randrange(30)
    states = [directory.committed()]

    def meanwhile() -> None:
        if chance.random() < 0.1:
            directory.change()
            states.append(directory.committed())

    before = creating.backups(Place(str(folder)))
    without_pauses = [
        patch.multiple(cut, _TRIES=3, _PAUSE_S=0),
        patch.multiple(creating, _PAUSE_S=0, THREADS=1),
        patch.object(metadata, "_PAUSE_S", 0),
    ]
    with together(*without_pauses), ended_at(step, meanwhile):
        try:
            creating.create(str(directory.path), Place(str(folder)), keep=_KEEP, closed_only=False)
        except Killed:
            pass
        except ArchiveError as error:
            if "does not reach" not in str(error):  # more may have been compacted than is known to be committed
                return [str(error)]
    found = creating.backups(Place(str(folder)))
    if found[-1:] != before[-1:]:
        accepted[:] = states
    if not found:
        return [] if not before else ["the backups have gone"]
    return _wrong(folder, accepted)


def _wrong(folder: Path, accepted: list[dict[str, dict[str, bytes]]]) -> list[str]:
    """Restore the newest backup and compare."""
    with tempfile.TemporaryDirectory(prefix="kwire-restored-") as path:
        try:
            restore(Place(str(folder)), path, None)
        except ArchiveError as error:
            return [str(error)]
        restored = {
            each.name: {log.name: log.read_bytes() for log in each.glob("*.log")}
            for each in Path(path).iterdir()
            if each.is_dir()
        }
    if restored not in accepted:
        return [f"the newest backup is none of the {len(accepted)} states that there were"]
    return []


def run_seeds(first: int, count: int) -> Found:
    """Seeds in order; how many, and what is wrong."""
    with patch("os.fsync"):  # processes are killed, machines are not
        problems = [problem for seed in range(first, first + count) for problem in run_seed(seed)]
    return Counter(seeds=count), problems


if __name__ == "__main__":
    sys.exit(main("archive.backup_seeds", "backup seeds", __doc__, run_seeds, count=1000))

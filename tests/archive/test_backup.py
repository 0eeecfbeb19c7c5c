"""Backups of a data directory in a folder: what is in them, what is refused, and what an ended run leaves."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from campaigns.archive import backup_seeds
from campaigns.archive.backup_seeds import Directory, Killed, ended_at
from campaigns.archive.mutants import MUTANTS
from kwire.archive.backup import creating, cut, metadata
from kwire.archive.backup.manifest import decode
from kwire.archive.backup.restoring import restore
from kwire.archive.backup.stores import Place
from kwire.archive.errors import ArchiveError
from kwire.base.doors import Doors
from kwire.cli import main
from kwire.log.common.log_dirs import LogDirectory, LogDirectoryError


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (creating, cut, metadata):
        monkeypatch.setattr(module, "_PAUSE_S", 0)
    monkeypatch.setattr(cut, "_TRIES", 3)
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    made = Directory(tmp_path / "data", random.Random(1))
    for number in range(30):
        made.partitions["orders", number % 2].append(b"value %d" % number)
        if number % 10 == 9:
            made.partitions["orders", 0].roll()
    made.checkpoint()
    return made


def create(directory: Directory, place: Path, **options: Any) -> creating.Created:
    return creating.create(str(directory.path), Place(str(place)), **{"keep": 7, "closed_only": False, **options})


def logs(path: Path) -> dict[str, dict[str, bytes]]:
    return {each.name: {log.name: log.read_bytes() for log in each.glob("*.log")} for each in path.glob("*-?")}


def test_backups_that_end_anywhere_leave_the_newest_one_whole() -> None:
    assert backup_seeds.run_seeds(1, 2)[1] == []


@pytest.mark.parametrize(("name", "seed"), [("list-first", 3), ("delete-shared", 1), ("uncommitted", 1)])
def test_a_broken_promise_is_noticed(name: str, seed: int) -> None:
    with MUTANTS[name].apply():
        assert backup_seeds.run_seeds(seed, 1)[1]


def test_a_second_backup_copies_what_is_new(directory: Directory, tmp_path: Path) -> None:
    first = create(directory, tmp_path / "place")
    assert (first.number, first.topics, first.partitions, first.copied_files) == (1, 2, 3, first.files)
    directory.partitions["orders", 1].append(b"more")
    directory.checkpoint()
    second = create(directory, tmp_path / "place")
    assert (second.number, second.copied_files) == (2, 1)
    assert second.files == first.files


def test_what_is_not_committed_or_not_closed_stays_out(directory: Directory, tmp_path: Path) -> None:
    committed = directory.committed()
    directory.partitions["orders", 0].append(b"not committed")
    create(directory, tmp_path / "place")
    restore(Place(str(tmp_path / "place")), str(tmp_path / "restored"), None)
    assert logs(tmp_path / "restored") == committed
    create(directory, tmp_path / "place", closed_only=True)
    restore(Place(str(tmp_path / "place")), str(tmp_path / "closed"), None)
    found = logs(tmp_path / "closed")
    last = max(directory.partitions["orders", 0].segments)
    assert found["orders-1"] == {f"{0:020d}.log": b""}
    closed = {name: data for name, data in committed["orders-0"].items() if int(name[:20]) < last}
    assert found["orders-0"] == {**closed, f"{last:020d}.log": b""}
    checkpoint = (tmp_path / "closed" / "replication-offset-checkpoint").read_text()
    assert f"orders 0 {last}\norders 1 0\n" in checkpoint


def test_old_backups_are_deleted_and_nothing_else(directory: Directory, tmp_path: Path) -> None:
    place = tmp_path / "place"
    (place / "segments").mkdir(parents=True)
    (place / "segments" / "mine.txt").write_text("mine")
    for _ in range(3):
        directory.partitions["orders", 1].append(b"more")
        directory.checkpoint()
        done = create(directory, place, keep=1)
    assert done.deleted_backups == 1
    assert creating.backups(Place(str(place))) == [3]
    tails = [each.name for each in place.glob("segments/orders-1.*/*.log.*")]
    assert len(tails) == 1 and "00000003" in tails[0]
    assert (place / "segments" / "mine.txt").read_text() == "mine"
    create(directory, place, keep=0)
    assert creating.backups(Place(str(place))) == [3, 4]


def test_damage_and_newer_formats_are_named(directory: Directory, tmp_path: Path) -> None:
    place = tmp_path / "place"
    create(directory, place)
    [damaged] = place.glob("segments/orders-1.*/*.log.*")
    data = bytearray(damaged.read_bytes())
    data[70] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(
        ArchiveError, match=rf"{damaged.name}: damaged: its SHA-256 is [0-9a-f]{{64}}, not [0-9a-f]{{64}}"
    ):
        restore(Place(str(place)), str(tmp_path / "restored"), None)
    damaged.unlink()
    with pytest.raises(ArchiveError, match=rf"{damaged.name}: there is no such object"):
        restore(Place(str(place)), str(tmp_path / "restored"), None)
    listed = place / "backups" / "00000001.json"
    good = listed.read_bytes()
    listed.write_bytes(good.replace(b'"orders"', b'"others"', 1))
    with pytest.raises(ArchiveError, match=r"00000001.json: damaged: its SHA-256 is"):
        restore(Place(str(place)), str(tmp_path / "other"), None)
    listed.write_bytes(good.replace(b'"kwire.backup": 1', b'"kwire.backup": 2', 1))
    with pytest.raises(ArchiveError, match="has format 2, this kwire reads format 1"):
        create(directory, place)
    listed.write_bytes(b"{}")
    with pytest.raises(ArchiveError, match="damaged, or not the list of a backup"):
        create(directory, place)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"name":"00000000000000000000.log"', b'"name":"../../00000000000000.log"'),
        (b'"topic":"orders"', b'"topic":"../ers"'),
        (b'"object":"segments/orders-0.', b'"object":"segments/../../../.'),
    ],
)
def test_a_list_names_no_file_elsewhere(directory: Directory, tmp_path: Path, old: bytes, new: bytes) -> None:
    from hashlib import sha256

    create(directory, tmp_path / "place")
    body = (tmp_path / "place" / "backups" / "00000001.json").read_bytes().split(b"\n")[1]
    assert old in body
    body = body.replace(old, new, 1)
    head = json.dumps({"kwire.backup": 1, "sha256": sha256(body).hexdigest()}).encode()
    with pytest.raises(ArchiveError, match="is no "):
        decode(head + b"\n" + body + b"\n", "place")


def test_a_restore_that_ended_keeps_brokers_away_and_goes_on(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(directory, tmp_path / "place")
    restored, fetched = tmp_path / "restored", []
    chunks = Place.chunks

    def ends(self: Place, name: str) -> Any:
        fetched.append(name)
        if len(fetched) == 3:
            raise Killed
        return chunks(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(Place, "chunks", ends)
        with pytest.raises(Killed):
            restore(Place(str(tmp_path / "place")), str(restored), None)
    with pytest.raises(LogDirectoryError, match="was not finished: run kwire backup restore again"):
        LogDirectory(Doors(), str(restored)).lock()
    with monkeypatch.context() as patched:
        fetched_before = fetched[:1]
        fetched[:] = [""] * 3  # `ends` ends nothing more
        patched.setattr(Place, "chunks", ends)
        restore(Place(str(tmp_path / "place")), str(restored), None)
    assert fetched[3:] and not set(fetched) & set(fetched_before)
    assert logs(restored) == directory.committed()
    LogDirectory(Doors(), str(restored)).lock()
    with pytest.raises(ArchiveError, match="is not empty"):
        restore(Place(str(tmp_path / "place")), str(tmp_path / "place"), None)


def test_a_restore_goes_on_that_was_killed_while_it_wrote_its_mark(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(directory, tmp_path / "place")

    def ends(*_: str) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("os.replace", ends)
        restore(Place(str(tmp_path / "place")), str(tmp_path / "restored"), None)
    restore(Place(str(tmp_path / "place")), str(tmp_path / "restored"), None)
    assert logs(tmp_path / "restored") == directory.committed()
    assert not list((tmp_path / "restored").glob(".kwire-restoring*"))


def test_two_runs_at_once_make_one_backup(directory: Directory, tmp_path: Path) -> None:
    place = tmp_path / "place"
    others: list[int] = []

    def meanwhile() -> None:
        if not others:
            others.append(1)
            create(directory, place)

    with ended_at(None, meanwhile), pytest.raises(ArchiveError, match=r"another backup has written backups/00000001"):
        create(directory, place)
    restore(Place(str(place)), str(tmp_path / "restored"), 1)
    assert logs(tmp_path / "restored") == directory.committed()


def test_what_cannot_be_backed_up_is_a_line(
    directory: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--to", str(tmp_path / "place")]
    assert main(["backup", "create", "--data-dir", str(tmp_path / "none"), *place]) == 1
    assert capsys.readouterr().err == f"kwire: {tmp_path}/none: no data directory, it has no meta.properties\n"
    assert main(["backup", "create", "--data-dir", str(directory.path), *place]) == 0
    assert capsys.readouterr().out.startswith("backup 1: 2 topics, 3 partitions, ")
    assert main(["backup", "list", str(tmp_path / "place"), "-o", "json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert (row["number"], row["topics"], row["partitions"]) == (1, 2, 3)
    assert main(["backup", "restore", str(tmp_path / "place"), "--data-dir", str(tmp_path / "x"), "--number", "7"]) == 1
    assert capsys.readouterr().err == f"kwire: {tmp_path}/place: has no backup 7; it has 1\n"
    assert main(["backup", "list", "ftp://host/x"]) == 1
    assert "ftp://host/x: not a folder, nor one of s3://" in capsys.readouterr().err
    (directory.path / "kwire-store.sqlite").unlink()
    assert main(["backup", "create", "--data-dir", str(directory.path), *place]) == 1
    assert "has no metadata store: a backup is of a kwire broker that is its whole cluster" in capsys.readouterr().err
    (directory.path / "kwire-store.sqlite").write_bytes(b"x" * 5000)
    assert main(["backup", "create", "--data-dir", str(directory.path), *place]) == 1
    assert "file is not a database" in capsys.readouterr().err

"""A single broker's directory becomes one of several brokers, also if the move is interrupted anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kwire.base.config import KafkaConfig
from kwire.base.doors import Files
from kwire.server.directories.layout import metadata_directory, read_layout, refuse_several
from kwire.server.directories.moving import move, single_broker
from kwire.server.errors import StartError

UNIQUE = "0123456789abcdef0123456789abcdef"
MOVED = [
    "meta.properties",
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "t-0/00000000000000000000.log",
    "broker-1/00000000000000000000.log",  # a partition of a topic called broker
    f"gone-3.{UNIQUE}-delete/00000000000000000000.log",
]
STORE = ["kwire-store.sqlite", "kwire-store.sqlite-wal", "kwire-store.reserve"]
STAYS = ["notes.txt", "lost+found/piece"]


class Killed(BaseException):
    """The process ends here."""


class MortalFiles(Files):
    """Files of a process that is killed after so many changes."""

    def __init__(self, changes: int) -> None:
        self.left = changes

    def _change(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def write_atomic(self, path: str, data: bytes) -> None:
        self._change()
        super().write_atomic(path, data)

    def makedirs(self, path: str) -> None:
        self._change()
        super().makedirs(path)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("replace", "unlink"):
            return found

        def changing(*arguments: Any) -> None:
            self._change()
            found(*arguments)

        return changing


def single(directory: Path, node_id: int = 1) -> None:
    for name in [*MOVED, *STORE, *STAYS]:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (directory / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node_id}\n")


def check_moved(directory: Path) -> None:
    for name in MOVED[1:]:
        assert (directory / "broker-1" / name).read_text() == name
    assert "node.id=1" in (directory / "broker-1/meta.properties").read_text()
    for name in STORE:
        assert (directory / "metadata" / name).read_text() == name
    for name in STAYS:
        assert (directory / name).read_text() == name
    assert sorted(path.name for path in directory.iterdir()) == ["broker-1", "lost+found", "metadata", "notes.txt"]


def found(directory: Path, files: Files | None = None) -> int | None:
    return single_broker(files or Files(), (str(directory),), 1, has_store=True)


def test_everything_of_the_broker_is_moved_and_nothing_else(tmp_path: Path) -> None:
    single(tmp_path)
    assert found(tmp_path) == 1
    move(Files(), str(tmp_path), 1)
    check_moved(tmp_path)
    assert found(tmp_path) is None
    assert read_layout(Files(), str(tmp_path)).brokers == {1: True}
    move(Files(), str(tmp_path), 1)
    check_moved(tmp_path)


def test_a_move_that_is_killed_anywhere_is_completed_by_the_next_start(tmp_path: Path) -> None:
    kills = 0
    while True:
        directory = tmp_path / str(kills)
        single(directory)
        files = MortalFiles(kills)
        try:
            move(files, str(directory), 1)
        except Killed:
            kills += 1
        else:
            break
        if kills > 1:  # the marker is written: no broker starts beside it
            with pytest.raises(StartError, match="holds the data of several brokers"):
                refuse_several(Files(), KafkaConfig({"log.dirs": str(directory)}), str(directory))
        again = found(directory)
        if again is not None:
            move(Files(), str(directory), again)
        check_moved(directory)
    assert kills > len(MOVED) + len(STORE)
    check_moved(directory)


def test_only_a_store_that_a_command_has_made(tmp_path: Path) -> None:
    (tmp_path / "kwire-store.sqlite").write_text("users")
    assert single_broker(Files(), (str(tmp_path), str(tmp_path / "other")), 5, has_store=True) == 5
    move(Files(), str(tmp_path), 5)
    assert (tmp_path / "metadata/kwire-store.sqlite").read_text() == "users"
    assert [path.name for path in tmp_path.iterdir()] == ["metadata"]


def test_a_new_directory_has_no_broker(tmp_path: Path) -> None:
    assert found(tmp_path / "new") is None
    assert found(tmp_path) is None
    move(Files(), str(tmp_path), 1)
    assert not list(tmp_path.iterdir())


def test_a_directory_of_apache_kafka_is_refused_with_the_command(tmp_path: Path) -> None:
    single(tmp_path)
    (tmp_path / "kwire-store.sqlite").unlink()
    with pytest.raises(StartError, match=f"kwire adopt {tmp_path}$"):
        found(tmp_path)


def test_an_unreadable_marker_is_named(tmp_path: Path) -> None:
    (tmp_path / ".kwire-moving").write_text("?")
    with pytest.raises(StartError, match=r"\.kwire-moving cannot be read"):
        found(tmp_path)


def test_two_kinds_of_data_in_one_directory_are_refused(tmp_path: Path) -> None:
    single(tmp_path)
    (tmp_path / "broker-2").mkdir()
    (tmp_path / "broker-2/meta.properties").write_text("version=1\ncluster.id=c\nnode.id=2\n")
    with pytest.raises(StartError, match="that of several"):
        found(tmp_path)


def test_several_directories_are_moved_together(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    single(first)
    single(second)
    for name in STORE:
        (second / name).unlink()
    directories = (str(first), str(second))
    assert single_broker(Files(), directories, 1, has_store=True) == 1
    move(Files(), str(first), 1)
    assert single_broker(Files(), directories, 1, has_store=True) == 1
    move(Files(), str(second), 1)
    check_moved(first)
    assert (second / "broker-1/t-0/00000000000000000000.log").exists()


def test_a_directory_that_is_not_mounted_is_noticed(tmp_path: Path) -> None:
    single(tmp_path / "a")
    (tmp_path / "b").mkdir()
    with pytest.raises(StartError, match="b is empty, is it mounted"):
        single_broker(Files(), (str(tmp_path / "a"), str(tmp_path / "b")), 1, has_store=True)


def test_directories_of_two_brokers_are_refused(tmp_path: Path) -> None:
    single(tmp_path / "a")
    single(tmp_path / "b", node_id=2)
    with pytest.raises(StartError, match=r"a belongs to node 1 and .*b belongs to node 2"):
        single_broker(Files(), (str(tmp_path / "a"), str(tmp_path / "b")), 1, has_store=True)


def test_a_single_broker_does_not_start_beside_several(tmp_path: Path) -> None:
    config = KafkaConfig({"log.dirs": str(tmp_path)})
    refuse_several(Files(), config, str(tmp_path))
    single(tmp_path)  # its partition broker-1 is not a broker's directory
    refuse_several(Files(), config, str(tmp_path))
    assert metadata_directory(Files(), config) is None
    move(Files(), str(tmp_path), 1)
    with pytest.raises(StartError, match="start them with kwire start --brokers auto"):
        refuse_several(Files(), config, str(tmp_path))
    assert metadata_directory(Files(), config) == f"{tmp_path}/metadata"

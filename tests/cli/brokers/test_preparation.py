"""Which brokers `kwire start --brokers` starts, on new directories and on those that are in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.doors import Doors, Files
from kwire.cli.brokers import preparation
from kwire.cli.brokers.numbers import AUTO
from kwire.cli.brokers.preparation import automatic_count, broker_ids, prepare
from kwire.server.errors import StartError


class UnlockedFiles(Files):
    """Files of another process, after the first one has ended."""

    def lock(self, path: str) -> int | None:
        return 0


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "usable_cores", lambda: 2)


def config_of(directory: Path, **properties: str) -> KafkaConfig:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return KafkaConfig({"log.dirs": str(directory), **named})


def broker(directory: Path, node_id: int, *partitions: str) -> None:
    own = directory / f"broker-{node_id}"
    for name in ("", *partitions):
        (own / name).mkdir(parents=True, exist_ok=True)
    (own / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node_id}\n")


def test_one_broker_per_core_in_a_new_directory(tmp_path: Path) -> None:
    assert prepare(config_of(tmp_path / "new"), AUTO, Doors()) == [1, 2]


def test_one_core_is_one_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "usable_cores", lambda: 1)
    assert prepare(config_of(tmp_path), AUTO, Doors()) == [1]


def test_not_more_than_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "usable_cores", lambda: 96)
    assert automatic_count() == 16


def test_never_fewer_than_hold_partitions(tmp_path: Path) -> None:
    for node_id in (1, 2, 3):
        broker(tmp_path, node_id, "t-0")
    broker(tmp_path, 4, "t-0.0123456789abcdef0123456789abcdef-delete")
    assert prepare(config_of(tmp_path), AUTO, Doors()) == [1, 2, 3]


def test_an_explicit_number_that_leaves_out_partitions_is_refused(tmp_path: Path) -> None:
    for node_id in (1, 2, 3):
        broker(tmp_path, node_id, "t-0")
    with pytest.raises(
        StartError, match=r"^--brokers 2: .* has partitions in broker-3, .*--brokers 3 or --brokers auto"
    ):
        prepare(config_of(tmp_path), 2, Doors())


def test_a_node_id_above_those_in_use_is_refused(tmp_path: Path) -> None:
    broker(tmp_path, 1, "t-0")
    with pytest.raises(StartError, match=r"^node.id=2: .* has partitions in broker-1: node.id must be 1"):
        prepare(config_of(tmp_path, node_id="2"), AUTO, Doors())


def test_the_first_id_is_that_of_the_directory(tmp_path: Path) -> None:
    broker(tmp_path, 7, "t-0")
    assert prepare(config_of(tmp_path), AUTO, Doors()) == [7, 8]


def test_more_brokers_are_added() -> None:
    assert broker_ids("d", 1, 4, {1, 2}) == [1, 2, 3, 4]


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    prepare(config_of(tmp_path), AUTO, Doors())
    with pytest.raises(StartError, match="another process uses the data directory"):
        prepare(config_of(tmp_path), AUTO, Doors())


def test_a_directory_that_cannot_be_made_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=r"log.dirs: .*file.* cannot be used"):
        prepare(config_of(tmp_path / "file"), AUTO, Doors())


def test_a_single_broker_of_another_id_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    (tmp_path / "kwire-store.sqlite").write_text("")
    with pytest.raises(StartError, match=r"node\.id=2: .* belongs to node 1"):
        prepare(config_of(tmp_path, node_id="2"), AUTO, Doors())
    with pytest.raises(ConfigError, match=r"kwire.metadata.dir"):
        prepare(config_of(tmp_path / ".", kwire_metadata_dir="/elsewhere"), AUTO, Doors(files=UnlockedFiles()))
    assert (tmp_path / "meta.properties").exists()

"""A broker whose data directories fail: what it measures, when it is over, and what it takes an empty directory for."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import PATIENCE_S, until
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.store.store import StoreFull
from kwire.server.broker import Broker
from kwire.server.errors import StartError


def broker_on(*directories: Path, **properties: Any) -> Broker:
    return Broker(
        listeners="PLAINTEXT://127.0.0.1:0",
        log_dirs=[str(each) for each in directories],
        replica_high_watermark_checkpoint_interval_ms=50,
        **properties,
    )


def leaders(broker: Broker, topic: str = "t") -> list[int]:
    return [state.leader for state in broker.metadata.image.topics[topic].partitions]


def figures(broker: Broker) -> tuple[int, int, int]:
    found = broker.metrics.snapshot()
    return (
        found["kafka.log:type=LogManager,name=OfflineLogDirectoryCount"],
        found["kafka.server:type=ReplicaManager,name=OfflineReplicaCount"],
        found["kafka.controller:type=KafkaController,name=OfflinePartitionsCount"],
    )


async def test_the_figures_tell_what_is_offline(tmp_path: Path) -> None:
    async with broker_on(tmp_path / "a", tmp_path / "b") as broker:
        await broker.controller.create_topics([NewTopic("t", 4, 1)])
        assert figures(broker) == (0, 0, 0)
        shutil.rmtree(tmp_path / "b")
        await until(lambda: leaders(broker).count(-1) == 2)
        assert figures(broker) == (1, 2, 2)
        found = broker.metrics.snapshot()
        offline = [
            found[f"kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory={tmp_path / x}"] for x in "ab"
        ]
        assert offline == [0, 1]
        assert not broker.fatal_failure.occurred.is_set()


@pytest.mark.parametrize("names", ["a", "ab"])
async def test_without_the_metadata_stores_directory_it_is_over(tmp_path: Path, names: str) -> None:
    async with broker_on(*(tmp_path / name for name in names)) as broker:
        (tmp_path / "a").rename(tmp_path / "elsewhere")
        async with asyncio.timeout(PATIENCE_S):
            await broker.fatal_failure.occurred.wait()
        assert str(tmp_path / "a") in broker.fatal_failure.cause
        (tmp_path / "elsewhere").rename(tmp_path / "a")


async def test_the_controller_is_told_again_until_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.server.log_dir_failures.RETRY_S", 0.01)
    async with broker_on(tmp_path / "a", tmp_path / "b") as broker:
        await broker.controller.create_topics([NewTopic("t", 2, 1)])
        commit, attempts = broker.store.commit, []

        async def full(*arguments: Any) -> int:
            attempts.append(1)
            if len(attempts) < 4:
                raise StoreFull("no room")
            return await commit(*arguments)

        monkeypatch.setattr(broker.store, "commit", full)
        shutil.rmtree(tmp_path / "b")
        await until(lambda: leaders(broker) == [1, -1])
        assert len(attempts) == 4


async def test_an_empty_directory_that_was_in_use_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    directories = tmp_path / "a", tmp_path / "b"
    async with broker_on(*directories) as broker:
        await broker.controller.create_topics([NewTopic("t", 2, 1)])
    (tmp_path / "b").rename(tmp_path / "unmounted")
    (tmp_path / "b").mkdir()
    async with broker_on(*directories) as broker:
        assert [each.online for each in broker.logs.directories] == [True, False]
        assert leaders(broker) == [1, -1]
    assert not (tmp_path / "b" / "meta.properties").exists()
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "unmounted").rename(tmp_path / "b")
    async with broker_on(*directories) as broker:
        assert leaders(broker) == [1, 1]


async def test_a_directory_that_is_given_up_can_be_put_in_anew(tmp_path: Path) -> None:
    directories = tmp_path / "a", tmp_path / "b"
    async with broker_on(*directories) as broker:
        await broker.controller.create_topics([NewTopic("t", 2, 1)])
    shutil.rmtree(tmp_path / "b")
    async with broker_on(tmp_path / "a") as broker:
        assert leaders(broker) == [1, 1]
    async with broker_on(*directories) as broker:
        assert [each.online for each in broker.logs.directories] == [True, True]
        await broker.controller.create_topics([NewTopic("u", 1, 1)])
        assert (tmp_path / "b" / "u-0").is_dir()


async def test_a_start_without_the_first_directory_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no directory")
    with pytest.raises(StartError, match="cannot be used"):
        await broker_on(tmp_path / "a", tmp_path / "b").start()

"""Adopting a directory as a whole: where the metadata is read, what is written, and what an interruption leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns.adoption.kraft_files import batch, some_of_everything, user, write
from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.doors import Doors
from kwire.cluster.metadata import features
from kwire.cluster.store import keys
from kwire.cluster.store.store import Entry
from kwire.codec.message import Message
from kwire.codec.messages.feature_level_record import FeatureLevelRecord
from kwire.log.common.log_dirs import LogDirectory, LogDirectoryError
from kwire.server.adoption import adopt as module
from kwire.server.adoption.adopt import Adopted, adopt
from kwire.server.broker import Broker
from kwire.server.errors import StartError
from kwire.server.offline import offline_store

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
META = "version=1\ncluster.id={}\nnode.id={}\n"


def kafka_directory(path: Path, *records: Message, cluster_id: str = "c", node_id: int = 1) -> Path:
    path.mkdir()
    (path / "meta.properties").write_text(META.format(cluster_id, node_id))
    return write(path, log_0=batch(0, *records)) if records else path


def config_of(path: Path, **properties: str) -> KafkaConfig:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return KafkaConfig({"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0", **AUTHORIZER, **named})


async def adopted(path: Path, **properties: str) -> Adopted:
    return await adopt(config_of(path, **properties), Doors(), without_security=False)


async def stored(path: Path) -> dict[str, Entry]:
    async with offline_store(config_of(path), Doors(), create=False) as store:
        return dict((await store.read(""))[1])


async def test_the_levels_of_features_are_those_of_kafka(tmp_path: Path) -> None:
    levels = {
        "metadata.version": 25,
        "transaction.version": 1,
        "group.version": 99,
        "share.version": 1,
        "unheard.of": 1,
    }
    records = [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]
    data = kafka_directory(tmp_path / "data", *records)
    await adopted(data)
    found = keys.unpack(keys.FEATURES, (await stored(data))[keys.FEATURES].value)["levels"]
    assert found[features.TRANSACTION_VERSION] == 1
    assert found[features.GROUP_VERSION] == 1
    assert found[features.ELR_VERSION] == 0
    assert found[features.METADATA_VERSION] == features.LATEST_METADATA_VERSION
    assert found[features.SHARE_VERSION] == 1
    assert "unheard.of" not in found


async def test_an_interrupted_adoption_can_be_repeated_and_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = kafka_directory(tmp_path / "data", *some_of_everything())

    async def interrupted(path: str, doors: Doors) -> list[str]:
        raise StartError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(module, "_register", interrupted)
        with pytest.raises(StartError, match="interrupted"):
            await adopted(data)
    with pytest.raises(StartError, match="first run kwire adopt"):
        await Broker(config_of(data)).start()
    await adopted(data)
    assert [key for key in await stored(data) if key.startswith(keys.ACLS)]
    async with Broker(config_of(data)) as broker:
        assert broker.config.node_id == 1


async def test_what_kwire_has_changed_since_stays(tmp_path: Path) -> None:
    data = kafka_directory(tmp_path / "data", *some_of_everything())
    await adopted(data)
    write(data, log_9=batch(9, user("carol")))
    again = await adopted(data)
    assert again.metadata is None
    assert keys.scram_key(1, "carol") not in await stored(data)


async def test_the_metadata_may_be_in_a_directory_of_its_own(tmp_path: Path) -> None:
    data = kafka_directory(tmp_path / "data")
    metadata = kafka_directory(tmp_path / "metadata", *some_of_everything())
    with pytest.raises(StartError, match="what clients had to do is not known"):
        await adopted(data)
    await adopted(data, metadata_log_dir=str(metadata))
    assert keys.scram_key(1, "alice") in await stored(data)


async def test_the_metadata_of_another_broker_is_refused(tmp_path: Path) -> None:
    data = kafka_directory(tmp_path / "data")
    metadata = kafka_directory(tmp_path / "metadata", *some_of_everything(), node_id=2)
    with pytest.raises(StartError, match="does not belong to the broker of"):
        await adopted(data, metadata_log_dir=str(metadata))


async def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    data = kafka_directory(tmp_path / "data", *some_of_everything())
    used = LogDirectory(Doors(), str(data))
    used.lock()
    try:
        with pytest.raises(LogDirectoryError, match="another process uses the data directory"):
            await adopted(data)
    finally:
        used.unlock()


async def test_the_store_of_several_brokers_is_not_adopted_into(tmp_path: Path) -> None:
    data = kafka_directory(tmp_path / "data", *some_of_everything())
    with pytest.raises(StartError, match="a cluster of one broker"):
        await adopted(data, kwire_metadata_dir=str(tmp_path / "shared"))


async def test_other_authorizers_are_refused_by_name(tmp_path: Path) -> None:
    data = kafka_directory(tmp_path / "data", *some_of_everything())
    with pytest.raises(ConfigError, match=r"com\.example\.Authorizer"):
        await adopted(data, authorizer_class_name="com.example.Authorizer")

"""The command lines of the brokers of `kwire start --brokers`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from kwire.base.config import KafkaConfig
from kwire.base.free_ports import ephemeral_ports
from kwire.cli.brokers.commands import commands
from kwire.cli.brokers.numbers import AUTO


def listeners(directory: Path, value: str, brokers: int = 3) -> list[int]:
    """The ports in the listeners of three brokers. ``brokers``: as on the command line."""
    config = KafkaConfig({"log.dirs": str(directory), "listeners": value})
    arguments = argparse.Namespace(brokers=brokers, file=None, config=None, properties=[])
    words = [
        word for command in commands(config, arguments, [1, 2, 3]) for word in command if word.startswith("listeners=")
    ]
    return [int(port) for word in words for port in re.findall(r":(\d+)", word)]


def test_port_0_becomes_different_ports_that_no_outgoing_connection_takes(tmp_path: Path) -> None:
    """A port that is picked and released twice may be the same one, and one of the ephemeral range may be taken before
    the broker binds it, or while it is restarted."""
    ports = listeners(tmp_path, "PLAINTEXT://localhost:0")
    assert len(set(ports)) == 3
    assert not set(ports) & set(ephemeral_ports())


def test_a_given_port_is_counted_up(tmp_path: Path) -> None:
    assert listeners(tmp_path, "PLAINTEXT://localhost:9092") == [9092, 9093, 9094]


def test_ports_of_several_listeners_do_not_meet(tmp_path: Path) -> None:
    near = "PLAINTEXT://localhost:9092,SSL://localhost:9093"
    assert listeners(tmp_path, near) == [9092, 9093, 9094, 9095, 9096, 9097]
    far = "PLAINTEXT://localhost:9092,SSL://localhost:9095"
    assert listeners(tmp_path, far) == [9092, 9095, 9093, 9096, 9094, 9097]
    assert listeners(tmp_path, far, AUTO) == [9092, 9095, 9096, 9099, 9100, 9103]  # whatever the number of cores


def properties_of(directory: Path, brokers: int, ids: list[int], **given: str) -> list[dict[str, str]]:
    named = {name.replace("_", "."): value for name, value in given.items()}
    config = KafkaConfig({"log.dirs": str(directory), **named})
    arguments = argparse.Namespace(brokers=brokers, file=None, config=None, properties=list(named.items()))
    lines = commands(config, arguments, ids)
    return [dict(word.split("=", 1) for word in line if "=" in word) for line in lines]


def test_one_broker_per_core_has_the_defaults_of_one_broker(tmp_path: Path) -> None:
    first, second = properties_of(tmp_path, AUTO, [1, 2])
    assert first.pop("log.dirs") == f"{tmp_path}/broker-1"
    assert second["log.dirs"] == f"{tmp_path}/broker-2"
    assert first == {
        "kwire.metadata.dir": f"{tmp_path}/metadata",
        "kwire.balance.enable": "true",
        "node.id": "1",
        "listeners": "PLAINTEXT://localhost:9092",
    }


def test_a_number_of_brokers_replicates(tmp_path: Path) -> None:
    first = properties_of(tmp_path, 3, [1, 2, 3])[0]
    assert first["default.replication.factor"] == first["offsets.topic.replication.factor"] == "3"
    assert "kwire.balance.enable" not in first


def test_each_log_directory_has_a_part_of_each_broker(tmp_path: Path) -> None:
    found = properties_of(tmp_path, AUTO, [1, 2], log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    assert found[1]["log.dirs"] == f"{tmp_path}/a/broker-2,{tmp_path}/b/broker-2"


def test_what_the_configuration_has_is_not_replaced(tmp_path: Path) -> None:
    found = properties_of(tmp_path, AUTO, [1], kwire_metadata_dir="/m", kwire_balance_enable="false")
    assert (found[0]["kwire.metadata.dir"], found[0]["kwire.balance.enable"]) == ("/m", "false")


def test_the_ports_follow_the_ids(tmp_path: Path) -> None:
    found = properties_of(tmp_path, AUTO, [1, 2, 5])
    assert [each["listeners"][-4:] for each in found] == ["9092", "9093", "9096"]


def test_advertised_ports_are_counted_up_with_the_others(tmp_path: Path) -> None:
    found = properties_of(
        tmp_path,
        AUTO,
        [1, 2],
        listeners="PLAINTEXT://:9092,SSL://:9093",
        advertised_listeners="PLAINTEXT://a:19092,SSL://a:19093",
    )
    assert found[1]["advertised.listeners"] == "PLAINTEXT://a:19094,SSL://a:19095"

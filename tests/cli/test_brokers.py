"""The command lines of the brokers of `kwire start --brokers`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from kwire.base.config import KafkaConfig
from kwire.base.free_ports import ephemeral_ports
from kwire.cli.brokers import commands


def listeners(directory: Path, value: str) -> list[int]:
    """The ports in the listeners of three brokers."""
    config = KafkaConfig({"log.dirs": str(directory), "listeners": value})
    arguments = argparse.Namespace(brokers=3, file=None, config=None, properties=[])
    words = [word for command in commands(config, arguments) for word in command if word.startswith("listeners=")]
    return [int(port) for word in words for port in re.findall(r":(\d+)", word)]


def test_port_0_becomes_different_ports_that_no_outgoing_connection_takes(tmp_path: Path) -> None:
    """A port that is picked and released twice may be the same one, and one of the ephemeral range may be taken before
    the broker binds it, or while it is restarted."""
    ports = listeners(tmp_path, "PLAINTEXT://localhost:0")
    assert len(set(ports)) == 3
    assert not set(ports) & set(ephemeral_ports())


def test_a_given_port_is_counted_up(tmp_path: Path) -> None:
    assert listeners(tmp_path, "PLAINTEXT://localhost:9092") == [9092, 9093, 9094]

"""Fixtures of the disk tests: volumes that are unmounted afterwards, and a kwire broker with given log directories.

Most tests are for kwire only: on a full disk Apache Kafka takes the log directory offline, and shuts down with the last
one, while kwire waits for space. `test_like_kafka` compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.comparisons.disk.volumes import Account, Volume
from harness.processes.brokers import Broker, make_broker


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Callable[..., Volume]]:
    """``volume("tmpfs", size_mib=8)``: a fresh file system."""
    made: list[Volume] = []

    def make(kind: str = "tmpfs", size_mib: int = 8) -> Volume:
        made.append(Volume(kind, tmp_path / f"volume-{len(made)}", size_mib))
        return made[-1]

    yield make
    for each in made:
        each.unmount()


@pytest.fixture
def broker_on(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """``broker_on(path, path, **{"property": "value"})``: a started kwire broker with these `log.dirs`."""
    started: list[Broker] = []

    def start(*directories: Path, **settings: str) -> Broker:
        often = {"replica.high.watermark.checkpoint.interval.ms": "300", "log.cleaner.backoff.ms": "300"}
        dirs = {"log.dirs": ",".join(str(each / "data") for each in directories)}
        broker = make_broker("kwire", tmp_path / f"broker-{len(started)}", {**often, **dirs, **settings})
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.kill()


@pytest.fixture
def account_with() -> Iterator[Callable[[Broker], Account]]:
    """``account_with(broker)``: an `Account` that is closed afterwards."""
    made: list[Account] = []

    def make(broker: Broker) -> Account:
        made.append(Account(broker.bootstrap))
        return made[-1]

    yield make
    for account in made:
        account.wire.close()

"""Fixtures of the disk tests: volumes that are unmounted afterwards, and a kwire broker on directories of one's choice.

kwire only, but for `test_like_kafka`: Apache Kafka gives a directory up, and with the last one itself, where kwire
waits for room.
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
    """``broker_on(path, path, **{"property": "value"})``: a started kwire with these `log.dirs`."""
    started: list[Broker] = []

    def start(*directories: Path, **settings: str) -> Broker:
        quick = {"replica.high.watermark.checkpoint.interval.ms": "300", "log.cleaner.backoff.ms": "300"}
        dirs = {"log.dirs": ",".join(str(each / "data") for each in directories)}
        broker = make_broker("kwire", tmp_path / f"broker-{len(started)}", {**quick, **dirs, **settings})
        started.append(broker)
        broker.start()
        return broker

    yield start
    for broker in started:
        broker.kill()


@pytest.fixture
def account_with() -> Iterator[Callable[[Broker], Account]]:
    """``account_with(broker)``: a client that is closed afterwards."""
    made: list[Account] = []

    def make(broker: Broker) -> Account:
        made.append(Account(broker.bootstrap))
        return made[-1]

    yield make
    for account in made:
        account.wire.close()

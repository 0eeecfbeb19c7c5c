"""A broker at its limit of file descriptors: it keeps running, responds with errors, and recovers."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path

from compat_tests.comparisons.disk.volumes import STORAGE_ERROR, Account
from harness.processes.brokers import Broker, wait_until

BrokerOn = Callable[..., Broker]
AccountWith = Callable[[Broker], Account]
PARTITIONS = 40


def allow(broker: Broker, descriptors: int) -> None:
    _, most = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (min(descriptors, most), most))


def in_use(broker: Broker) -> int:
    return 1 + max(int(each) for each in os.listdir(f"/proc/{broker.pid}/fd"))


def test_files_and_connections_wait_for_descriptors(
    tmp_path: Path, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    broker = broker_on(tmp_path)
    account = account_with(broker)
    assert account.create(PARTITIONS) == 0
    assert account.write(0) == 0
    assert isinstance(account.read(0), dict)
    allow(broker, in_use(broker))

    # Files: the broker closes idle files to open others.
    codes = {partition: account.write(partition) for partition in range(PARTITIONS)}
    assert set(codes.values()) <= {0, STORAGE_ERROR}
    assert list(codes.values()).count(0) > PARTITIONS // 2
    # Checkpoints and new topics may fail, but the log directory stays online.
    account.create(name="u")
    # Connections wait.
    waiting = [socket.create_connection((broker.host, broker.port)) for _ in range(5)]
    wait_until(lambda: "cannot accept" in broker.log_text(), 5, "the line in the log")
    assert account.write(0) == 0
    account.check(0)

    allow(broker, 4096)
    late = account_with(broker)
    for partition in range(PARTITIONS):
        assert late.write(partition) == 0
        account.read(partition)
    assert account.create(name="v") == 0
    for sock in waiting:
        sock.close()
    assert "log directory failed" not in broker.log_text()
    assert "Traceback" not in broker.log_text()
    assert broker.stop() == 0
    broker.start()
    account.reconnect()
    account.check(0)

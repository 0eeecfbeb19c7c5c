"""The command in the test's process, at kwire and at Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.auditing.audits import Audits, Topics
from harness.processes.brokers import Broker

LASTING = {"retention.ms": "-1"}  # the records are old


@pytest.fixture
def topics(broker: Broker, make_topic: Callable[..., str]) -> Topics:
    return Topics(broker.bootstrap, lambda partitions: make_topic(partitions, LASTING))


@pytest.fixture
def audit(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Audits:
    return Audits(broker.bootstrap, capsys.readouterr)

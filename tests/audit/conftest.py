"""A broker with topics to audit, and the command in the test's process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.auditing.audits import Audits, Topics
from kwire.testing import Kwire, KwireProcess

LASTING = {"retention.ms": "-1"}  # the records are old


@pytest.fixture(scope="session")
def audited_process() -> Iterator[KwireProcess]:
    with KwireProcess({"replica.high.watermark.checkpoint.interval.ms": "50"}) as process:
        yield process


@pytest.fixture
def broker(audited_process: KwireProcess) -> Iterator[Kwire]:
    broker = Kwire(audited_process)
    yield broker
    broker.reset()


@pytest.fixture
def topics(broker: Kwire) -> Topics:
    return Topics(broker.bootstrap_servers, lambda partitions: broker.topic(partitions=partitions, config=LASTING))


@pytest.fixture
def audit(broker: Kwire, capsys: pytest.CaptureFixture[str]) -> Audits:
    """Run ``kwire audit``."""
    return Audits(broker.bootstrap_servers, capsys.readouterr)

"""docs/SQL.md: its commands, in its order, print what it shows, on both brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.documents import guides
from harness.processes.brokers import Broker
from harness.registries.process import Registry


@pytest.mark.long_on_kafka
def test_the_guide_prints_what_it_shows(broker_factory: Callable[..., Broker], tmp_path: Path) -> None:
    """Those for Spark run in `compat_tests/clients/pyspark`."""
    broker = broker_factory()
    guides.programs(tmp_path)
    elsewhere = ("pip install", "--continuous")
    blocks = [each for each in guides.blocks("SQL.md") if not any(words in each[0] for words in elsewhere)]
    assert len(blocks) >= 10
    registry = Registry(broker.bootstrap, "_schemas")
    try:
        here = {
            "/var/lib/kwire": str(broker.data_dir),
            "http://localhost:8081": registry.url,
            "localhost:9092": broker.bootstrap,
        }
        for commands, shown in blocks:
            guides.check(commands, shown, tmp_path, broker.bootstrap, here)
    finally:
        registry.close()
    assert (tmp_path / "orders.csv").read_text().count("\n") == 6

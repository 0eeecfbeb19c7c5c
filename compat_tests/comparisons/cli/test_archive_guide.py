"""docs/ARCHIVE.md: its commands, in its order, print what it shows, on both brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.documents import guides
from harness.processes.brokers import Broker


@pytest.mark.long_on_kafka
def test_the_guide_prints_what_it_shows(broker_factory: Callable[..., Broker], tmp_path: Path) -> None:
    broker = broker_factory()
    guides.programs(tmp_path)
    blocks = [each for each in guides.blocks("ARCHIVE.md") if "pip install" not in each[0]]
    assert len(blocks) >= 6
    for commands, shown in blocks:
        guides.check(commands, shown, tmp_path, broker.bootstrap, {"/var/lib/kwire": str(broker.data_dir)})

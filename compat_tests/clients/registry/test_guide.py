"""docs/SCHEMA_REGISTRY.md: its commands print what it shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compat_tests.documents import guides
from harness.processes.brokers import Broker
from harness.registries.process import Registry


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing (apt-get install curl)")
def test_the_guide_prints_what_it_shows(
    broker: Broker, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWIRE_SCHEMA_REGISTRY_URL", registry.url)
    guides.programs(tmp_path)
    blocks = guides.blocks("SCHEMA_REGISTRY.md")
    assert len(blocks) >= 3
    for commands, shown in blocks:
        guides.check(
            commands, shown, tmp_path, broker.bootstrap, {"http://localhost:8081": registry.url}, plain=str.strip
        )

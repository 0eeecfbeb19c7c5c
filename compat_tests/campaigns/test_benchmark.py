"""A tiny run of the lines of TLS of `scripts/bench`, on kwire only: the load generator's TLS works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.benchmark import generator
from tools.benchmark.secured import ADDED, COST, SecuredTarget, secured


def test_tls_is_measured(tmp_path: Path) -> None:
    try:
        generator.generator(tls=True)
    except (generator.LoadFailed, FileNotFoundError) as error:
        pytest.skip(f"the load generator needs gcc and libssl-dev: {error}")
    target = SecuredTarget("kwire", tmp_path)
    target.start()
    try:
        found = {each.key: each.measure(target, 0.005) for each in secured()}
    finally:
        target.broker.kill()
    assert all(facts[COST] > 0 and ADDED in facts for facts in found.values())

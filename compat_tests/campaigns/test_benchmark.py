"""Tiny runs of `scripts/bench`, on kwire only: the lines of TLS, and one of several brokers on one host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.benchmark import generator
from tools.benchmark.setups.cores import CoresTarget, OneRecordOnCores
from tools.benchmark.setups.secured import ADDED, COST, SecuredTarget, secured


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


def test_leaders_on_several_brokers_are_measured(tmp_path: Path) -> None:
    try:
        generator.generator()
    except (generator.LoadFailed, FileNotFoundError) as error:
        pytest.skip(f"the load generator needs gcc: {error}")
    target = CoresTarget(tmp_path, 2)
    target.start()
    try:
        facts = OneRecordOnCores(4, 200)(target, 1)
        assert len(set(target.create_topic(2).ports())) == 2
    finally:
        target.broker.kill()
    assert facts["cpu_s_per_thousand"] > 0

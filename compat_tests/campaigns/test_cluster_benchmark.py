"""A tiny run of every part of `tools/cluster_benchmark`, on kwire only, with one client."""

from __future__ import annotations

import json
from pathlib import Path

from tools.cluster_benchmark import __main__ as cluster_bench


def test_every_part_measures_a_cluster(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    words = ["--broker", "kwire", "--store", "embedded", "--clients", "librdkafka", "--timeouts", "default"]
    words += ["--partitions", "0", "20", "--scale", "0.002", "--workloads", "6p-16k"]
    words += ["--dir", str(tmp_path), "--json", str(found)]
    assert cluster_bench.main(words) == 0
    facts = json.loads(found.read_text())
    assert not facts["failures"]
    gaps = facts["failover_s"]["default"]["kwire"]
    assert set(gaps) == {f"{kill}/{what}" for kill in ("leader", "controller") for what in ("librdkafka", "elected")}
    assert all(values[0] > 0 for values in gaps.values())
    assert facts["throughput"]["6p-16k"]["kwire"]["records_s"][0] > 0
    assert set(facts["partitions"]) == {"0", "20"}
    assert not list(tmp_path.glob("kwire-cluster-*"))

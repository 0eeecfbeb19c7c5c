"""Something that is done to a cluster while clients work."""

from __future__ import annotations

from collections.abc import Callable

from compat_tests.cluster.load import Load, make_topics, stored
from harness.processes.brokers import wait_until
from harness.processes.kwire_cluster import KwireCluster


def under_load(cluster: KwireCluster, loads: list[Load], act: Callable[[], None]) -> None:
    """Do something while clients work; no record may be lost, and no client may get a fatal error."""
    make_topics(cluster.bootstrap, loads)
    cluster.wait_until_well()
    for load in loads:
        load.start()
    try:
        wait_until(lambda: all(load.is_under_way() for load in loads), 120, "all clients read what they write")
        act()
    finally:
        for load in loads:
            load.stop()
    problems = [problem for load in loads for problem in load.problems(stored(cluster.bootstrap, load.topic))]
    assert problems == [], [load.summary() for load in loads]
    assert all(len(load.acked) > 20 for load in loads)

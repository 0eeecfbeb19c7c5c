"""Several instances on one topic: one leads, and nothing is lost or given twice when it is killed under load."""

from __future__ import annotations

import threading
import urllib.error
from collections.abc import Callable

from compat_tests.clients.registry.conftest import Start
from harness.processes.brokers import wait_until
from harness.registries.process import Registry


def schema(number: int) -> dict[str, str]:
    return {"schema": f'{{"type":"record","name":"R{number}","fields":[]}}'}


def registered(registry: Registry, number: int) -> int | None:
    """The id, once the registry has acknowledged it; None if it did not."""
    try:
        answer = registry.call("POST", f"/subjects/s{number}/versions", schema(number))
    except (urllib.error.URLError, ConnectionError, OSError):
        return None
    return int(answer.body["id"]) if answer.status == 200 else None


def is_settled(registry: Registry, number: int) -> Callable[[], bool]:
    return lambda: registered(registry, number) is not None


def test_any_instance_takes_writes_and_reads_what_others_wrote(start: Start) -> None:
    first, second = start(), start()
    assert registered(second, 1) == 1
    assert registered(first, 2) == 2
    assert first.call("GET", "/subjects").body == second.call("GET", "/subjects").body == ["s1", "s2"]


def test_a_leader_that_is_killed_under_load_loses_nothing(start: Start) -> None:
    leader, survivor = start(), start()
    acknowledged: dict[int, int] = {}
    stop = threading.Event()

    def write(registry: Registry, first: int) -> None:
        number = first
        while not stop.is_set() and number < first + 100_000:
            id = registered(registry, number)
            if id is not None:
                acknowledged[number] = id
                number += 1

    threads = [
        threading.Thread(target=write, args=(registry, first), daemon=True)
        for registry, first in ((leader, 1_000_000), (survivor, 2_000_000), (survivor, 3_000_000))
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(acknowledged) > 60, 120, "schemas are registered")
    leader.kill()
    before = max(acknowledged.values())
    wait_until(lambda: max(acknowledged.values()) > before + 30, 120, "the other instance leads")
    stop.set()
    for thread in threads[1:]:
        thread.join(60)
    assert len(set(acknowledged.values())) == len(acknowledged), "an id was given twice"
    restarted = start()
    for registry in (survivor, restarted):
        for number, id in acknowledged.items():
            assert registry.call("GET", f"/subjects/s{number}/versions/1").body["id"] == id


def test_everything_is_there_after_a_restart(start: Start) -> None:
    first = start()
    assert [registered(first, number) for number in range(5)] == [1, 2, 3, 4, 5]
    first.kill()
    second = start()
    assert second.call("GET", "/subjects").body == [f"s{number}" for number in range(5)]
    wait_until(is_settled(second, 9), 60, "it leads")
    assert second.call("GET", "/subjects/s9/versions/1").body["id"] == 6

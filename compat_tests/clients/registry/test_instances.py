"""Several instances on one topic: one leads, and nothing is lost or given twice when it is killed under load."""

from __future__ import annotations

import urllib.error
from collections.abc import Callable

import pytest

from campaigns.schemas.registry_kills import run_campaign
from campaigns.schemas.registry_model import Model
from compat_tests.clients.registry.conftest import Start
from harness.processes.brokers import Broker, wait_until
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
    assert first.call("GET", "/subjects").body == ["s1", "s2"]
    # The other one reads it from the topic, in its own time.
    wait_until(lambda: second.call("GET", "/subjects").body == ["s1", "s2"], 60, "the other's subjects", 0.05)


@pytest.mark.long_on_kafka
@pytest.mark.timeout(900)
def test_instances_that_are_killed_under_load_lose_nothing(broker: Broker, topic: str) -> None:
    counts = run_campaign(broker.bootstrap, topic, kills=2, seed=5, stops=False)
    assert int(str(counts["kills_of_the_leader"])) >= 1
    assert int(str(counts["versions"])) >= 60


def test_what_is_lost_doubled_or_changed_makes_a_difference() -> None:
    model = Model()
    for subject, id, text in (("a", 1, "x"), ("a", 2, "y"), ("b", 1, "x"), ("c", 3, "z")):
        model.registered(subject, id, text)
    model.deleted("c")
    everything, live = model.expected(deleted=True), model.expected(deleted=False)
    assert model.differences(everything, live) == []
    assert [(each["subject"], each["version"]) for each in live] == [("a", 1), ("a", 2), ("b", 1)]
    another = {"subject": "d", "version": 1, "id": 9, "schema": "w"}
    for wrong in (
        (everything[1:], live),
        (everything, everything),
        ([*everything, another], live),
        ([*everything, everything[0]], live),
        ([{**everything[0], "id": 2}, *everything[1:]], live),
        ([*everything[:2], {**everything[2], "id": 4}, everything[3]], live),
    ):
        assert model.differences(*wrong) != []


def test_everything_is_there_after_a_restart(start: Start) -> None:
    first = start()
    assert [registered(first, number) for number in range(5)] == [1, 2, 3, 4, 5]
    first.kill()
    second = start()
    assert second.call("GET", "/subjects").body == [f"s{number}" for number in range(5)]
    wait_until(is_settled(second, 9), 60, "it leads")
    assert second.call("GET", "/subjects/s9/versions/1").body["id"] == 6

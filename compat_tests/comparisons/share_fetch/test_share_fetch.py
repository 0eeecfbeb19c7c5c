"""Members of a share group send the same requests to both brokers, and get the same responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.comparisons.configs.requests import wait_until
from compat_tests.comparisons.share_fetch.requests import ShareMember
from compat_tests.comparisons.share_state.requests import UNKNOWN_TOPIC, ShareStates
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
NOW = {"max_wait_ms": 0}
NOTHING = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}


@pytest.fixture
def members(broker: Broker, make_topic: Callable[..., str], new_name: Names) -> Iterator[list[ShareMember]]:
    """Two members of a group of the test's own; its partition is initialised at offset 0."""
    topic = make_topic()
    states = ShareStates(broker, new_name("group"), topic)
    made = [ShareMember(broker, states, topic, letter * 22) for letter in "mn"]
    try:
        wait_until(lambda: states.find(states.key()) == "NONE")
        wait_until(lambda: states.initialize(0, 1, 0)["error"] == "NONE")
        yield made
    finally:
        for client in (states.client, *(each.client for each in made)):
            client.close()


def test_records_are_acquired_and_acknowledged(members: list[ShareMember], observe: Observations) -> None:
    one, two = members
    one.produce(10)
    observe("first fetch", one.fetch(0))
    observe("the other member", two.fetch(0, limits=NOW))
    observe("accept and release", one.acknowledge(1, (0, 3, [ACCEPT]), (4, 7, [RELEASE])))
    observe("released ones", two.fetch(1))
    observe("reject by offset", two.fetch(2, (4, 7, [ACCEPT, REJECT, RELEASE, GAP]), limits=NOTHING))
    observe("the one that was released", two.fetch(3))
    observe("the end of a session", one.fetch(-1, (8, 8, [ACCEPT])))
    observe("what it had not acknowledged", two.fetch(4))
    observe("old version", two.acknowledge(5, (9, 9, [ACCEPT]), version=1))
    observe("nothing is left", two.fetch(6, limits=NOW, version=1))


def test_limits_of_records(members: list[ShareMember], observe: Observations) -> None:
    one, two = members
    one.produce(10)
    one.produce(10)
    observe("strict", one.fetch(0, limits={"max_records": 4, "share_acquire_mode": 1}))
    observe("whole batches", two.fetch(0, limits={"max_records": 4}))
    observe("in batches", one.fetch(1, limits={"max_records": 9, "batch_size": 3}))
    observe("no records", one.fetch(2, limits={"max_records": 0}))
    observe("no bytes", one.fetch(3, limits={"max_bytes": 0, "min_bytes": 0}))


@pytest.mark.parametrize(
    "batches",
    [
        [(3, 2, [ACCEPT])],
        [(0, 2, [ACCEPT]), (1, 3, [ACCEPT])],
        [(0, 2, [ACCEPT]), (2, 3, [ACCEPT])],
        [(0, 2, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 2, [5])],
        [(0, 2, [-1])],
        [(0, 2, [RENEW])],
        [(0, 2**40, [ACCEPT])],
        [(5, 6, [ACCEPT])],
        [(-5, -1, [ACCEPT])],
        [(2**63 - 2, 2**63 - 1, [ACCEPT])],
        [],
    ],
)
def test_hostile_acknowledgements(members: list[ShareMember], observe: Observations, batches: Any) -> None:
    one, _ = members
    one.produce(5)
    observe("fetch", one.fetch(0))
    observe("acknowledge", one.acknowledge(1, *batches))
    observe("with a fetch", one.fetch(2, *batches, limits=NOW))
    observe("renewing", one.acknowledge(3, *batches, renew=True))
    observe("in order", one.acknowledge(4, (0, 4, [ACCEPT])))


def test_epochs(members: list[ShareMember], observe: Observations) -> None:
    one, two = members
    # Apache Kafka leaves a partition out whose state it has not read yet.
    wait_until(lambda: bool(two.fetch(0, limits=NOW)["partitions"]))
    two.acknowledge(-1)
    observe("no session", [one.fetch(1), one.fetch(-1), one.acknowledge(1), one.acknowledge(-1), one.acknowledge(0)])
    observe("open with acknowledgements", one.fetch(0, (0, 0, [ACCEPT])))
    observe("open", one.fetch(0, limits=NOW))
    observe("wrong epochs", [one.fetch(each) for each in (2, -2, 2**31 - 1)])
    observe("wrong epochs of acknowledgements", [one.acknowledge(each) for each in (0, 2, -2)])
    observe("next", one.fetch(1, limits=NOW))
    two.member_id = one.member_id
    observe("the same member on another connection", two.fetch(2, limits=NOW))
    observe("open again", two.fetch(0, limits=NOW))
    observe("end", one.acknowledge(-1))
    observe("end again", one.acknowledge(-1))


def test_what_is_refused(members: list[ShareMember], observe: Observations) -> None:
    one, two = members
    one.produce(2)
    observe("forget", [one.fetch(0), one.fetch(1, partition=None, forget=0, limits=NOW)])
    observe("no such partition", one.fetch(2, partition=7, limits=NOW))
    observe("forget it", one.fetch(3, partition=None, forget=7, limits=NOW))
    observe("renew with limits", one.fetch(4, (0, 1, [RENEW]), limits={"is_renew_ack": True}))
    observe("renew", one.fetch(4, (0, 1, [RENEW]), limits={**NOTHING, "is_renew_ack": True}))
    one.topic_id = UNKNOWN_TOPIC
    # A fetch of an unknown topic id: UNKNOWN_SERVER_ERROR in Kafka, where the name is null; UNKNOWN_TOPIC_ID here.
    observe("acknowledge in no topic", one.acknowledge(5, (0, 1, [ACCEPT])))
    two.member_id = ""
    observe("no member", [two.fetch(0), two.acknowledge(0)])
    two.member_id = "n" * 37
    observe("a long member", [two.fetch(0), two.acknowledge(0)])
    two.group = None
    observe("no group", [two.fetch(0), two.acknowledge(0)])

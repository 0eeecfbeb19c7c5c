"""FindCoordinator in every version, and group settings that need a separate broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.comparisons.groups.script import Script, join, leave, sync
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest


def found(script: Script, response: Any) -> Any:
    """A response without the port, which differs."""
    for place in (response, *response.coordinators):
        if place.port == script.broker.port:
            place.port = 0
    return response


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_found(script: Script, new_name: Names, version: int) -> None:
    script.ready(new_name("group"))
    if version < 4:
        requests = {"group": FindCoordinatorRequest(key="g"), "empty": FindCoordinatorRequest(key="")}
        strange = FindCoordinatorRequest(key="g", key_type=9)
        share = FindCoordinatorRequest(key="g", key_type=2)
    else:
        requests = {
            "groups": FindCoordinatorRequest(coordinator_keys=["g", "", "h", "g"]),
            "none": FindCoordinatorRequest(coordinator_keys=[]),
        }
        strange = FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=9)
        share = FindCoordinatorRequest(coordinator_keys=["bad", "g:AAAAAAAAAAAAAAAAAAAAAA"], key_type=2)
    if version >= 1:
        requests |= {"strange": strange, "share": share}
    for what, request in requests.items():
        response = found(script, script.client(what).call(request, version))
        for place in response.coordinators:
            place.error_message = None  # Kafka has one text for the request, or one for each key
        script.see(what, response)


def test_groups_have_a_largest_size(broker_factory: Callable[..., Broker], observe: Observations) -> None:
    with Script(broker_factory({"group.max.size": "2"})) as script:
        group = "full"
        fields: dict[str, Any] = {"rebalance_timeout_ms": 2_000}
        script.ready(group)
        first = script.call("a", join(group, **fields), 3, "a")
        parked = script.send(join(group, **fields), 3, "b")
        script.until(group, "PreparingRebalance")
        first = script.call("a again", join(group, first.member_id, **fields), 3, "a")
        second = script.receive("b joined", parked)
        script.call("c while the leader assigns", join(group, **fields), 3, "c")
        script.call("a syncs", sync(group, first, {}), 3, "a")
        script.call("c in a stable group", join(group, **fields), 3, "c")
        script.call("c in version 9", join(group, **fields), 9, "c")
        parked = script.send(join(group, first.member_id, **fields), 3, "a")
        script.until(group, "PreparingRebalance")
        waiting = script.send(join(group, **fields), 3, "c")
        assert script.is_parked(waiting)
        script.call("b is late", join(group, second.member_id, **fields), 3, "b")
        script.call("d is too many", join(group, **fields), 3, "d")
        script.receive("a joined", parked)
        script.receive("c joined", waiting)
        script.call("all leave", leave(group, (first.member_id, None)), 5)
        observe("conversation", script.seen)


def test_the_first_rebalance_waits(broker_factory: Callable[..., Broker], observe: Observations) -> None:
    with Script(broker_factory({"group.initial.rebalance.delay.ms": "1500"})) as script:
        group = "slow"
        script.ready(group)
        first = script.send(join(group), 3, "a")
        assert script.is_parked(first, 1.0)
        script.describe("waiting", group)
        second = script.send(join(group), 3, "b")
        assert script.is_parked(first, 1.0), "somebody came: it waits once more"
        leader, follower = script.receive("a joined", first), script.receive("b joined", second)
        waiting = script.send(sync(group, follower), 3, "b")
        script.call("a syncs", sync(group, leader, {follower.member_id: b"B"}), 3, "a")
        script.receive("b synced", waiting)
        third = script.send(join(group), 3, "c")
        script.until(group, "PreparingRebalance")
        again = script.send(join(group, leader.member_id), 3, "a")
        script.call("b joins at once", join(group, follower.member_id), 3, "b")
        script.receive("a joined again", again)
        script.receive("c joined", third)
        observe("conversation", script.seen)

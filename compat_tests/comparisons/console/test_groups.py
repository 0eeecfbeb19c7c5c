"""Groups in the console, of both protocols: members, lag, history, seeking, deletion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.names import Names
from compat_tests.reading import member_that_has_read
from harness.console.asgi_client import AsgiClient
from harness.console.in_process import console as console_of
from harness.observations import Observations
from harness.processes.brokers import Broker
from harness.waiting import PATIENCE_S


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_group_is_shown(
    protocol: str,
    console: AsgiClient,
    broker: Broker,
    make_topic: Callable[..., str],
    new_name: Names,
    observe: Observations,
) -> None:
    topic, group = make_topic(2), new_name("group")
    consumer = member_that_has_read(broker.bootstrap, topic, group, protocol)

    async def listed(state: str) -> Any:
        """The group in the list, once it is in a state: a rebalance takes a moment."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                rows = (await console.get("/api/groups")).json()
                found = [each | {"group": "group"} for each in rows if each["group"] == group]
                if found and found[0]["state"] == state:
                    return found
                await asyncio.sleep(0.05)

    observe("listed", await listed("Stable"))
    shown = (await console.get(f"/api/groups/{group}")).json()
    [member] = shown.pop("members")
    assert member["partitions"] == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    assert {each.pop("member") for each in shown["lag"]} == {member["id"]}
    assert shown.pop("lag") == [
        {"topic": topic, "partition": 0, "committed": 3, "end": 5, "lag": 2},
        {"topic": topic, "partition": 1, "committed": None, "end": 5, "lag": None},
    ]
    observe("group", shown | {"group": "group"})
    [reader] = (await console.get(f"/api/topics/{topic}/groups")).json()
    assert (reader["group"], reader["lag"], reader["members"]) == (group, 2, 1)
    history = (await console.get(f"/api/groups/{group}/history?minutes=5")).json()
    assert (len(history["times"]), history["topics"]) == (1, {topic: [2]})
    refused = await console.ask("POST", f"/api/groups/{group}/seek", {"to": "earliest", "execute": True})
    observe("seek with a member", (refused.status, refused.json()["error"]["code"]))
    refused = await console.ask("DELETE", f"/api/groups/{group}", {})
    observe("deletion with a member", (refused.status, refused.json()["error"]["code"]))
    consumer.close()
    observe("listed without members", await listed("Empty"))


async def test_a_group_goes_on_elsewhere(
    console: AsgiClient,
    broker: Broker,
    make_topic: Callable[..., str],
    new_name: Names,
    observe: Observations,
) -> None:
    topic, group = make_topic(2), new_name("group")
    member_that_has_read(broker.bootstrap, topic, group, "classic").close()
    request = {"to": "latest", "topics": [topic]}

    async def committed() -> Any:
        lag = (await console.get(f"/api/groups/{group}")).json()["lag"]
        return [(each["partition"], each["committed"]) for each in lag]

    plan = (await console.ask("POST", f"/api/groups/{group}/seek", request)).json()
    assert [(each["partition"], each["committed"], each["new"]) for each in plan] == [(0, 3, 5), (1, None, 5)]
    assert await committed() == [(0, 3)]
    async with console_of(broker.bootstrap) as reading:
        assert (await reading.ask("POST", f"/api/groups/{group}/seek", request)).status == 200
        done = await reading.ask("POST", f"/api/groups/{group}/seek", {**request, "execute": True})
        assert done.status == 403
    assert (await console.ask("POST", f"/api/groups/{group}/seek", {**request, "execute": True})).status == 200
    assert await committed() == [(0, 5), (1, 5)]
    topics = {"topics": [{"topic": topic, "partitions": [1]}]}
    deleted = await console.ask("DELETE", f"/api/groups/{group}/offsets", topics)
    assert deleted.json() == [{"topic": topic, "partition": 1}]
    assert await committed() == [(0, 5)]
    assert (await console.ask("DELETE", f"/api/groups/{group}", {})).json() == {"group": group}
    gone = await console.get(f"/api/groups/{group}")
    observe("gone", (gone.status, gone.json()["error"]["code"]))
    again = await console.ask("DELETE", f"/api/groups/{group}", {})
    observe("deleted twice", (again.status, again.json()["error"]["code"]))
    history = await console.get(f"/api/groups/{group}/history")
    observe("history", (history.status, history.json()["error"]["code"]))

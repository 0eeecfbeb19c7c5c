"""Brokers, transactions, access control, users and quotas in the console, and changes of topics."""

from __future__ import annotations

import asyncio
from typing import Any

from confluent_kafka import Producer

from compat_tests.names import Names
from harness.console.asgi_client import AsgiClient
from harness.observations import Observations
from harness.processes.brokers import Broker
from harness.waiting import PATIENCE_S


async def test_brokers_are_shown(console: AsgiClient, observe: Observations) -> None:
    [row] = (await console.get("/api/brokers")).json()
    assert row["bytes"] is not None
    assert row["leaders"] == row["replicas"] >= 0
    assert row["disk_bytes"] > row["free_bytes"] > 0
    observe("broker", {name: row[name] for name in ("id", "host", "rack", "controller", "state")})
    configs = (await console.get(f"/api/configs/brokers/{row['id']}")).json()
    [node_id] = [each for each in configs if each["name"] == "node.id"]
    observe("node.id", {name: node_id[name] for name in ("value", "source", "read_only", "sensitive")})
    unknown = await console.get("/api/configs/brokers/77")
    observe("unknown broker", (unknown.status, unknown.json()["error"]["code"]))


async def test_transactions_are_shown(
    console: AsgiClient, broker: Broker, make_topic: Any, new_name: Names, observe: Observations
) -> None:
    topic, name = make_topic(1), new_name("transaction")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"v")
    assert producer.flush(20) == 0
    [row] = [each for each in (await console.get("/api/transactions")).json() if each["transactional_id"] == name]
    observe("state", row["state"])
    shown = (await console.get(f"/api/transactions/{name}")).json()
    assert shown["partitions"] == [{"topic": topic, "partitions": [0]}]
    observe("shown", (shown["state"], shown["timeout_ms"]))
    [writer] = (await console.get(f"/api/topics/{topic}/producers")).json()
    observe("producer", (writer["partition"], writer["epoch"], writer["last_sequence"], writer["transaction_start"]))
    uncommitted = (await console.get(f"/api/topics/{topic}/messages")).json()
    committed = (await console.get(f"/api/topics/{topic}/messages?isolation=read_committed")).json()
    assert (len(uncommitted["messages"]), len(committed["messages"])) == (1, 0)
    producer.commit_transaction(30)
    missing = await console.get("/api/transactions/no-such")
    observe("missing", (missing.status, missing.json()["error"]["code"]))


async def test_what_is_not_secured_is_told(console: AsgiClient, observe: Observations) -> None:
    acls = await console.get("/api/acls")
    observe("acls", (acls.status, acls.json()["error"]["code"]))
    assert (await console.get("/api/users")).status == 200
    assert (await console.get("/api/quotas")).status == 200


async def partitions_of(console: AsgiClient, topic: str) -> int:
    return len((await console.get(f"/api/topics/{topic}")).json().get("partitions", []))


async def test_topics_are_changed(console: AsgiClient, new_name: Names, observe: Observations) -> None:
    name = new_name("topic")

    async def asked(what: str, method: str, target: str, body: Any) -> None:
        answer = await console.ask(method, f"/api/topics{target}", body)
        content = answer.json()
        if "error" in content:
            content = content["error"]["code"]
        elif "name" in content:
            content["name"] = "topic"
        observe(what, (answer.status, content))

    configs = {"retention.ms": "60000"}
    await asked("made", "POST", "", {"name": name, "partitions": 2, "replication_factor": 1, "configs": configs})
    await asked("made twice", "POST", "", {"name": name})
    await asked("bad name", "POST", "", {"name": "no/name"})
    await asked("too many replicas", "POST", "", {"name": f"{name}-2", "replication_factor": 5})
    await asked("more partitions", "POST", f"/{name}/partitions", {"count": 3})
    await asked("fewer partitions", "POST", f"/{name}/partitions", {"count": 1})
    await asked("configs", "PATCH", f"/{name}/configs", {"set": {"segment.ms": "60000"}, "delete": ["retention.ms"]})
    await asked("bad config", "PATCH", f"/{name}/configs", {"set": {"segment.ms": "soon"}})
    async with asyncio.timeout(PATIENCE_S):
        while await partitions_of(console, name) < 3:  # noqa: ASYNC110 - a broker hears of them after the controller
            await asyncio.sleep(0.05)
    await asked("message", "POST", f"/{name}/messages", {"key": "k", "value": "v", "partition": 2})
    await asked("no such partition", "POST", f"/{name}/messages", {"value": "v", "partition": 9})
    await asked("key chooses", "POST", f"/{name}/messages", {"key": "some key", "value": None})
    await asked("deleted", "DELETE", f"/{name}", {})
    await asked("deleted twice", "DELETE", f"/{name}", {})

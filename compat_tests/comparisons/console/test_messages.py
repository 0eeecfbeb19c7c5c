"""Messages in the console: pages, one message, searches; and topics in detail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer

from harness.console.asgi_client import AsgiClient
from harness.observations import Observations
from harness.processes.brokers import Broker


def produce(broker: Broker, topic: str) -> None:
    """Messages of several kinds in two partitions."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4", "log_level": 0})
    for number in range(200):
        value = b'{"number": %d}' % number
        producer.produce(topic, value, key=b"k%d" % number, partition=number % 2, timestamp=1_000_000 + number)
    headers: list[tuple[str, str | bytes | None]] = [("source", b"test"), ("none", None)]
    producer.produce(topic, None, key=b"\xff", partition=0, timestamp=2_000_000, headers=headers)
    assert producer.flush(20) == 0


def named(content: Any, topic: str) -> Any:
    """The same content, with the topic's name replaced."""
    if isinstance(content, dict):
        return {key: named(each, topic) for key, each in content.items()}
    if isinstance(content, list):
        return [named(each, topic) for each in content]
    return "topic" if content == topic else content


async def test_messages_are_the_same(
    console: AsgiClient, broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic(2)
    produce(broker, topic)
    for query in ("limit=5", "from=-5&limit=5", "from=@1000100&limit=3", "from=50&partition=1&limit=2", "from=latest"):
        answer = await console.get(f"/api/topics/{topic}/messages?{query}")
        assert answer.status == 200
        observe(query, named(answer.json(), topic))
    for place in ("0/100", "1/5", "0/101"):
        answer = await console.get(f"/api/topics/{topic}/messages/{place}")
        observe(place, (answer.status, named(answer.json(), topic)))


async def test_searches_find_the_same(
    console: AsgiClient, broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic(2)
    produce(broker, topic)
    for query in (
        "key=k19",
        "value=77",
        "header=source%3Dtest",
        "json=number%3E197",
        "regex=1&key=%5Ek1..$",
        "limit=3",
    ):
        found, last = [], None
        async with console.events(f"/api/topics/{topic}/search?{query}") as events:
            async for event in events:
                last = event
                if event.name == "message":
                    found.append(named(event.data, topic))
        assert last is not None
        assert last.name == "done"
        if query == "limit=3":  # which three are read first is chance
            assert (last.data["reason"], last.data["matched"], len(found)) == ("limit", 3, 3)
            continue
        assert (last.data["reason"], last.data["scanned"], last.data["matched"]) == ("end", 201, len(found))
        observe(query, sorted(found, key=lambda each: (each["partition"], each["offset"])))


async def test_a_topic_is_described_the_same(
    console: AsgiClient, broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic(2, configs={"retention.ms": "3600000"})
    produce(broker, topic)
    answer = await console.get(f"/api/topics/{topic}")
    assert answer.status == 200
    content = answer.json()
    assert content["configs_error"] is None
    [retention] = [each for each in content["configs"] if each["name"] == "retention.ms"]
    assert retention.pop("documentation")  # each in its own words
    observe("retention", retention)
    observe("names", [each["name"] for each in content["configs"] if not each["default"]])
    observe("partitions", [(each["partition"], each["start"], each["end"]) for each in content["partitions"]])
    assert all(each["bytes"] > 0 for each in content["partitions"])
    [size] = (await console.get(f"/api/topics/sizes?names={topic},no-such-topic")).json()
    assert (size["name"], size["records"]) == (topic, 201)
    assert size["bytes"] == sum(each["bytes"] for each in content["partitions"])
    producers = (await console.get(f"/api/topics/{topic}/producers")).json()
    observe("producers", [(each["partition"], each["transaction_start"]) for each in producers])
    missing = await console.get("/api/topics/no-such-topic")
    observe("missing", (missing.status, missing.json()["error"]["code"]))

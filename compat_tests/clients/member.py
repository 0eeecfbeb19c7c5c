"""A member of a consumer group with one of the Python clients, as a process, so that a test can kill it.

``python -m compat_tests.clients.member CLIENT JSON``: the JSON object has bootstrap, group, topics, assignor,
session_timeout_ms, heartbeat_ms and, optionally, instance_id and protocol. The process prints events as JSON lines
(assignment, record, committed, fenced, closed) and reads the commands "leave" and "commit" from standard input, as
Java's `GroupMember` does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

COMMANDS: deque[str] = deque()
POLL_MS = 50
JOIN_MS = 2000


def say(event: str, **fields: Any) -> None:
    """Print one event, in a single write."""
    os.write(1, json.dumps({"event": event, **fields}).encode() + b"\n")


def say_assignment(partitions: Any, member: str, generation: int) -> None:
    """Print the event of a new assignment."""
    listed = sorted((one.topic, one.partition) for one in partitions)
    say("assignment", partitions=listed, member=member, generation=generation)


def read_commands() -> None:
    """Collect commands from standard input until it ends; runs in a thread."""
    for line in sys.stdin:
        COMMANDS.append(line.strip())
    COMMANDS.append("leave")  # the test has ended


def loop(poll: Callable[[], None], commit: Callable[[], object]) -> None:
    """Poll until the command "leave"."""
    while True:
        command = COMMANDS.popleft() if COMMANDS else ""
        if command == "leave":
            return
        if command == "commit":
            commit()
            say("committed")
        poll()


def group_properties(options: dict[str, Any], strategy: str) -> dict[str, Any]:
    """The consumer properties that librdkafka and Java share. ``strategy``: the library's name of the assignor."""
    config = {
        "bootstrap.servers": options["bootstrap"],
        "group.id": options["group"],
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }
    if options.get("instance_id"):
        config["group.instance.id"] = options["instance_id"]
    if options.get("protocol") == "consumer":  # KIP-848: the broker sets assignment strategy, session and heartbeats
        return {**config, "group.protocol": "consumer", "group.remote.assignor": options["assignor"]}
    return {
        **config,
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": options["session_timeout_ms"],
        "heartbeat.interval.ms": options["heartbeat_ms"],
    }


def run_confluent(options: dict[str, Any]) -> None:
    """Run a member with confluent-kafka until "leave"."""
    from confluent_kafka import Consumer, KafkaError, KafkaException

    config = {
        **group_properties(options, options["assignor"]),
        "max.poll.interval.ms": 60000,
        "fetch.wait.max.ms": 50,
        "topic.metadata.refresh.interval.ms": 500,
        "reconnect.backoff.max.ms": 500,
    }
    consumer = Consumer(config)
    cooperative = options["assignor"] == "cooperative-sticky" or options.get("protocol") == "consumer"

    def assigned(_: Any, partitions: list[Any]) -> None:
        if cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        say_assignment(consumer.assignment(), consumer.memberid(), -1)

    def revoked(_: Any, partitions: list[Any]) -> None:
        if cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        say("revoked", count=len(partitions))

    def poll() -> None:
        message = consumer.poll(0.05)
        if message is None:
            return
        error = message.error()
        if error is None:
            value = (message.value() or b"").decode()
            say("record", partition=message.partition(), offset=message.offset(), value=value)
        elif error.code() == KafkaError._FATAL or error.fatal():
            raise KafkaException(error)

    consumer.subscribe(options["topics"], on_assign=assigned, on_revoke=revoked)
    try:
        loop(poll, lambda: consumer.commit(asynchronous=False))
    except KafkaException as error:
        say("fenced" if "FENCED" in str(error) or "fenced" in str(error) else "failed", text=str(error))
    consumer.close()


def run_kafka_python(options: dict[str, Any]) -> None:
    """Run a member with kafka-python until "leave"."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.errors import FencedInstanceIdError

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = KafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        group_instance_id=options.get("instance_id"),
        partition_assignment_strategy=(assignors[options["assignor"]],),
        session_timeout_ms=options["session_timeout_ms"],
        heartbeat_interval_ms=options["heartbeat_ms"],
        max_poll_interval_ms=60000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
        metadata_max_age_ms=500,
    )

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            say("revoked", count=len(revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            say_assignment(assigned, "", -1)

    def poll() -> None:
        # kafka-python 3.0 loses a join that completes between two polls: the member then gets no assignment and sends
        # no heartbeat, with either broker. Such a member joins again, which the others notice; so polls are long while
        # it joins.
        coordinator = consumer._coordinator
        if coordinator._join_task is not None and coordinator._join_task.is_done and not coordinator.need_rejoin():
            coordinator.request_rejoin()
        joins = coordinator._join_task is not None or coordinator.need_rejoin()
        for batch in consumer.poll(timeout_ms=JOIN_MS if joins else POLL_MS).values():
            for record in batch:
                value = (record.value or b"").decode()
                say("record", partition=record.partition, offset=record.offset, value=value)

    consumer.subscribe(options["topics"], listener=Listener())
    try:
        loop(poll, consumer.commit)
    except FencedInstanceIdError as error:
        say("fenced", text=str(error))
    consumer.close()


async def run_aiokafka(options: dict[str, Any]) -> None:
    """Run a member with aiokafka until "leave"."""
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            say("revoked", count=len(revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            say_assignment(assigned, "", -1)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        group_instance_id=options.get("instance_id"),
        partition_assignment_strategy=(assignors[options["assignor"]],),
        session_timeout_ms=options["session_timeout_ms"],
        heartbeat_interval_ms=options["heartbeat_ms"],
        max_poll_interval_ms=60000,
        rebalance_timeout_ms=10000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=50,
        metadata_max_age_ms=500,
    )
    await consumer.start()
    consumer.subscribe(options["topics"], listener=Listener())
    while True:
        command = COMMANDS.popleft() if COMMANDS else ""
        if command == "leave":
            break
        if command == "commit":
            await consumer.commit()
            say("committed")
        for batch in (await consumer.getmany(timeout_ms=50)).values():
            for record in batch:
                value = (record.value or b"").decode()
                say("record", partition=record.partition, offset=record.offset, value=value)
    await consumer.stop()


def main() -> None:
    """The command: CLIENT JSON."""
    client, options = sys.argv[1], json.loads(sys.argv[2])
    threading.Thread(target=read_commands, daemon=True).start()
    if client == "aiokafka":
        asyncio.run(run_aiokafka(options))
    else:
        {"confluent": run_confluent, "kafka-python": run_kafka_python}[client](options)
    say("closed")


if __name__ == "__main__":
    main()

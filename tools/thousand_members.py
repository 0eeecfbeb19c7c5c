"""Measure how long a large consumer group (KIP-848) takes to a stable assignment: kwire beside Apache Kafka.

    .venv/bin/python -m tools.thousand_members [--members 1000] [--partitions 2000] [--broker both|kwire|kafka]

Scripted members share a few connections and follow the protocol: they join all at once, send heartbeat after heartbeat,
revoke what they must, and take what they are assigned. Measured is the time from the first request until every
partition has one owner and the group is Stable: when all join an empty group, when a tenth more joins, and when a tenth
leaves. Printed are seconds, the broker's CPU seconds, heartbeats, and the slowest response; with ``--rounds`` the
brokers take turns, and the medians follow at the end. Kafka's jars are fetched as for the compatibility tests.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.inspection import process_usage
from harness.processes.brokers import Broker, make_broker, wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic

TOPIC, GROUP = "many", "large"
CONNECTIONS = 20
LIMIT_S = 300.0


class Member:
    """One scripted member, with the state from its last response."""

    def __init__(self, name: str, group: str, client: WireClient) -> None:
        self.name = name
        self.group = group
        self.client = client
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.acknowledge = False
        self.sent = 0
        self.sent_at = 0.0

    def send(self, epoch: int | None = None) -> None:
        """Send a ConsumerGroupHeartbeat request; epoch 0 joins, -1 leaves."""
        epoch = self.epoch if epoch is None else epoch
        joins = epoch == 0
        owned = None
        if joins or self.acknowledge:
            owned = [TopicPartitions(topic_id=topic, partitions=part) for topic, part in self.owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.name,
            member_epoch=epoch,
            rebalance_timeout_ms=300_000 if joins else -1,
            subscribed_topic_names=[TOPIC] if joins else None,
            topic_partitions=owned,
        )
        self.acknowledge = False
        self.sent_at = time.perf_counter()
        self.sent = self.client.send(request, 1)

    def receive(self) -> float:
        """Read the response; return how long it took, in seconds."""
        answer = self.client.receive(ConsumerGroupHeartbeatRequest.API_KEY, 1, self.sent)
        assert answer.error_code == 0, (self.name, answer.error_code, answer.error_message)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
            self.acknowledge = True
        return time.perf_counter() - self.sent_at


class Crowd:
    """All members, and what they have measured since the last `settle`."""

    def __init__(self, broker: Broker, partitions: int, group: str = GROUP) -> None:
        self.group = group
        self.clients = [WireClient(broker.bootstrap, timeout_s=120) for _ in range(CONNECTIONS)]
        self.partitions = partitions
        self.members: list[Member] = []
        self.beats = 0
        self.slowest_s = 0.0

    def join(self, count: int) -> None:
        """Let this many new members join."""
        first = len(self.members)
        names = [f"member-{first + n:05d}" for n in range(count)]
        new = [Member(name, self.group, self.clients[n % CONNECTIONS]) for n, name in enumerate(names)]
        self._round(new, 0)
        self.members += new

    def leave(self, count: int) -> None:
        """Let the first members leave."""
        self._round(self.members[:count], -1)
        del self.members[:count]

    def settle(self) -> None:
        """Send heartbeats until every partition has an owner and the group is Stable."""
        end = time.monotonic() + LIMIT_S
        while not (self._all_owned() and self._state() == "Stable"):
            assert time.monotonic() < end, f"{self._state()} after {LIMIT_S:g} s"
            self._round(self.members, None)

    def _round(self, members: list[Member], epoch: int | None) -> None:
        for start in range(0, len(members), CONNECTIONS):
            some = members[start : start + CONNECTIONS]
            for member in some:
                member.send(epoch)
            for member in some:
                self.slowest_s = max(self.slowest_s, member.receive())
        self.beats += len(members)

    def _all_owned(self) -> bool:
        owned = [index for member in self.members for part in member.owned.values() for index in part]
        return sorted(owned) == list(range(self.partitions))

    def _state(self) -> str:
        found: Any = self.clients[0].call(ConsumerGroupDescribeRequest(group_ids=[self.group]), 1)
        return str(found.groups[0].group_state)


def prepare(broker: Broker, partitions: int) -> None:
    """Create the topic, and wait until its partitions and the group coordinator are available."""
    with WireClient(broker.bootstrap) as client:
        new = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
        client.call(CreateTopicsRequest(topics=[new], timeout_ms=60_000), 5)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])

        def there() -> bool:
            found = client.call(asked, 12).topics[0]
            return len(found.partitions) == partitions and all(one.leader_id >= 0 for one in found.partitions)

        wait_until(there, 120, "the topic")
        wait_until(lambda: all_served(client, partitions), 120, "the logs")
        find = FindCoordinatorRequest(key=GROUP)
        wait_until(lambda: client.call(find, 2).error_code == 0, 60, "a coordinator")
        describe = ConsumerGroupDescribeRequest(group_ids=[GROUP])
        wait_until(lambda: client.call(describe, 1).groups[0].error_code == 69, 60, "a loaded coordinator")
    # A coordinator may learn of a large topic later than Metadata tells it: a group of one must own it first.
    probe = Crowd(broker, partitions, "probe")
    probe.join(1)
    probe.settle()
    probe.leave(1)


def all_served(client: WireClient, partitions: int) -> bool:
    """Whether every partition is served. Metadata names leaders before the broker has created all logs."""
    wanted = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(partitions)]
    found: Any = client.call(ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=wanted)]), 6)
    return all(one.error_code == 0 for one in found.topics[0].partitions)


Taken = dict[str, list[tuple[float, float]]]
"""The measurements of one broker: by step, seconds and CPU seconds of each round."""


def measure(kind: str, members: int, partitions: int, taken: Taken) -> None:
    """Measure one kind of broker, step by step, and add the results to `taken`."""
    with tempfile.TemporaryDirectory(prefix="kwire-members-") as home:
        broker = make_broker(kind, Path(home))
        broker.start()
        try:
            prepare(broker, partitions)
            crowd = Crowd(broker, partitions)
            tenth = members // 10
            steps = [
                (f"{members} join", lambda: crowd.join(members)),
                (f"{tenth} more join", lambda: crowd.join(tenth)),
                (f"{tenth} leave", lambda: crowd.leave(tenth)),
            ]
            for what, step in steps:
                crowd.beats, crowd.slowest_s = 0, 0.0
                seconds = _take(broker, what, step, crowd, taken)
                print(
                    f"{kind:6} {what:18} stable after {seconds:6.2f} s, {taken[what][-1][1]:5.2f} s of CPU, "
                    f"{crowd.beats:6} heartbeats ({crowd.beats / seconds:6.0f}/s), "
                    f"slowest {crowd.slowest_s * 1000:6.0f} ms",
                    flush=True,
                )
        finally:
            broker.stop()


def _take(broker: Broker, what: str, step: Callable[[], object], crowd: Crowd, taken: Taken) -> float:
    cpu, start = process_usage.cpu_s(broker.pid), time.perf_counter()
    step()
    crowd.settle()
    seconds = time.perf_counter() - start
    taken.setdefault(what, []).append((seconds, process_usage.cpu_s(broker.pid) - cpu))
    return seconds


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--broker", choices=("both", "kwire", "kafka"), default="both")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    kinds = ("kafka", "kwire") if options.broker == "both" else (options.broker,)
    taken: dict[str, Taken] = {kind: {} for kind in kinds}
    for _ in range(options.rounds):
        for kind in kinds:
            measure(kind, options.members, options.partitions, taken[kind])
    for kind in kinds:
        for what, rounds in taken[kind].items():
            seconds = statistics.median(one for one, _ in rounds)
            cpu = statistics.median(one for _, one in rounds)
            print(f"median of {len(rounds)}: {kind:6} {what:18} {seconds:6.2f} s, {cpu:5.2f} s of CPU")


if __name__ == "__main__":
    main()

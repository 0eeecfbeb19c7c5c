"""A share group in a simulated cluster: its configuration, its members, and who watches its start offsets.

The group begins at the earliest offset, with short locks and sessions, and few records between two snapshots of its
state, whose log is pruned all the time. In half of the seeds, once everything is delivered, its members leave, its
start offsets are altered (AlterShareGroupOffsets), and new members get everything from there on again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from harness.simulation.sharing import promises
from harness.simulation.sharing.history import ShareHistory, Start
from harness.simulation.sharing.inside import Inside
from harness.simulation.sharing.member import Member
from harness.simulation.workload import PAUSE_S, TOPIC, Client
from kwire.codec.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.codec.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from harness.simulation.cluster import SimulatedCluster
    from harness.simulation.workload import History

GROUP: Final = "sharers"
MEMBERS: Final = 3
_GROUP_RESOURCE: Final = 32
DRAINED_S: Final = 60.0
"""How long after the last fault the group may take until everything is delivered and acknowledged."""

SETTINGS: Final = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "1500",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "400",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "2000",
    "group.share.assignment.interval.ms": "0",
    "group.share.initialize.retry.interval.ms": "500",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "log.roll.ms": "1500",
    "share.coordinator.state.topic.prune.interval.ms": "300",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
    "share.coordinator.cold.partition.snapshot.interval.ms": "1000",
    "share.coordinator.write.timeout.ms": "1000",
}
LIMITS: Final = (2, 3, 5, 10, 10)
"""How often a record may be delivered; a seed chooses."""


async def configure(client: Client, delivery_limit: int, *, committed: bool) -> None:
    """Set the properties of the group."""
    wanted = {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed" if committed else "read_uncommitted",
        "share.delivery.count.limit": str(delivery_limit),
    }
    configs = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in wanted.items()]
    resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=GROUP, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    while (await client.call_any(request, 1)).responses[0].error_code:  # noqa: ASYNC110
        await asyncio.sleep(PAUSE_S)


async def topic_id_of(client: Client) -> bytes:
    """The id of the topic, once a broker knows it."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    while (topic := (await client.call_any(asked, 12)).topics[0]).error_code:  # noqa: ASYNC110
        await asyncio.sleep(PAUSE_S)
    return bytes(topic.topic_id)


async def describe(client: Client) -> dict[int, Any]:
    """What DescribeShareGroupOffsets shows of the group's partitions, without those with errors."""
    wanted = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    found = (await client.call_any(wanted, 4)).coordinators[0]
    if found.error_code:
        return {}
    topic = DescribeShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=list(range(client.partitions)))
    group = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=[topic])
    response = await client.call((found.host, found.port), DescribeShareGroupOffsetsRequest(groups=[group]), 1)
    if response is None or response.groups[0].error_code:
        return {}
    partitions = [data for one in response.groups[0].topics for data in one.partitions]
    return {data.partition_index: data for data in partitions if not data.error_code}


async def alter(client: Client, offsets: dict[int, int]) -> bool:
    """Set start offsets by partition; False if there was no response, or any error (NON_EMPTY_GROUP among them)."""
    wanted = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    found = (await client.call_any(wanted, 4)).coordinators[0]
    if found.error_code:
        return False
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
        for partition, offset in offsets.items()
    ]
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=partitions)
    request = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])
    response = await client.call((found.host, found.port), request, 0)
    if response is None or response.error_code:
        return False
    return not any(data.error_code for one in response.responses for data in one.partitions)


class Sharing:
    """The group of one simulation. ``committed``: it is given committed records only."""

    def __init__(self, cluster: SimulatedCluster, partitions: int) -> None:
        random = cluster.simulation.random("share group")
        self.committed = random.random() < 0.5
        self.history = ShareHistory(random.choice(LIMITS))
        self._later = ShareHistory(self.history.delivery_limit)
        """What happens after the start offsets were altered."""
        self._altered: dict[int, int] | None = {} if random.random() < 0.5 else None
        """The start offsets that are set in the end; None if they stay."""
        self._cluster = cluster
        self._partitions = partitions
        names = [f"s{number}" for number in range(MEMBERS)]
        self.hosts = ["watcher", *names, *(f"{name}-data" for name in names)]
        self._watcher = Client(cluster, "watcher", partitions)
        self._clients = [
            (Client(cluster, name, partitions), Client(cluster, f"{name}-data", partitions)) for name in names
        ]
        self._members: list[Member] = []
        self._watched = self.history
        self._inside: Inside | None = None

    async def prepare(self) -> None:
        """Configure the group, and make its members."""
        await configure(self._watcher, self.history.delivery_limit, committed=self.committed)
        topic_id = await topic_id_of(self._watcher)
        self._inside = inside = Inside(self._cluster, GROUP, topic_id)
        self._members = [
            Member(GROUP, (TOPIC, topic_id), clients, inside.serving).attend(self.history) for clients in self._clients
        ]

    async def run(self, until_s: float) -> None:
        """Work until the time is over."""
        loop = asyncio.get_running_loop()

        def over() -> bool:
            return loop.time() >= until_s

        await asyncio.gather(self._watch(until_s), *(member.run(over) for member in self._members))

    async def _watch(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            await self._describe()
            await asyncio.sleep(self._watcher.random.uniform(0.1, 0.4))

    async def _describe(self) -> dict[int, Any]:
        """Note the start offsets; return what the description says of each partition."""
        assert self._inside is not None
        sent_s = self._now_s()
        before = [self._inside.state_leader(partition) for partition in range(self._partitions)]
        described = await describe(self._watcher)
        for partition, data in described.items():
            leader = before[partition]
            is_certain = leader is not None and leader == self._inside.state_leader(partition)
            self._watched.starts.append(Start(partition, data.start_offset, sent_s, self._now_s(), is_certain))
        return described

    def _now_s(self) -> float:
        return self._cluster.simulation.loop.time()

    # -- the end -------------------------------------------------------------------------------------------------------

    async def finish(self, ends: dict[int, int], history: History) -> None:
        """Accept everything until nothing is left; perhaps alter the start offsets then, and once more."""
        for member in self._members:
            member.finish()
        if not await self._drain(ends) or self._altered is None:
            return
        random = self._cluster.simulation.random("altered start offsets")
        offsets = {partition: random.choice(sorted(log)) for partition, log in self._logs(history).items() if log}
        if offsets and await self._alter(offsets):
            await self._drain({partition: ends[partition] for partition in offsets})

    async def _alter(self, offsets: dict[int, int]) -> bool:
        """Alter the start offsets, which takes until no member is left; False if it is never done."""
        for member in self._members:
            await member.leave()
        deadline_s = self._now_s() + DRAINED_S
        while not await alter(self._watcher, offsets):
            if self._now_s() > deadline_s:
                self.history.trouble.append(f"share stuck: an empty group's start offsets {offsets} are refused")
                return False
            await asyncio.sleep(PAUSE_S)
        self._altered = offsets
        self._watched = self._later
        for member in self._members:
            member.attend(self._later)
        return True

    async def _drain(self, ends: dict[int, int]) -> bool:
        """Run the members until nothing is left: the start offset that is stored may lag behind, as in Kafka."""
        drained = False
        deadline_s = self._now_s() + DRAINED_S
        working = asyncio.gather(*(member.run(lambda: drained) for member in self._members))
        left: dict[int, int] = {}
        while not drained:
            await asyncio.sleep(0.2)
            described = await self._describe()
            left = {partition: end for partition, end in ends.items() if end}
            for partition, end in list(left.items()):
                stored = described[partition].lag if partition in described else end
                left[partition] = min(stored, self._left(partition, stored), key=abs)
            drained = not any(left.values()) or self._now_s() > deadline_s
            if drained and any(left.values()):
                starts = {partition: data.start_offset for partition, data in described.items()}
                self._watched.trouble.append(
                    f"share stuck: {DRAINED_S:.0f} s after the last fault {left} records of partitions are left; the "
                    f"group is at {starts} of {ends}"
                )
        await working
        return not any(left.values())

    def _left(self, partition: int, stored: int) -> int:
        """What the leader has still to deliver. What is stored does not know of the aborted records at the end, as in
        Kafka: that they are done is written with the next change. What a leader knew before the start offset was
        altered does not count."""
        if self._altered and all(each.record[0] != partition for each in self._later.deliveries):
            return stored
        lag = None if self._inside is None else self._inside.lag(partition)
        return stored if lag is None else lag

    def _logs(self, history: History) -> dict[int, dict[int, int]]:
        """What had to be delivered, value by offset, by partition."""
        return history.committed if self.committed else history.final

    def counts(self) -> dict[str, int]:
        """How much has happened."""
        pruned = 0 if self._inside is None else self._inside.pruned()
        altered = {"share offsets altered": len(self._altered or ()), "share altered": len(self._later.deliveries)}
        return self.history.counts() | dict(self.history.errors) | {"share states pruned": pruned} | altered

    def anomalies(self, history: History) -> list[str]:
        """What must not be."""
        logs = self._logs(history)
        return [*promises.anomalies(self.history, logs), *promises.of_altered(self._later, self._altered or {}, logs)]

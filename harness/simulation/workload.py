"""The clients of a simulated cluster, after Jepsen's Kafka workload: they send unique values, poll, and note results.

Producers are idempotent and send the same batch again until they get its result, or give up (the result is unknown
then). Consumers read on from their positions, with read_uncommitted or read_committed. All results go into a `History`,
which `checker` checks. What lives elsewhere: producers in transactions
(`transactional`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from harness.raw_client import ConnectionClosed, RawClient
from kwire.base.errors import ErrorCode
from kwire.codec.message import Message
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch, iter_headers, iter_records, parse_end_transaction_marker

if TYPE_CHECKING:
    from random import Random

    from harness.simulation.cluster import SimulatedCluster
    from kwire.base.doors import Doors

TOPIC: Final = "t"
CALL_S: Final = 1.0
GIVE_UP_S: Final = 6.0
PRODUCE_MS: Final = 800
PAUSE_S: Final = 0.05
REFRESH: Final = 0.1
"""How often a client refreshes its metadata from a random broker, although it knows a leader."""
ANYWHERE: Final = 0.2
"""How often a consumer fetches from a random broker, as consumers that read from followers do (KIP-392)."""
BY_LEADERS: Final = 10
BY_FOLLOWERS: Final = 12
"""Versions of Fetch: only leaders serve the older one."""
_DUPLICATE: Final = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


@dataclass
class Transaction:
    """``sent``: partition by value; ``read``: values; ``outcome``: "committed" (EndTxn succeeded, or nothing was
    written), "aborted" (EndTxn with commit was never sent), "unknown"."""

    sent: dict[int, int] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)
    outcome: str = "aborted"


@dataclass
class History:
    """What happened. ``acked``: partition and offset by value (offset -1: not known); ``unknown``: values whose sending
    was given up; ``polled`` and ``committed_polled``: by consumer (the latter read_committed), what it read in its
    order: (partition, offset, value); ``final`` and ``committed``: the partitions in the end, as both read them."""

    acked: dict[int, tuple[int, int]] = field(default_factory=dict)
    unknown: dict[int, int] = field(default_factory=dict)
    polled: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    committed_polled: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)
    final: dict[int, dict[int, int]] = field(default_factory=dict)
    committed: dict[int, dict[int, int]] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)


class Host(Protocol):
    """Where a client runs."""

    name: str
    doors: Doors


class World(Protocol):
    """Hosts and randomness: `harness.simulation.Simulation`, or real ones."""

    def machine(self, name: str) -> Host:
        """A host for a client."""

    def random(self, purpose: str) -> Random:
        """Randomness for one purpose."""


class Site(Protocol):
    """A cluster as its clients see it: simulated, or real."""

    @property
    def simulation(self) -> World:
        """Where it is."""

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        """Host and port of every broker."""

    def look(self) -> None:
        """Called after each response."""


class Client:
    """A client with metadata, which it refreshes when a leader has moved. It ignores leaders of an older epoch than it
    has seen (KIP-320): the broker that names them is behind."""

    def __init__(self, cluster: Site, name: str, partitions: int, call_s: float = CALL_S) -> None:
        self.machine: Host = cluster.simulation.machine(name)
        self.random = cluster.simulation.random(f"{name} script")
        self.partitions = partitions
        self._cluster = cluster
        self._call_s = call_s
        self._connections: dict[tuple[str, int], RawClient] = {}
        self._leaders: dict[int, tuple[str, int]] = {}
        self.epochs: dict[int, int] = {}
        self.sent = False
        """Whether the last request may have reached a broker: there was a connection."""

    async def call(self, address: tuple[str, int], request: Message, version: int) -> Any:
        """Send one request; None if there is no response in time."""
        self.sent = False
        try:
            async with asyncio.timeout(self._call_s):
                connection = self._connections.get(address)
                if connection is None or connection.closed:
                    connection = await RawClient.connect(self.machine.doors, *address, self.machine.name)
                    self._connections[address] = connection
                self.sent = True
                response = await connection.call(request, version)
                self._cluster.look()
                return response
        except (TimeoutError, OSError, ConnectionClosed):
            lost = self._connections.pop(address, None)
            if lost is not None:
                lost.close()
            return None

    async def call_any(self, request: Message, version: int) -> Any:
        """Send one request to random brokers until one responds."""
        while True:
            response = await self.call(self.random.choice(self._cluster.bootstrap), request, version)
            if response is not None:
                return response
            await asyncio.sleep(PAUSE_S)

    async def leader(self, partition: int) -> tuple[str, int] | None:
        """The address of a partition's leader, from metadata."""
        if partition not in self._leaders or self.random.random() < REFRESH:
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
            response = await self.call_any(wanted, 12)
            brokers = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
            for topic in response.topics:
                for each in topic.partitions:
                    if self.heard_of_epoch(each.partition_index, each.leader_epoch) and each.leader_id in brokers:
                        self._leaders[each.partition_index] = brokers[each.leader_id]
        return self._leaders.get(partition)

    def heard_of_epoch(self, partition: int, epoch: int) -> bool:
        """Whether a leader epoch is not older than the newest one seen."""
        newest = self.epochs[partition] = max(epoch, self.epochs.get(partition, -1))
        return newest == epoch

    async def any_broker(self) -> tuple[str, int]:
        """Host and port of a random broker."""
        return self.random.choice(self._cluster.bootstrap)

    def forget_leader(self, partition: int) -> None:
        """Drop the cached leader of a partition; the next request looks it up again."""
        self._leaders.pop(partition, None)

    def close(self) -> None:
        """Close all its connections."""
        for connection in self._connections.values():
            connection.close()


async def create_topic(
    cluster: SimulatedCluster, partitions: int, configs: dict[str, str], topic_name: str = TOPIC
) -> None:
    """A topic: the one that all clients use, or another one."""
    client = Client(cluster, "admin", partitions)
    topic = CreatableTopic(
        name=topic_name,
        num_partitions=partitions,
        replication_factor=3,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    while True:
        response = await client.call_any(CreateTopicsRequest(topics=[topic], timeout_ms=2000), 7)
        if response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            client.close()
            return
        await asyncio.sleep(PAUSE_S)


class Producer:
    """Sends values, one batch at a time."""

    def __init__(self, client: Client, history: History, values: Any) -> None:
        self._client = client
        self._history = history
        self._values = values
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}

    async def run(self, until_s: float) -> None:
        """Send until the time is over, with pauses."""
        loop = asyncio.get_running_loop()
        random = self._client.random
        while loop.time() < until_s:
            partition = random.randrange(self._client.partitions)
            values = [next(self._values) for _ in range(random.randrange(1, 4))]
            await self._send(partition, values)
            await asyncio.sleep(random.uniform(0.0, 0.25))

    async def _send(self, partition: int, values: list[int]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GIVE_UP_S
        while self._producer is None:
            response = await self._client.call_any(InitProducerIdRequest(transactional_id=None), 4)
            if response.error_code:
                await asyncio.sleep(PAUSE_S)
                continue
            self._producer, self._sequences = (response.producer_id, response.producer_epoch), {}
        now_ms = self._client.machine.doors.clock.time_ms()
        records = [Record(offset=n, timestamp=now_ms, key=None, value=b"%d" % value) for n, value in enumerate(values)]
        batch = build_batch(
            records,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=self._sequences.get(partition, 0),
        )
        while loop.time() < deadline:
            error, offset = await self._try(partition, batch)
            if error in (ErrorCode.NONE, _DUPLICATE):
                for number, value in enumerate(values):
                    self._history.acked[value] = (partition, offset + number if offset >= 0 else -1)
                self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
                return
            if error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
                self._history.trouble.append(f"{error.name} for {values} in partition {partition}")
                break
            self._client.forget_leader(partition)
            await asyncio.sleep(PAUSE_S)
        self._history.unknown.update(dict.fromkeys(values, partition))
        self._producer = None  # its next sequence is not known any more

    async def _try(self, partition: int, batch: bytes) -> tuple[ErrorCode | None, int]:
        leader = await self._client.leader(partition)
        if leader is None:
            return None, -1
        data = PartitionProduceData(index=partition, records=memoryview(bytearray(batch)))
        request = ProduceRequest(
            acks=-1, timeout_ms=PRODUCE_MS, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])]
        )
        response = await self._client.call(leader, request, 11)
        if response is None:
            return None, -1
        found = response.responses[0].partition_responses[0]
        return ErrorCode(found.error_code), found.base_offset


class Consumer:
    """Reads all partitions from their beginning on. ``committed``: with read_committed."""

    def __init__(self, client: Client, history: History, name: str, *, committed: bool = False) -> None:
        self._client = client
        self._history = history
        self._committed = committed
        self.read = (history.committed_polled if committed else history.polled).setdefault(name, [])
        self.positions = dict.fromkeys(range(client.partitions), 0)

    async def run(self, until_s: float) -> None:
        """Poll until the time is over."""
        loop = asyncio.get_running_loop()
        random = self._client.random
        while loop.time() < until_s:
            await self.poll(random.randrange(self._client.partitions), anywhere=random.random() < ANYWHERE)
            await asyncio.sleep(self._client.random.uniform(0.0, 0.2))

    async def poll(self, partition: int, *, anywhere: bool = False) -> tuple[int, int]:
        """One Fetch of one partition, from its leader or, with ``anywhere``, a random broker. Returns how many records
        came, and the high watermark (-1: no response)."""
        address = await (self._client.any_broker() if anywhere else self._client.leader(partition))
        if address is None:
            await asyncio.sleep(PAUSE_S)
            return 0, -1
        wanted = FetchPartition(
            partition=partition,
            current_leader_epoch=-1 if anywhere else self._client.epochs.get(partition, -1),
            fetch_offset=self.positions[partition],
            partition_max_bytes=20_000,
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=50_000,
            isolation_level=int(self._committed),
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        response = await self._client.call(address, request, BY_FOLLOWERS if anywhere else BY_LEADERS)
        if response is None or response.error_code:
            self._client.forget_leader(partition)
            return 0, -1
        if not response.responses:  # throttled by a quota
            await asyncio.sleep(PAUSE_S)
            return 0, -1
        found = response.responses[0].partitions[0]
        if found.error_code:
            if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and not anywhere:  # a follower may be behind
                self._history.trouble.append(f"position {self.positions[partition]} of {partition} is out of range")
            self._client.forget_leader(partition)
            await asyncio.sleep(PAUSE_S)
            return 0, -1
        return self._take(partition, found), found.high_watermark

    def _take(self, partition: int, found: Any) -> int:
        """Note the new records, without those of aborted transactions; return how many there are."""
        count = 0
        view = memoryview(found.records or b"")
        begun = (
            []
            if not self._committed
            else sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
        )
        aborted: set[int] = set()
        for position, header in iter_headers(view):
            while begun and begun[0][0] <= header.last_offset:
                aborted.add(begun.pop(0)[1])
            batch = view[position : position + header.size]
            if header.is_control:
                if _is_abort(batch):
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                count += self._take_batch(partition, batch)
            self.positions[partition] = max(self.positions[partition], header.last_offset + 1)
            self._client.heard_of_epoch(partition, header.partition_leader_epoch)
        return count

    def _take_batch(self, partition: int, batch: memoryview) -> int:
        count = 0
        for record in iter_records(batch, max_bytes=1 << 20):
            if record.offset >= self.positions[partition]:
                self.read.append((partition, record.offset, int(bytes(record.value or b"-1"))))
                count += 1
        return count

    async def read_to_end(self) -> None:
        """Poll every partition until its high watermark is reached."""
        for partition in self.positions:
            while True:
                count, high_watermark = await self.poll(partition)
                if high_watermark >= 0 and not count and self.positions[partition] >= high_watermark:
                    break


def _is_abort(batch: memoryview) -> bool:
    marker = parse_end_transaction_marker(next(iter(iter_records(batch, max_bytes=1 << 20))))
    return marker is not None and not marker.commit

"""`SchemasTopic`: the topic that holds everything, read by every instance and written by the leader.

Its records are fenced: a leader gets a producer id from the cluster by a transactional id that all instances share
(InitProducerId, which raises the producer's epoch), then writes a NOOP with it. From then on the partition's leader
refuses what any earlier leader sends, even a request that has been under way since before. So when the new leader has
read its NOOP back, it knows every record that will ever be before it, and the ids that it gives are new. No transaction
is open at any time: readers of all kinds see each record at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.base.logging import get_logger
from kwire.cli.connection.cluster import TRANSACTION, Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import EARLIEST, LATEST, leaders, list_offsets
from kwire.cli.records.reading import Reader
from kwire.cli.records.writing.outcomes import RETRIED, TOO_LARGE
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record as BatchRecord
from kwire.codec.records import build_batch, sequence_after
from kwire.registry.rights import Forbidden, needing
from kwire.registry.store.records import NOOP_KEY, Record

_log = get_logger("kwire.registry")
_PRODUCE_VERSION_MAX: Final = 12
_TRANSACTION_TIMEOUT_MS: Final = 60_000
_RENEWED_S: Final = 3600.0
"""Seconds after which the leader confirms its epoch, before the cluster forgets a transactional id that is not used
(transactional.id.expiration.ms, a week)."""
_PAUSE_S: Final = 0.1
_REPLICAS_MAX: Final = 3
_FENCED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


class Fenced(Exception):
    """Another instance leads, or whether the last write is in the topic is not known: lead anew before writing."""


class TooLarge(Exception):
    """The records are larger than the topic takes. Nothing is written."""


class Place(NamedTuple):
    """Which topic of which cluster. ``timeout_s``: how long a request, or a write, may take."""

    bootstrap: str
    properties: Mapping[str, str]
    topic: str
    timeout_s: float

    def cluster(self) -> Cluster:
        """New connections. `CommandError`."""
        return Cluster.of(self.bootstrap, self.properties, self.timeout_s)


async def ensure_topic(place: Place) -> int:
    """Create the topic if there is none: compacted, one partition, as many replicas as Confluent's registry gives it.
    The offset up to which it has records. `CommandError`, also for a topic that would lose schemas."""
    what = f"topic {place.topic}"
    cluster = place.cluster()
    try:
        await cluster.connect()
        with needing("DESCRIBE", what):
            there = await _is_there(cluster, place.topic)
        if not there:
            with needing("CREATE", what):
                await _create(cluster, place)
        with needing("DESCRIBE", what):
            await _check_partitions(cluster, place.topic)
        with needing("DESCRIBE_CONFIGS", what):
            await _check_policy(cluster, place.topic)
        with needing("DESCRIBE", what):
            return await _end(cluster, place.topic)
    finally:
        cluster.close()


async def _is_there(cluster: Cluster, name: str) -> bool:
    [topic] = (await cluster.metadata([name])).topics
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return False
    if topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
        check(topic.error_code, f"topic {name}")
    return True


async def _create(cluster: Cluster, place: Place) -> None:
    brokers = len(await cluster.nodes())
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=place.topic,
                num_partitions=1,
                replication_factor=min(max(brokers, 1), _REPLICAS_MAX),
                configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
            )
        ],
        timeout_ms=round(place.timeout_s * 1000),
    )
    [created] = (await cluster.call(request)).topics
    if created.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:  # by another instance, at the same time
        check(created.error_code, f"topic {place.topic}", created.error_message)


async def _check_partitions(cluster: Cluster, name: str) -> None:
    async def known() -> Any:
        [topic] = (await cluster.metadata([name])).topics
        is_new = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        check(ErrorCode.LEADER_NOT_AVAILABLE if is_new else topic.error_code, f"topic {name}")
        return topic

    topic = await cluster.until_done(known)
    if len(topic.partitions) != 1:
        count = len(topic.partitions)
        raise CommandError(f"topic {name} has {count} partitions: schemas need a topic with one, for their order")


async def _check_policy(cluster: Cluster, name: str) -> None:
    from kwire.cli.configs.requests import describe_resources

    described = await describe_resources(cluster, "topic", [name])
    policy = next((each.value for each in described[name] if each.name == "cleanup.policy"), "compact")
    if policy != "compact":
        hint = f"kwire config set topic/{name} cleanup.policy=compact"
        raise CommandError(f"topic {name} has cleanup.policy={policy}, which deletes schemas in time: {hint}")


async def _end(cluster: Cluster, name: str) -> int:
    """The offset after the last record; 0 if there is none."""
    partition = (name, 0)
    latest = (await list_offsets(cluster, {partition: LATEST}))[partition].offset
    earliest = (await list_offsets(cluster, {partition: EARLIEST}))[partition].offset
    return latest if earliest < latest else 0


class TopicReader:
    """Reads the topic for ever and passes each record to ``apply``. `reach` waits for an offset. ``refused`` is called
    when the cluster does not let it read."""

    def __init__(
        self,
        place: Place,
        apply: Callable[[bytes | None, bytes | None], None],
        refused: Callable[[Forbidden], None],
    ) -> None:
        self.next_offset = 0
        self._place = place
        self._apply = apply
        self._refused = refused
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def run(self) -> None:
        """Read; after a failure again, from where it was."""
        while True:
            cluster: Cluster | None = None
            try:
                cluster = self._place.cluster()
                await cluster.connect()
                with needing("READ", f"topic {self._place.topic}"):
                    await self._read(cluster)
            except Forbidden as error:
                self._refused(error)
            except CommandError as error:
                _log.warning("the topic of the schemas cannot be read", error=str(error))
            finally:
                if cluster is not None:
                    cluster.close()
            await asyncio.sleep(_PAUSE_S)

    async def _read(self, cluster: Cluster) -> None:
        partition = (self._place.topic, 0)
        reader = Reader(cluster, {partition: self.next_offset}, None, committed=False, timeout_s=self._place.timeout_s)
        async for columns in reader.batches():
            for key, value in zip(columns.keys, columns.values, strict=True):
                self._apply(_bytes(key), _bytes(value))
            self.next_offset = max(self.next_offset, columns.next_offset)
            self._wake()

    async def reach(self, offset: int) -> None:
        """Wait until everything before an offset has been applied. TimeoutError."""
        if self.next_offset >= offset:
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, reached))
        async with asyncio.timeout(self._place.timeout_s):
            await reached

    def _wake(self) -> None:
        for offset, reached in self._waiting:
            if offset <= self.next_offset and not reached.done():
                reached.set_result(None)
        self._waiting = [each for each in self._waiting if not each[1].done()]


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)


class TopicWriter:
    """Writes as the leader of one term. `open` fences all earlier leaders."""

    def __init__(self, place: Place, cluster: Cluster, transactional_id: str, producer: tuple[int, int]) -> None:
        self._place = place
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._producer_id, self._epoch = producer
        self._sequence = 0
        self._usable = True
        self._renewed_s = time.monotonic()

    @classmethod
    async def open(cls, place: Place, group: str) -> tuple[TopicWriter, int]:
        """A writer for a new term, and the offset of its first record: before it, nothing will be added any more.
        `CommandError`, `Fenced`."""
        cluster = place.cluster()
        try:
            await cluster.connect()
            transactional_id = f"{group}-{place.topic}"
            producer = await _producer(cluster, transactional_id, None)
            writer = cls(place, cluster, transactional_id, producer)
            return writer, await writer.append([Record(NOOP_KEY, None)])
        except BaseException:
            cluster.close()
            raise

    def close(self) -> None:
        """Close the connections."""
        self._usable = False
        self._cluster.close()

    async def append(self, records: Sequence[Record]) -> int:
        """Write records as one batch, to all in-sync replicas; the offset of the first. `Fenced`, `TooLarge`, and
        `CommandError` if it is not known whether they are written, after which the writer is of no more use."""
        if not self._usable:
            raise Fenced("this instance has to lead anew")
        try:
            await self.renew(_RENEWED_S)
            offset = await self._written(self._batch(records))
        except TooLarge:
            raise
        except BaseException:
            self._usable = False
            raise
        self._sequence = sequence_after(self._sequence, len(records))
        return offset

    async def renew(self, after_s: float) -> None:
        """Confirm the epoch with the coordinator if that was longer ago; `Fenced` if it is not ours any more."""
        if time.monotonic() - self._renewed_s < after_s:
            return
        self._cluster.extend()
        self._producer_id, self._epoch = await _producer(
            self._cluster, self._transactional_id, (self._producer_id, self._epoch)
        )
        self._sequence = 0
        self._renewed_s = time.monotonic()

    def _batch(self, records: Sequence[Record]) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        made = [BatchRecord(offset=-1, timestamp=now_ms, key=each.key, value=each.value) for each in records]
        return build_batch(
            made, producer_id=self._producer_id, producer_epoch=self._epoch, base_sequence=self._sequence
        )

    async def _written(self, batch: bytes) -> int:
        """Send a batch until it is written; a repetition is recognised by its sequence number."""
        topic = TopicProduceData(name=self._place.topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=round(self._place.timeout_s * 1000),
            topic_data=[topic],
        )
        self._cluster.extend()
        ends_s = time.monotonic() + self._place.timeout_s
        while True:
            try:
                return await self._sent(request)
            except CommandError as error:
                if error.code in TOO_LARGE:
                    raise TooLarge(str(error)) from None
                if error.code in _FENCED:
                    raise Fenced(str(error)) from None
                if (error.code and error.code not in RETRIED) or time.monotonic() > ends_s:
                    raise
            await asyncio.sleep(_PAUSE_S)

    async def _sent(self, request: ProduceRequest) -> int:
        partition, what = (self._place.topic, 0), f"topic {self._place.topic}"
        with needing("WRITE", what):
            [leader] = await leaders(self._cluster, [partition])
            response = await self._cluster.call(request, leader, _PRODUCE_VERSION_MAX)
            found = response.responses[0].partition_responses[0]
            if found.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                check(found.error_code, what, found.error_message)
        return int(found.base_offset)


async def _producer(cluster: Cluster, transactional_id: str, present: tuple[int, int] | None) -> tuple[int, int]:
    """The producer id and a new epoch, which fences all earlier ones. ``present``: only if these are still the last.
    `Fenced`, `CommandError`."""
    producer_id, epoch = present or (-1, -1)
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    what = f"transactional id {transactional_id}"
    with needing("WRITE", what):
        response = await cluster.at_coordinator(
            transactional_id, request, lambda found: int(found.error_code), TRANSACTION, 5
        )
        if response.error_code in _FENCED:
            raise Fenced("another instance leads")
        check(response.error_code, what)
    return int(response.producer_id), int(response.producer_epoch)

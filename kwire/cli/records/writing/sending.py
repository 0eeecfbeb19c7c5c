"""`Sender`: batches go to the leaders of their partitions, again until they are acknowledged.

A partition has one batch under way, so that their order stays whatever happens. With idempotence (KIP-98) a batch that
is sent again is written once. `Sender.written` counts only what brokers have acknowledged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import leaders
from kwire.cli.records.writing.encoding import Producer, Rows, encode_batch
from kwire.cli.records.writing.outcomes import RETRIED, TOO_LARGE
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import sequence_after

_VERSION_MAX: Final = 12
"""The last version of Produce that names topics; those after it have their ids."""
_PAUSE_S: Final = 0.1


class Settings(NamedTuple):
    """``acks``: -1 (all), 1 or 0. ``compression``: 0 to 4. ``timeout_s``: how long a batch is sent again."""

    topic: str
    acks: int
    compression: int
    timeout_s: float


class _Batch(NamedTuple):
    """Records of one partition, and their bytes."""

    rows: Rows
    now_ms: int
    producer: Producer
    content: bytes


class Sender:
    """Sends batches to one topic. Without ``producer`` it is not idempotent."""

    def __init__(self, cluster: Cluster, settings: Settings, producer: Producer | None) -> None:
        self.written = 0
        self._cluster = cluster
        self._settings = settings
        self._producer = producer
        self._sequences: dict[int, int] = {}
        self._leaders: dict[int, int] = {}  # partition -> broker

    @classmethod
    async def open(cls, cluster: Cluster, settings: Settings, *, idempotent: bool) -> Sender:
        """A sender, with a producer id if it is idempotent. `CommandError`."""
        if not idempotent:
            return cls(cluster, settings, None)

        async def attempt() -> Producer:
            response = await cluster.call(InitProducerIdRequest(transactional_id=None), max_version=5)
            check(response.error_code, "producer id")
            return Producer(response.producer_id, response.producer_epoch, 0)

        return cls(cluster, settings, await cluster.until_done(attempt))

    async def send(self, batches: Mapping[int, Rows]) -> None:
        """Send a batch to each of some partitions, and wait until all are written. `CommandError` if one cannot be."""
        queues = {partition: [self._encoded(partition, rows)] for partition, rows in batches.items()}
        loop = asyncio.get_running_loop()
        progress_s = loop.time()
        while queues:
            written = self.written
            error = await self._round(queues)
            if self.written > written:
                progress_s = loop.time()
            if error is not None:
                if (error.code and error.code not in RETRIED) or loop.time() - progress_s > self._settings.timeout_s:
                    raise error
                self._leaders.clear()
                await asyncio.sleep(_PAUSE_S)
            queues = {partition: queue for partition, queue in queues.items() if queue}

    def _encoded(self, partition: int, rows: Rows) -> _Batch:
        producer = Producer()
        if self._producer is not None:
            sequence = self._sequences.get(partition, 0)
            producer = self._producer._replace(sequence=sequence)
            self._sequences[partition] = sequence_after(sequence, len(rows.values))
        return self._batch(rows, time.time_ns() // 1_000_000, producer)

    def _batch(self, rows: Rows, now_ms: int, producer: Producer) -> _Batch:
        return _Batch(rows, now_ms, producer, encode_batch(rows, now_ms, producer, self._settings.compression))

    async def _round(self, queues: Mapping[int, list[_Batch]]) -> CommandError | None:
        """Send the first batch of each queue; those that are written leave it. The first failure."""
        self._cluster.extend()
        try:
            by_leader = await self._by_leader(queues)
        except CommandError as error:
            return error
        rounds = (self._to_leader(leader, partitions, queues) for leader, partitions in by_leader.items())
        errors = await asyncio.gather(*rounds)
        # One that ends the command comes first, so that it is not taken for one that passes.
        return max((each for each in errors if each), key=lambda each: each.code not in RETRIED, default=None)

    async def _by_leader(self, partitions: Iterable[int]) -> dict[int, list[int]]:
        topic = self._settings.topic
        if unknown := [each for each in partitions if each not in self._leaders]:
            for leader, found in (await leaders(self._cluster, [(topic, each) for each in unknown])).items():
                self._leaders.update((index, leader) for _, index in found)
        by_leader: dict[int, list[int]] = {}
        for each in partitions:
            by_leader.setdefault(self._leaders[each], []).append(each)
        return by_leader

    async def _to_leader(
        self, leader: int, partitions: list[int], queues: Mapping[int, list[_Batch]]
    ) -> CommandError | None:
        data = [PartitionProduceData(index=each, records=queues[each][0].content) for each in partitions]
        request = ProduceRequest(
            transactional_id=None,
            acks=self._settings.acks,
            timeout_ms=round(self._settings.timeout_s * 1000),
            topic_data=[TopicProduceData(name=self._settings.topic, partition_data=data)],
        )
        try:
            if self._settings.acks == 0:
                await self._cluster.send(request, leader, _VERSION_MAX)
                for partition in partitions:
                    self.written += len(queues[partition].pop(0).rows.values)
                return None
            response = await self._cluster.call(request, leader, _VERSION_MAX)
        except CommandError as error:
            return error
        return self._taken(response, queues)

    def _taken(self, response: Any, queues: Mapping[int, list[_Batch]]) -> CommandError | None:
        failure = None
        for topic in response.responses:
            for each in topic.partition_responses:
                queue = queues[each.index]
                if each.error_code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self.written += len(queue.pop(0).rows.values)
                elif each.error_code in TOO_LARGE and len(queue[0].rows.values) > 1:
                    queue[:1] = self._halves(queue[0])
                else:
                    try:
                        check(each.error_code, f"{self._settings.topic}-{each.index}", each.error_message)
                    except CommandError as error:
                        failure = error
                        if error.code not in RETRIED:
                            break
        return failure

    def _halves(self, batch: _Batch) -> list[_Batch]:
        """The same records in two batches: the topic's max.message.bytes is smaller than one."""
        middle = len(batch.rows.values) // 2
        first, second = batch.rows.between(0, middle), batch.rows.between(middle, None)
        producer = batch.producer
        if self._producer is not None:
            producer = producer._replace(sequence=sequence_after(producer.sequence, middle))
        return [self._batch(first, batch.now_ms, batch.producer), self._batch(second, batch.now_ms, producer)]

"""`Transaction`: record batches that are encoded already, and an offset, written to many partitions at once or not."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import TRANSACTION, Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import Partition, leaders
from kwire.cli.records.columns import decode_batch
from kwire.cli.records.writing.encoding import Producer, Rows, encode_batch
from kwire.cli.records.writing.outcomes import RETRIED, TOO_LARGE
from kwire.codec.crc import crc32c
from kwire.codec.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kwire.codec.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codec.records import HEADER_SIZE, parse_header, sequence_after
from kwire.codec.records.header import CRC_START, TRANSACTIONAL_FLAG, pack_header

_WAITING_BYTES_MAX: Final = 32 * 1024 * 1024
_PAUSE_S: Final = 0.1
# The last versions in which a client adds partitions and groups to a transaction itself (before KIP-890).
_ADD_VERSION, _PRODUCE_VERSION, _COMMIT_VERSION, _END_VERSION = 3, 11, 4, 4
_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})


class Fenced(CommandError):
    """Another process has begun a transaction with the same id, or this one was open for too long."""


class Transaction:
    """One transaction of one transactional id. `write` and `commit_offset`, then `commit`. Who begins a transaction
    with the same id ends this one: whatever it does then is a `Fenced`, with the words ``fenced``."""

    def __init__(self, cluster: Cluster, name: str, producer: Producer, timeout_s: float, fenced: str) -> None:
        self._cluster = cluster
        self._name = name
        self._producer = producer
        self._timeout_s = timeout_s
        self._fenced = fenced
        self._added: set[Partition] = set()
        self._sequences: dict[Partition, int] = {}
        self._queues: dict[Partition, deque[bytes]] = {}
        self._waiting_bytes = 0
        self._leaders: dict[Partition, int] = {}

    @classmethod
    async def begin(cls, cluster: Cluster, name: str, *, open_ms: int, timeout_s: float, fenced: str) -> Transaction:
        """Begin; a transaction that is still open under this name is aborted first. ``open_ms``: how long this one may
        be open. `CommandError`."""
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=open_ms)
        cluster.extend()
        response = await cluster.at_coordinator(name, request, lambda it: int(it.error_code), TRANSACTION, 5)
        check(response.error_code, f"transactional id {name}")
        return cls(cluster, name, Producer(response.producer_id, response.producer_epoch, 0), timeout_s, fenced)

    async def write(self, target: Partition, batch: bytes) -> None:
        """Write a record batch to a partition, after those before it. It may wait until there are more."""
        self._queues.setdefault(target, deque()).append(batch)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes > _WAITING_BYTES_MAX:
            await self._flush()

    async def commit_offset(self, group: str, partition: Partition, offset: int, metadata: str) -> None:
        """Commit an offset of a group with the transaction."""
        add = AddOffsetsToTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            group_id=group,
        )
        await self._at_coordinator(add, lambda it: [int(it.error_code)], 3)
        own = TxnOffsetCommitRequestPartition(
            partition_index=partition[1], committed_offset=offset, committed_metadata=metadata
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._name,
            group_id=group,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=partition[0], partitions=[own])],
        )

        def code(response: Any) -> int:
            return int(response.topics[0].partitions[0].error_code)

        self._cluster.extend()
        self._check(code(await self._cluster.at_coordinator(group, request, code, max_version=_COMMIT_VERSION)), group)

    async def commit(self) -> None:
        """Write what waits and commit. An exception leaves it open whether it is committed: begin again and look."""
        await self._flush()
        await self._end(committed=True)

    async def abort(self) -> None:
        """Take all back."""
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            committed=committed,
        )
        await self._at_coordinator(request, lambda it: [int(it.error_code)], _END_VERSION)

    async def _flush(self) -> None:
        await self._add(self._queues)
        loop = asyncio.get_running_loop()
        progress_s, left = loop.time(), self._waiting_bytes
        while self._queues:
            error = await self._round()
            if self._waiting_bytes < left:
                progress_s, left = loop.time(), self._waiting_bytes
            if error is not None:
                if _is_final(error) or loop.time() - progress_s > self._timeout_s:
                    raise error
                self._leaders.clear()
                await asyncio.sleep(_PAUSE_S)
            self._queues = {target: queue for target, queue in self._queues.items() if queue}
        self._waiting_bytes = 0

    async def _add(self, targets: Iterable[Partition]) -> None:
        """Make partitions part of the transaction, before anything is written to them."""
        topics: dict[str, list[int]] = {}
        for topic, index in sorted({*targets} - self._added):
            topics.setdefault(topic, []).append(index)
        if not topics:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._name,
            v3_and_below_producer_id=self._producer.id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
        )

        def codes(response: Any) -> list[int]:
            found = response.results_by_topic_v3_and_below
            return [each.partition_error_code for topic in found for each in topic.results_by_partition]

        await self._at_coordinator(request, codes, _ADD_VERSION)
        self._added.update(targets)

    async def _at_coordinator(self, request: Any, codes: Callable[[Any], list[int]], version: int) -> None:
        """Ask the coordinator; the first error that does not pass counts, then one that does."""

        def worst(response: Any) -> int:
            return max(
                codes(response),
                key=lambda code: (code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED), code != 0),
                default=0,
            )

        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._timeout_s
        while True:
            self._cluster.extend()
            response = await self._cluster.at_coordinator(self._name, request, worst, TRANSACTION, version)
            code = worst(response)
            if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or loop.time() > end_s:
                break
            await asyncio.sleep(_PAUSE_S)  # a topic that was just made, and the coordinator has not heard of it
        self._check(code, f"transactional id {self._name}")

    def _check(self, code: int, what: str, message: str | None = None) -> None:
        if code in _FENCED:
            raise Fenced(f"{self._name}: {self._fenced}", code)
        check(code, what, message)

    async def _round(self) -> CommandError | None:
        """Write the first batch of each queue; those that are written leave it. The first failure."""
        self._cluster.extend()
        try:
            unknown = [target for target in self._queues if target not in self._leaders]
            for leader, found in (await leaders(self._cluster, unknown)).items() if unknown else ():
                self._leaders.update((target, leader) for target in found)
        except CommandError as error:
            return error
        by_leader: dict[int, list[Partition]] = {}
        for target in self._queues:
            by_leader.setdefault(self._leaders[target], []).append(target)
        errors = await asyncio.gather(*(self._to_leader(*each) for each in by_leader.items()))
        # One that ends the batch comes first, so that it is not taken for one that passes.
        return max(
            (each for each in errors if each), key=lambda each: each.code and each.code not in RETRIED, default=None
        )

    async def _to_leader(self, leader: int, targets: list[Partition]) -> CommandError | None:
        topics: dict[str, list[PartitionProduceData]] = {}
        for topic, index in targets:
            own = self._producer._replace(sequence=self._sequences.get((topic, index), 0))
            content = with_producer(self._queues[topic, index][0], own)
            topics.setdefault(topic, []).append(PartitionProduceData(index=index, records=content))
        request = ProduceRequest(
            transactional_id=self._name,
            acks=-1,
            timeout_ms=round(self._timeout_s * 1000),
            topic_data=[TopicProduceData(name=name, partition_data=each) for name, each in topics.items()],
        )
        try:
            response = await self._cluster.call(request, leader, _PRODUCE_VERSION)
        except CommandError as error:
            return error
        failure = None
        for topic in response.responses:
            for each in topic.partition_responses:
                try:
                    self._taken((topic.name, each.index), each)
                except CommandError as error:
                    if failure is None or _is_final(error):
                        failure = error
        return failure

    def _taken(self, target: Partition, answer: Any) -> None:
        queue = self._queues[target]
        if answer.error_code in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            batch = queue.popleft()
            self._waiting_bytes -= len(batch)
            count = parse_header(batch).count
            self._sequences[target] = sequence_after(self._sequences.get(target, 0), count)
        elif answer.error_code in TOO_LARGE and parse_header(queue[0]).count > 1:
            halves = in_halves(queue.popleft())
            queue.extendleft(reversed(halves))
        else:
            self._check(answer.error_code, f"{target[0]}-{target[1]}", answer.error_message)


def _is_final(error: CommandError) -> bool:
    return error.code != 0 and error.code not in RETRIED


def with_producer(batch: bytes, producer: Producer) -> bytes:
    """The same records in a transaction of another producer; the body is not looked into."""
    header = parse_header(batch)
    header = header._replace(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        attributes=header.attributes | TRANSACTIONAL_FLAG,
    )
    body = memoryview(batch)[HEADER_SIZE:]
    crc = crc32c(body, crc32c(pack_header(header)[CRC_START:]))
    return b"".join((pack_header(header._replace(crc=crc)), body))


def in_halves(batch: bytes) -> list[bytes]:
    """The same records in two batches: the topic's max.message.bytes is smaller than one."""
    header = parse_header(batch)
    found = decode_batch("", 0, batch, header)
    headers = [found.headers.get(index, ()) for index in range(len(found))] if found.headers else None
    rows = Rows(list(found.values), list(found.keys), headers, list(found.timestamps))
    middle = len(found) // 2
    return [
        encode_batch(part, header.base_timestamp, compression=header.compression)
        for part in (rows.between(0, middle), rows.between(middle, None))
    ]

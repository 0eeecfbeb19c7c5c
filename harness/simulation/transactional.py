"""Producers in transactions: they write to several partitions and read what others committed, then commit or abort.

They speak as clients with `transaction.version` 2 do (Produce 12, EndTxn 5: every transaction has an epoch of its own),
so that a late request cannot affect the next transaction. A transaction is *committed* if EndTxn succeeded, *aborted*
if EndTxn with commit was never sent, and otherwise *unknown*.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from harness.simulation.workload import GIVE_UP_S, PAUSE_S, PRODUCE_MS, TOPIC, Client, Consumer, History, Transaction
from kwire.base.errors import ErrorCode
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_MS: Final = 60_000
ABORTED: Final = 0.3
READS: Final = 0.4

_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which the same request is sent again."""


class TransactionalProducer:
    """Runs one transaction after the other with one transactional id."""

    def __init__(self, client: Client, history: History, values: Iterator[int]) -> None:
        self._client = client
        self._history = history
        self._values = values
        self._name = f"tx-{client.machine.name}"
        self._reader = Consumer(client, history, f"{client.machine.name} in transactions", committed=True)
        self._coordinator: tuple[str, int] | None = None
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}
        self._touched = False  # the transaction may have a partition

    async def run(self, until_s: float) -> None:
        """Go on until the time is over."""
        loop, random = asyncio.get_running_loop(), self._client.random
        while loop.time() < until_s:
            if self._producer is None:
                await self._begin()
            else:
                await self._transaction()
            await asyncio.sleep(random.uniform(0.0, 0.4))

    async def end(self) -> None:
        """Leave no transaction open: InitProducerId once more ends the last one."""
        self._producer = None
        while self._producer is None:
            await self._begin()

    async def _begin(self) -> None:
        request = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=TIMEOUT_MS)
        response = await self._coordinated(request, 5)
        if response is not None and not response.error_code:
            self._producer, self._sequences = (response.producer_id, response.producer_epoch), {}

    async def _transaction(self) -> None:
        random, txn = self._client.random, Transaction()
        self._history.transactions.append(txn)
        self._touched = False
        whole = True
        for _ in range(random.choice((1, 2, 2, 3, 4))):
            partition = random.randrange(self._client.partitions)
            if random.random() < READS:
                txn.read += await self._read(partition)
            else:
                whole = await self._send(txn, partition)
                if not whole:
                    break
        commit = whole and random.random() >= ABORTED
        if not self._touched:  # there is no transaction: nothing was written
            txn.outcome = "committed"
            return
        txn.outcome = "unknown" if commit else "aborted"
        if await self._end(commit):
            txn.outcome = "committed" if commit else "aborted"

    async def _read(self, partition: int) -> list[int]:
        before = len(self._reader.read)
        await self._reader.poll(partition)
        return [value for _, _, value in self._reader.read[before:]]

    async def _send(self, txn: Transaction, partition: int) -> bool:
        """Whether the records are in the partition."""
        assert self._producer is not None
        values = [next(self._values) for _ in range(self._client.random.randrange(1, 3))]
        txn.sent.update(dict.fromkeys(values, partition))
        now_ms = self._client.machine.doors.clock.time_ms()
        batch = build_batch(
            [Record(offset=n, timestamp=now_ms, key=None, value=b"%d" % value) for n, value in enumerate(values)],
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=self._sequences.get(partition, 0),
            is_transactional=True,
        )
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GIVE_UP_S / 2
        self._touched = True
        while loop.time() < deadline:
            error = await self._try(partition, batch)
            if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
                return True
            if error is not None and error not in _TRY_AGAIN:
                return False
            self._client.forget_leader(partition)
            await asyncio.sleep(PAUSE_S)
        return False

    async def _try(self, partition: int, batch: bytes) -> ErrorCode | None:
        leader = await self._client.leader(partition)
        if leader is None:
            return None
        data = PartitionProduceData(index=partition, records=memoryview(bytearray(batch)))
        request = ProduceRequest(
            transactional_id=self._name,
            acks=-1,
            timeout_ms=PRODUCE_MS,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        response = await self._client.call(leader, request, 12)
        return None if response is None else ErrorCode(response.responses[0].partition_responses[0].error_code)

    async def _end(self, commit: bool) -> bool:
        """Whether the transaction has ended as requested."""
        assert self._producer is not None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GIVE_UP_S
        producer_id, epoch = self._producer
        request = EndTxnRequest(
            transactional_id=self._name, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        while loop.time() < deadline:
            response = await self._coordinated(request, 5)
            if response is not None and not response.error_code:
                self._producer, self._sequences = (response.producer_id, response.producer_epoch), {}
                return True
            if response is not None and response.error_code not in _TRY_AGAIN:
                break
        self._producer = None
        return False

    async def _coordinated(self, request: Any, version: int) -> Any:
        """The coordinator's response; None, after a pause, if there is none or its error says to try again."""
        if self._coordinator is None:
            wanted = FindCoordinatorRequest(key_type=1, coordinator_keys=[self._name])
            found = (await self._client.call_any(wanted, 4)).coordinators[0]
            if not found.error_code:
                self._coordinator = (found.host, found.port)
        response = None if self._coordinator is None else await self._client.call(self._coordinator, request, version)
        if response is None or response.error_code in _TRY_AGAIN:
            self._coordinator = None
            await asyncio.sleep(PAUSE_S)
            return None
        return response

"""Transactions across brokers that all are well, one right after the other."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

from harness.simulation import Simulation
from harness.simulation.cluster import SimulatedCluster
from harness.simulation.transactional import TransactionalProducer
from harness.simulation.workload import PRODUCE_MS, TOPIC, Client, History, Transaction, create_topic
from kwire.base.errors import ErrorCode
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch

PARTITIONS = 6
PRODUCERS = 4
BATCHES = 3
LASTS_S = 3.0


class Restless(TransactionalProducer):
    """Begins the next transaction as soon as the last one is decided, writes without waiting, and notes how each write
    ended."""

    def __init__(self, cluster: SimulatedCluster, name: str, history: History) -> None:
        super().__init__(Client(cluster, name, PARTITIONS), history, itertools.count())
        self.ended: Counter[ErrorCode] = Counter()

    async def run(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        await self._begin()
        while loop.time() < until_s:
            await self._transaction()

    async def _send(self, txn: Transaction, partition: int) -> bool:
        """A few batches of a record each, all on their way at once."""
        assert self._producer is not None
        leader = await self._client.leader(partition)
        assert leader is not None
        await self._client.call(leader, ApiVersionsRequest(), 0)  # so that there is one connection
        requests = []
        for _ in range(BATCHES):
            value, sequence = next(self._values), self._sequences.get(partition, 0)
            self._sequences[partition] = sequence + 1
            txn.sent[value] = partition
            batch = build_batch(
                [Record(offset=0, timestamp=0, key=None, value=b"%d" % value)],
                producer_id=self._producer[0],
                producer_epoch=self._producer[1],
                base_sequence=sequence,
                is_transactional=True,
            )
            data = PartitionProduceData(index=partition, records=memoryview(bytearray(batch)))
            topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
            requests.append(
                ProduceRequest(transactional_id=self._name, acks=-1, timeout_ms=PRODUCE_MS, topic_data=topics)
            )
        self._touched = True
        while requests:
            answers = await asyncio.gather(*(self._client.call(leader, request, 12) for request in requests))
            errors = [ErrorCode(each.responses[0].partition_responses[0].error_code) for each in answers]
            if errors[0] is ErrorCode.CONCURRENT_TRANSACTIONS:  # then the others cannot do better
                await asyncio.sleep(0.02)
                requests = [
                    request for request, error in zip(requests, errors, strict=True) if error is not ErrorCode.NONE
                ]
                continue
            self.ended.update(errors)
            return set(errors) == {ErrorCode.NONE}
        return True


async def in_fair_weather(simulation: Simulation) -> Counter[ErrorCode]:
    cluster = SimulatedCluster(simulation, properties={"transaction.state.log.num.partitions": "6"})
    await cluster.start()
    await create_topic(cluster, PARTITIONS, {})
    history = History()
    producers = [Restless(cluster, f"client-{number}", history) for number in range(PRODUCERS)]
    until_s = asyncio.get_running_loop().time() + LASTS_S
    await asyncio.gather(*(producer.run(until_s) for producer in producers))
    await cluster.stop()
    assert not [txn for txn in history.transactions if txn.outcome == "unknown"]
    return sum((producer.ended for producer in producers), Counter())


def test_a_transaction_that_begins_while_the_last_one_ends_is_not_refused() -> None:
    ended: Counter[ErrorCode] = Counter()
    for seed in range(3):
        simulation = Simulation(seed)
        ended += simulation.run(in_fair_weather(simulation))
    assert ended[ErrorCode.NONE] > 500
    assert set(ended) == {ErrorCode.NONE}, ended

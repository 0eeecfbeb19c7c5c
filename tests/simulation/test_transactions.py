"""Transactions across brokers that all are well, one right after the other."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

from kwire.base.errors import ErrorCode
from kwire.testing.simulation import Simulation
from kwire.testing.simulation.cluster import SimulatedCluster
from kwire.testing.simulation.transactional import TransactionalProducer
from kwire.testing.simulation.workload import Client, History, create_topic

PARTITIONS = 6
PRODUCERS = 4
LASTS_S = 3.0


class Restless(TransactionalProducer):
    """Begins the next transaction as soon as the last one is decided, and notes how each write ended."""

    def __init__(self, cluster: SimulatedCluster, name: str, history: History) -> None:
        super().__init__(Client(cluster, name, PARTITIONS), history, itertools.count())
        self.ended: Counter[ErrorCode | None] = Counter()

    async def run(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        await self._begin()
        while loop.time() < until_s:
            await self._transaction()

    async def _try(self, partition: int, batch: bytes) -> ErrorCode | None:
        error = await super()._try(partition, batch)
        self.ended[error] += 1
        return error


async def in_fair_weather(simulation: Simulation) -> Counter[ErrorCode | None]:
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
    ended: Counter[ErrorCode | None] = Counter()
    for seed in range(3):
        simulation = Simulation(seed)
        ended += simulation.run(in_fair_weather(simulation))
    assert ended[ErrorCode.NONE] > 500
    assert set(ended) <= {ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS}, ended

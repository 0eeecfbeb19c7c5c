"""Transactions: their list, and one of them."""

from __future__ import annotations

import asyncio

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.cli.transactions.actions import DescribedTransaction, TransactionRow, described, listed_at
from kwire.console.api.sizes import BROKER_S
from kwire.console.calls import Call


async def list_transactions(cluster: Cluster, call: Call) -> list[TransactionRow]:
    """The transactional ids of all coordinators that answer. `CommandError` if none does."""
    failures: list[CommandError] = []

    async def of(node: int) -> list[TransactionRow]:
        try:
            async with asyncio.timeout(BROKER_S):
                return await listed_at(cluster, node, [])
        except CommandError as error:
            failures.append(error)
        except TimeoutError:
            pass
        return []

    nodes = [each.node_id for each in (await cluster.metadata([])).brokers]
    found = await asyncio.gather(*map(of, nodes))
    if failures and len(failures) == len(nodes):
        raise failures[0]
    return sorted(row for rows in found for row in rows)


async def one_transaction(cluster: Cluster, call: Call) -> DescribedTransaction:
    """A transactional id. `CommandError`."""
    return await described(cluster, call.path["id"])

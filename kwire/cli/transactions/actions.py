"""What ``kwire txn`` does, by ListTransactions, DescribeTransactions and InitProducerId."""

from __future__ import annotations

import argparse
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli import fail
from kwire.cli.connection.cluster import TRANSACTION, Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.output import show
from kwire.codec.messages.describe_transactions_request import DescribeTransactionsRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.list_transactions_request import ListTransactionsRequest

_FENCING_TIMEOUT_MS: Final = 60_000
"""The transaction timeout that the fencing InitProducerId leaves behind; the next producer sets its own."""


class TransactionRow(NamedTuple):
    """A transactional id of ``list``. ``coordinator``: a broker's id."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


class TransactionTopic(NamedTuple):
    """Partitions of an open transaction."""

    topic: str
    partitions: list[int]

    def __str__(self) -> str:
        return f"{self.topic}:{'+'.join(map(str, self.partitions))}"


class DescribedTransaction(NamedTuple):
    """A transactional id of ``describe``. ``started``: milliseconds since 1970, None if no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started: int | None
    partitions: list[TransactionTopic]


class AbortedTransaction(NamedTuple):
    """A transactional id of ``abort``, with the epoch that fences its producer."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


async def list_transactions(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """The transactional ids of all coordinators, in alphabetical order."""
    rows = []
    for node in sorted(await cluster.nodes()):
        rows += await listed_at(cluster, node, arguments.state)
    show(sorted(rows), arguments.output)
    return 0


async def listed_at(cluster: Cluster, node: int, states: list[str]) -> list[TransactionRow]:
    """The transactional ids of one coordinator. `CommandError`."""
    request = ListTransactionsRequest(state_filters=states)
    response = await cluster.until_done(lambda: _listed(cluster, request, node))
    return [
        TransactionRow(each.transactional_id, each.producer_id, each.transaction_state, node)
        for each in response.transaction_states
    ]


async def _listed(cluster: Cluster, request: ListTransactionsRequest, node: int) -> Any:
    response = await cluster.call(request, node)
    check(response.error_code, f"broker {node}")
    return response


async def describe(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Transactions, with the partitions of those that are open."""
    rows, status = [], 0
    for name in dict.fromkeys(arguments.ids):
        try:
            rows.append(await described(cluster, name))
        except CommandError as error:
            if not error.code:
                raise
            status = fail(error)
    show(rows, arguments.output)
    return status


async def described(cluster: Cluster, name: str) -> DescribedTransaction:
    """A transactional id. `CommandError`."""
    request = DescribeTransactionsRequest(transactional_ids=[name])
    response = await cluster.at_coordinator(
        name, request, lambda response: response.transaction_states[0].error_code, TRANSACTION
    )
    [found] = response.transaction_states
    if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise CommandError(f"transactional id {name}: there is no such transactional id", found.error_code)
    check(found.error_code, f"transactional id {name}")
    return DescribedTransaction(
        name,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
        sorted(TransactionTopic(each.topic, sorted(each.partitions)) for each in found.topics),
    )


async def abort(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Abort transactions as a new producer with their ids would: it fences the old one."""
    rows, status = [], 0
    for name in dict.fromkeys(arguments.ids):
        try:
            await described(cluster, name)  # InitProducerId would make an id that does not exist
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=_FENCING_TIMEOUT_MS)
            response = await cluster.at_coordinator(name, request, lambda response: response.error_code, TRANSACTION)
            check(response.error_code, f"transactional id {name}")
        except CommandError as error:
            if not error.code:
                raise
            status = fail(error)
        else:
            rows.append(AbortedTransaction(name, response.producer_id, response.producer_epoch))
    if arguments.output != "table":
        show(rows, arguments.output)
    else:
        for row in rows:
            print(f"{row.transactional_id}: no transaction is open; its producer is fenced")
    return status

"""What the handlers of transaction APIs share: names for old clients, and being part of a transaction before writing.

What the coordinator does is in `kwire.coordinator`; here requests are only taken apart and put together again.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Collection
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.transaction_records import Partition, TransactionState
from kwire.coordinator.transaction_shard import Producer
from kwire.handlers.context import AclOperation, Operation, RequestContext, ResourceType

if TYPE_CHECKING:
    from kwire.handlers.context import Services

ABORTABLE_SINCE: Final = 1
IMPLICIT_SINCE: Final = 2
"""How far a request goes along with KIP-890: it knows TRANSACTION_ABORTABLE; it adds partitions by itself."""

EPOCH_BUMP: Final = 2


def transactional_id_operation(operation: AclOperation, transactional_id: str) -> Operation:
    """What is asked of the principal on a transactional id."""
    return Operation(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)


def may_use(context: RequestContext, operation: AclOperation, transactional_id: str) -> bool:
    """Whether the principal may do something under a transactional id."""
    authorizer = context.services.authorizer
    return authorizer.allows_all or authorizer.authorize(
        context, transactional_id_operation(operation, transactional_id)
    )


def in_old_words(error: ErrorCode, version: int, since: int) -> ErrorCode:
    """PRODUCER_FENCED is told from a version on; before, it is INVALID_PRODUCER_EPOCH (KIP-588)."""
    if error is ErrorCode.PRODUCER_FENCED and version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def join_transaction(
    services: Services, transactional_id: str, producer: Producer, partitions: Collection[Partition], knows: int
) -> dict[Partition, ErrorCode] | Awaitable[dict[Partition, ErrorCode]]:
    """Before a producer's records are written: its transaction has these partitions, or (``knows`` is
    `IMPLICIT_SINCE`) gets them. The error of each as a producer is told, and NONE where it may write.

    After waiting, look again with `is_part_of` in the turn of the loop in which the records are written.
    """
    transactions = services.transactions
    found: dict[Partition, ErrorCode] | Awaitable[dict[Partition, ErrorCode]]
    try:
        if knows < IMPLICIT_SINCE:
            found = transactions.verify(transactional_id, producer, partitions)
        else:
            added = transactions.add_partitions(transactional_id, producer, partitions, EPOCH_BUMP)
            found = dict.fromkeys(partitions, added) if isinstance(added, ErrorCode) else _for_each(added, partitions)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    if inspect.isawaitable(found):
        return _later(found, partitions, knows)
    return {each: _told(error, knows) for each, error in found.items()}


async def _for_each(added: asyncio.Future[ErrorCode], partitions: Collection[Partition]) -> dict[Partition, ErrorCode]:
    return dict.fromkeys(partitions, await added)


async def _later(
    found: Awaitable[dict[Partition, ErrorCode]], partitions: Collection[Partition], knows: int
) -> dict[Partition, ErrorCode]:
    try:
        return {each: _told(error, knows) for each, error in (await found).items()}
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)


def _told(error: ErrorCode, knows: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and knows < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return error


def is_part_of(services: Services, transactional_id: str, producer: Producer, partition: Partition) -> bool:
    """Whether a partition belongs to the transaction that is under way at this moment."""
    try:
        found = services.transactions.describe(transactional_id)
    except KafkaError:
        return False
    return (
        found is not None
        and found.state is TransactionState.ONGOING
        and producer == (found.producer_id, found.producer_epoch)
        and partition in found.partitions
    )

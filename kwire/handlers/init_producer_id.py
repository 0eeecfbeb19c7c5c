"""InitProducerId (API key 22): a producer id, so that the broker can tell a repeated batch from a new one.

Behaviour: without a transactional id every request gets an id that nobody had before, with epoch 0; ids come from
blocks that the controller has written down first, so none is handed out twice, not even after a crash. While no block
can be had: COORDINATOR_LOAD_IN_PROGRESS, which producers try again. With a transactional id: NOT_COORDINATOR, as from
any Kafka broker that is not its coordinator (kwire has no transaction coordinator yet); INVALID_TRANSACTION_TIMEOUT
for a timeout out of bounds. An empty transactional id, or a producer id without its epoch (or the reverse):
INVALID_REQUEST.

Versions: 1 throttled after the answer (KIP-219); 2 flexible; 3 current id and epoch of a producer that goes on
(KIP-360: without a transactional id it gets a new id); 4 PRODUCER_FENCED; 5 TRANSACTION_ABORTABLE (KIP-890). Version 6
(two-phase commit, KIP-939) is not served by Kafka 4.3 either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.init_producer_id_response import InitProducerIdResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.context import CLUSTER_NAME, AclOperation, Operation, RequestContext, ResourceType, Services

_NONE: Final = -1


class ProducerIds:
    """This broker's block of producer ids."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._block: Iterator[int] = iter(())
        self._refill: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        """The next id, None when the block is used up."""
        return next(self._block, None)

    async def wait(self) -> int:
        """The next id, from a new block if need be. All who wait share one request to the controller. KafkaError."""
        while (producer_id := self.take()) is None:
            if self._refill is None:
                self._refill = asyncio.create_task(self._fill())
            await asyncio.shield(self._refill)
        return producer_id

    async def _fill(self) -> None:
        try:
            self._block = iter(await self._services.controller.allocate_producer_ids())
        finally:
            self._refill = None


def operations(request: InitProducerIdRequest, context: RequestContext) -> list[Operation]:
    """Writing under a transactional id, or idempotent writing to the cluster."""
    if request.transactional_id is not None:
        return [Operation(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)]
    return [Operation(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)]


def handle(
    request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Answer at once while the block lasts."""
    _check(request, context)
    ids = context.services.kept(ProducerIds)
    producer_id = ids.take()
    return _wait(ids) if producer_id is None else _response(producer_id)


def _check(request: InitProducerIdRequest, context: RequestContext) -> None:
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not 0 < request.transaction_timeout_ms <= context.services.config.transaction_max_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    raise KafkaError(ErrorCode.NOT_COORDINATOR)


async def _wait(ids: ProducerIds) -> InitProducerIdResponse:
    try:
        return _response(await ids.wait())
    except KafkaError:  # no controller, or no store: this producer shall come again
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from None


def _response(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def refuse(
    request: InitProducerIdRequest, version: int, code: ErrorCode, message: str | None
) -> InitProducerIdResponse:
    """An error and no producer."""
    return InitProducerIdResponse(error_code=int(code), producer_id=_NONE, producer_epoch=_NONE)


API = Api(ApiKey.INIT_PRODUCER_ID, served=(0, 5), handle=handle, operations=operations, error_response=refuse)

"""The way every decision takes: made from one image, written with checks of everything it rests on, made again if one
of them fails.

If the controller's office is lost, the answer is NOT_CONTROLLER. Decisions wait for their turn in one line, so a broker
does not get into its own way. What lives elsewhere: the decisions (`controller`, `leaders`), one commit (`plan`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from kwire.base import futures
from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller.plan import Plan
from kwire.cluster.metadata.image import ClusterImage, MetadataCache
from kwire.cluster.store import keys
from kwire.cluster.store.store import MetadataStore, SessionLost, StoreFull, StoreUnavailable

T = TypeVar("T")
R = TypeVar("R")

ATTEMPTS_MAX: Final = 20


class Decisions:
    """What this broker decides for the cluster."""

    def __init__(self, store: MetadataStore, metadata: MetadataCache, broker_id: int) -> None:
        self._store = store
        self._metadata = metadata
        self._broker_id = broker_id
        self._turn = asyncio.Lock()

    @property
    def active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._metadata.image.controller_id == self._broker_id

    async def catch_up(self) -> None:
        """Wait until the image here has everything that is in the store now."""
        try:
            revision, _ = await self._store.read(keys.CLUSTER)
        except StoreUnavailable:
            return
        await self._metadata.wait_for(revision)

    async def _decide(self, decide: Callable[[ClusterImage, Plan], R], *, office: bool = True) -> R:
        """``office``: only the controller may decide this; otherwise any registered broker."""
        try:
            async with self._turn:
                for _ in range(ATTEMPTS_MAX):
                    self._require(office)
                    plan = Plan(self._metadata)
                    result = decide(plan.image, plan)
                    if plan.is_empty:
                        return result
                    plan.check(keys.CONTROLLER if office else keys.broker_key(self._broker_id))
                    if await plan.commit(self._store):
                        return result
        except StoreFull as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata store takes no writes: {error}") from error
        except (StoreUnavailable, SessionLost) as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"The metadata store failed: {error}") from error
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Other changes kept getting in between.")

    def _require(self, office: bool) -> None:
        if office and not self.active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if not office and self._broker_id not in self._metadata.image.brokers:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)

    async def _in_time(self, operation: Coroutine[Any, Any, T], timeout_ms: int | None) -> T:
        """REQUEST_TIMED_OUT when the client no longer waits; what was begun is still done."""
        if timeout_ms is None:
            return await operation
        if timeout_ms <= 0:
            operation.close()
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        task = asyncio.ensure_future(operation)
        done, _ = await asyncio.wait((task,), timeout=timeout_ms / 1000)
        if not done:
            task.add_done_callback(futures.heed)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return task.result()

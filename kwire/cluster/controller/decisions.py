"""`Decisions`: how every decision is made. It starts from one image, is written with checks of everything it relies on,
and starts again from a newer image if a check fails.

If this broker loses the controllership meanwhile, the outcome is NOT_CONTROLLER. Decisions of one broker are made one
after the other, so that they do not conflict with each other. What lives elsewhere: the decisions themselves
(`controller`, `leaders`), one commit (`plan`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from kwire.base import futures
from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller.plan import Plan
from kwire.cluster.metadata.image import ClusterImage, MetadataCache
from kwire.cluster.store import keys
from kwire.cluster.store.store import ABSENT, CommitTooLarge, MetadataStore, SessionLost, StoreFull, StoreUnavailable

R = TypeVar("R")
T = TypeVar("T")

ATTEMPTS_MAX: Final = 20
PART_WORK: Final = 500
"""The work of one decision of a request about many resources, in partitions; planning and applying it takes some
milliseconds."""

TOO_LARGE: Final = "Unable to perform excessively large batch operation."
"""Kafka's message for more records than its controller writes at once."""


def in_parts(items: Sequence[T], work_of: Callable[[T], int]) -> list[Sequence[T]]:
    """Items in parts of at most `PART_WORK`, or of one item that is more work."""
    parts: list[Sequence[T]] = []
    start, work = 0, 0
    for at, item in enumerate(items):
        more = work_of(item)
        if at > start and work + more > PART_WORK:
            parts.append(items[start:at])
            start, work = at, 0
        work += more
    parts.append(items[start:])
    return parts


def _nothing() -> None:
    """What is done after a decision by default."""


class Decisions:
    """Makes decisions on behalf of one broker."""

    def __init__(self, store: MetadataStore, metadata: MetadataCache, broker_id: int) -> None:
        self.broker_id = broker_id
        self._store = store
        self._metadata = metadata
        self._turn = asyncio.Lock()

    @property
    def active(self) -> bool:
        """Whether this broker is the controller, according to its image."""
        return self.image.controller_id == self.broker_id

    @property
    def image(self) -> ClusterImage:
        """The newest image."""
        return self._metadata.image

    def is_stored(self, key: str) -> bool:
        """Whether the store has a key, as of the newest image."""
        return self._metadata.version(key) != ABSENT

    async def catch_up(self) -> None:
        """Wait until the image has everything that is in the store now; returns at once if the store is unavailable."""
        try:
            revision, _ = await self._store.read(keys.CLUSTER)
        except StoreUnavailable:
            return
        await self._metadata.wait_for(revision)

    async def decide(self, decide: Callable[[ClusterImage, Plan], R], *, as_controller: bool = True) -> R:
        """Make a decision; ``decide`` plans it, perhaps several times.

        ``as_controller``: only the controller may decide this; otherwise any registered broker may. NOT_CONTROLLER,
        BROKER_ID_NOT_REGISTERED, KAFKA_STORAGE_ERROR (the store is full), POLICY_VIOLATION (the store does not accept
        so large a commit), REQUEST_TIMED_OUT (the store failed).
        """
        try:
            async with self._turn:
                for _ in range(ATTEMPTS_MAX):
                    self._require_role(as_controller)
                    plan = Plan(self._metadata)
                    result = decide(plan.image, plan)
                    if plan.is_empty:
                        return result
                    plan.finalise_access()
                    plan.check(keys.CONTROLLER if as_controller else keys.broker_key(self.broker_id))
                    if await plan.commit(self._store):
                        return result
        except StoreFull as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata store accepts no writes: {error}") from error
        except CommitTooLarge as error:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{TOO_LARGE} {error}") from error
        except (StoreUnavailable, SessionLost) as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"The metadata store failed: {error}") from error
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Concurrent changes kept conflicting with this one.")

    async def decide_in_time(self, decide: Callable[[ClusterImage, Plan], R], timeout_ms: int | None) -> R:
        """`decide` as the controller. REQUEST_TIMED_OUT after ``timeout_ms`` (at once if it is not positive); a
        decision in progress is still completed. None: wait without a limit."""
        return (await self.decide_all_in_time([decide], timeout_ms))[0]

    async def decide_all_in_time(
        self,
        decisions: Sequence[Callable[[ClusterImage, Plan], R]],
        timeout_ms: int | None,
        decided: Callable[[], None] = _nothing,
    ) -> list[R]:
        """The same for several decisions, made one after the other, each from the newest image. Each is a commit, which
        brokers apply between requests. ``decided`` is called after each."""
        if timeout_ms is None:
            return await self._decide_all(decisions, decided)
        if timeout_ms <= 0:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        task = asyncio.ensure_future(self._decide_all(decisions, decided))
        done, _ = await asyncio.wait((task,), timeout=timeout_ms / 1000)
        if not done:
            task.add_done_callback(futures.ignore_failure)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        return task.result()

    async def _decide_all(
        self, decisions: Sequence[Callable[[ClusterImage, Plan], R]], decided: Callable[[], None]
    ) -> list[R]:
        results: list[R] = []
        for each in decisions:
            if results:
                await asyncio.sleep(0)
            results.append(await self.decide(each))
            decided()
        return results

    def _require_role(self, as_controller: bool) -> None:
        if as_controller and not self.active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        if not as_controller and self.broker_id not in self.image.brokers:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)

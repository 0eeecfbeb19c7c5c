"""A Fetch request about very many partitions: they are read, and the response is made, in slices, between which other
clients get their turn.

A follower names all partitions when its session begins, a consumer may read thousands. 10,000 took 55 to 257 ms in one
turn of the event loop. The partitions are read at different moments now, as those of several requests are, so what
changes in between is read again before the request waits. If a follower begins another session, or sends another
request in the same one, the rest of an earlier request is refused: its offsets may be from before a truncation.

What lives elsewhere: fewer partitions (`fetch.handler`, `fetch.waiting`), and which requests are large
(`Fetch.is_large`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.base.futures import in_turns
from kwire.codec.messages.fetch_request import FetchRequest
from kwire.codec.messages.fetch_response import FetchResponse
from kwire.handlers.context import RequestContext
from kwire.handlers.data.fetch.fetched_partition import PartitionKey
from kwire.handlers.data.fetch.partitions import Fetch
from kwire.handlers.slices import SLICE_PARTITIONS, encode_parts_in_slices

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition


def handle(fetch: Fetch, request: FetchRequest, context: RequestContext) -> Coroutine[Any, Any, FetchResponse]:
    """The response, later."""
    large = _LargeFetch(fetch, request.max_wait_ms)
    if fetch.follower_session is not None:
        context.wake_early = large.hurry
    return large.response(request.replica_state.replica_epoch, context)


class _LargeFetch:
    """One such request, of a consumer or a follower."""

    __slots__ = ("_changed", "_fetch", "_is_hurried", "_loop", "_max_wait_ms", "_watched", "_woken")

    def __init__(self, fetch: Fetch, max_wait_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._fetch = fetch
        self._max_wait_ms = max_wait_ms
        self._changed: dict[PartitionKey, None] = {}
        self._is_hurried = False
        self._watched: list[tuple[Partition, Callable[[], None]]] = []
        self._woken: asyncio.Future[None] | None = None
        if fetch.follower_session is not None:  # from the first partition on: a change after it was read counts
            fetch.follower_session.on_change = self._note

    async def response(self, replica_epoch: int, context: RequestContext) -> FetchResponse:
        """The response, which is encoded already. FETCH_SESSION_ID_NOT_FOUND: see `Fetch.require_current`."""
        fetch = self._fetch
        try:
            if fetch.follower >= 0 and not fetch.is_refused:
                await in_turns(fetch.note_follower(replica_epoch))
            await in_turns(fetch.read_in_steps())
            if not fetch.is_enough():
                await self._wait()
            response = await in_turns(fetch.response_in_steps())
            await encode_parts_in_slices(context, response)
        except BaseException:  # cancelled, too: the client has gone
            fetch.release()
            raise
        finally:
            self._stop()
        return response

    def hurry(self) -> None:
        """The follower's next request has arrived: complete this one."""
        self._is_hurried = True
        self._wake()

    async def _wait(self) -> None:
        """Return when changed partitions have brought enough, the time has passed, or the client hurries."""
        fetch = self._fetch
        fetch.release()
        end_s = self._loop.time() + self._max_wait_ms / 1000
        if fetch.follower_session is None:
            await in_turns(self._watch_all())
        while not self._is_hurried and self._loop.time() < end_s:
            if self._changed:
                self._read_changed()
                if fetch.is_enough():
                    return
                fetch.release()
            await self._sleep(end_s)
        self._read_changed()

    def _read_changed(self) -> None:
        changed, self._changed = self._changed, {}
        self._fetch.require_current()
        self._fetch.read_again(changed)

    def _watch_all(self) -> Generator[None, None, None]:
        """Watch a consumer's partitions, and note those that have changed since they were read."""
        for count, (key, partition) in enumerate(self._fetch.watched()):
            if count % SLICE_PARTITIONS == 0 and count:
                yield
            callback = partial(self._note, key)
            self._watched.append((partition, callback))
            partition.on_change(callback)
            if self._fetch.has_changed(key):
                self._note(key)

    async def _sleep(self, end_s: float) -> None:
        """Until a partition changes, the client hurries, or ``end_s`` of the loop's time."""
        if self._changed or self._is_hurried:
            return
        self._woken = self._loop.create_future()
        timer = self._loop.call_at(end_s, self._wake)
        try:
            await self._woken
        finally:
            timer.cancel()
            self._woken = None

    def _note(self, key: PartitionKey) -> None:
        self._changed[key] = None
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _stop(self) -> None:
        session = self._fetch.follower_session
        if session is not None and session.on_change == self._note:
            session.on_change = None
        self._unwatch_some()

    def _unwatch_some(self) -> None:
        for partition, callback in self._watched[-SLICE_PARTITIONS:]:
            partition.off_change(callback)
        del self._watched[-SLICE_PARTITIONS:]
        if self._watched:
            self._loop.call_soon(self._unwatch_some)

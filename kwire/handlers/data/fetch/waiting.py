"""A Fetch request that waits for data.

What lives elsewhere: a consumer of one partition (`fetch.fast_path`), and very many partitions (`fetch.large`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kwire.codec.messages.fetch_response import FetchResponse
from kwire.handlers.data.fetch.fetched_partition import PartitionKey
from kwire.handlers.data.fetch.partitions import Fetch

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition


class WaitingFetch:
    """A fetch that waits until appends to its partitions have brought enough data, or ``max_wait_ms`` has passed. After
    an append, only the partition appended to is read again, however many the fetch waits for.

    ``response`` is a bare future, so a waiting consumer costs no task. Cancelling it (the connection has closed) stops
    the watching.
    """

    __slots__ = ("_changed", "_fetch", "_loop", "_timer", "_watched", "response")

    def __init__(self, fetch: Fetch, max_wait_ms: int) -> None:
        self._loop = loop = asyncio.get_running_loop()
        fetch.release()
        self._fetch = fetch
        self._changed: dict[PartitionKey, None] = {}
        self.response: asyncio.Future[FetchResponse] = loop.create_future()
        self._timer = loop.call_later(max_wait_ms / 1000, self._time_out)
        self._watched: list[tuple[Partition, Callable[[], None]]] = []
        self.response.add_done_callback(self._stop)

    def watch(self) -> None:
        """Begin to watch the partitions: those of a follower by its session, the others one by one."""
        if self._fetch.follower_session is not None:
            self._fetch.follower_session.on_change = self._note
            return
        for key, partition in self._fetch.watched():
            self._watch(key, partition)

    def _watch(self, key: PartitionKey, partition: Partition) -> None:
        callback = partial(self._note, key)
        self._watched.append((partition, callback))
        partition.on_change(callback)

    def _note(self, key: PartitionKey) -> None:
        """A partition has changed. All that change in one turn of the event loop are read together in the next."""
        if not self._changed:
            self._loop.call_soon(self._read_changed)
        self._changed[key] = None

    def _read_changed(self) -> None:
        if self.response.done():
            return
        changed, self._changed = self._changed, {}
        self._fetch.read_again(changed)
        if self._fetch.is_enough():
            self._respond()
        else:
            self._fetch.release()

    def wake_early(self) -> None:
        """Complete a follower's fetch at once, so that its next request, which has arrived, can start."""
        if not self.response.done():
            changed, self._changed = self._changed, {}
            self._fetch.read_again(changed)
            self._respond()

    def _time_out(self) -> None:
        if not self.response.done():
            self._fetch.read_all()
            self._respond()

    def _respond(self) -> None:
        self.response.set_result(self._fetch.response())
        self._stop(self.response)  # at once, not with the callback, so that the next append does not call this any more

    def _stop(self, _: asyncio.Future[FetchResponse]) -> None:
        self._timer.cancel()
        session = self._fetch.follower_session
        if session is not None and session.on_change == self._note:
            session.on_change = None
        watched, self._watched = self._watched, []
        for partition, callback in watched:
            partition.off_change(callback)

"""Fetch (API key 1): read record batches from partitions, waiting for data where there is too little.

Behaviour:

- The response is sent at once if ``min_bytes`` are there, a partition has an error or has diverged, no partition is
  requested, or ``max_wait_ms`` is 0; otherwise once appends have brought enough, or after ``max_wait_ms`` with what
  there is.
- Partitions are read in the order of the request or session, each up to its own limit and all up to ``max_bytes`` (and
  `fetch.max.bytes`). The first batch of the first partition with data comes whole, however large it is (KIP-74).
- ``read_committed`` reads up to the last stable offset, with the aborted transactions in that range (KIP-98).
- Incremental sessions (KIP-227): `fetch.sessions`.
- If this broker no longer leads a partition, the response names the new leader (KIP-951): `data.current_leader`.
- From version 11 on, a consumer may read from any replica, up to its high watermark. An offset between that and the end
  of its log gets no records; one beyond the end gets OFFSET_OUT_OF_RANGE, even if the leader has more. With
  `replica.selector.class`, a leader names the in-sync follower in the consumer's rack instead of sending records
  (KIP-392).
- If a follower sends another request while one waits, the waiting one is completed at once, with what there is.
- Only brokers (CLUSTER_ACTION) may fetch as followers; for others, every partition has TOPIC_AUTHORIZATION_FAILED.
- A follower that is not in sync gets no records of throttled partitions while the leader's quota is exceeded (KIP-73).
- Batches are sent as ranges of the log's files, without a copy.
- The ordinary request, a consumer that reads one partition, takes the fast path
  (`fetch.fast_path`).

Versions: 4 isolation level (KIP-98); 5 ``log_start_offset`` (KIP-107); 7 sessions (KIP-227); 9 leader epochs (KIP-320);
10 zstd (KIP-110); 11 closest replica (KIP-392); 12 flexible, ``last_fetched_epoch`` and divergence (KIP-595); 13 topic
ids (KIP-516); 14 tiered storage's error (KIP-405); 15 ``replica_state`` (KIP-903); 16 ``node_endpoints`` (KIP-951);
17 directory ids (KIP-853); 18 the follower's high watermark (KIP-1166).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kwire.base.errors import KafkaError
from kwire.base.futures import NowOrLater
from kwire.codec.messages.fetch_request import FetchRequest
from kwire.codec.messages.fetch_response import FetchResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, top_level_error
from kwire.handlers.context import RequestContext
from kwire.handlers.data.fetch import fast_path
from kwire.handlers.data.fetch.fetched_partition import PartitionKey
from kwire.handlers.data.fetch.partitions import Fetch, is_follower_allowed
from kwire.handlers.data.fetch.sessions import follower_of

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition


def handle(request: FetchRequest, context: RequestContext) -> NowOrLater[FetchResponse]:
    """Read once; wait only if that is not enough."""
    follower = follower_of(request)
    is_refused = follower >= 0 and not is_follower_allowed(context)
    try:
        fetch_context = context.services.fetch_sessions.context(request, context.api_version, is_refused=is_refused)
    except KafkaError as error:
        return top_level_error(FetchResponse, error.code)  # type: ignore[no-any-return]
    fetch = Fetch(request, context, fetch_context, follower, is_refused=is_refused)
    if fetch.follower >= 0 and not fetch.is_refused:
        fetch.note_follower(request.replica_state.replica_epoch)
    fetch.read_all()
    if fetch.is_enough():
        return fetch.response()
    waiting = _WaitingFetch(fetch, request.max_wait_ms)
    if fetch.follower_session is not None:
        context.wake_early = waiting.wake_early
    return waiting.response


class _WaitingFetch:
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
        if fetch.follower_session is not None:
            fetch.follower_session.on_change = self._note
        else:
            self._watched = [(partition, partial(self._note, key)) for key, partition in fetch.watched()]
        for partition, callback in self._watched:
            partition.on_change(callback)
        self.response.add_done_callback(self._stop)

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


API = Api(ApiKey.FETCH, served=(4, 18), handle=handle, cancel_on_disconnect=True, fast_path=lambda _: fast_path.respond)

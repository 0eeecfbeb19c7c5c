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
  (`fetch.fast_path`). One about very many partitions is handled in slices (`fetch.large`).

Versions: 4 isolation level (KIP-98); 5 ``log_start_offset`` (KIP-107); 7 sessions (KIP-227); 9 leader epochs (KIP-320);
10 zstd (KIP-110); 11 closest replica (KIP-392); 12 flexible, ``last_fetched_epoch`` and divergence (KIP-595); 13 topic
ids (KIP-516); 14 tiered storage's error (KIP-405); 15 ``replica_state`` (KIP-903); 16 ``node_endpoints`` (KIP-951);
17 directory ids (KIP-853); 18 the follower's high watermark (KIP-1166).
"""

from __future__ import annotations

from kwire.base.errors import KafkaError
from kwire.base.futures import NowOrLater, at_once
from kwire.codec.messages.fetch_request import FetchRequest
from kwire.codec.messages.fetch_response import FetchResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, top_level_error
from kwire.handlers.context import RequestContext
from kwire.handlers.data.fetch import fast_path, large
from kwire.handlers.data.fetch.partitions import Fetch, is_follower_allowed
from kwire.handlers.data.fetch.sessions import follower_of
from kwire.handlers.data.fetch.waiting import WaitingFetch


def handle(request: FetchRequest, context: RequestContext) -> NowOrLater[FetchResponse]:
    """Read once; wait only if that is not enough."""
    follower = follower_of(request)
    is_refused = follower >= 0 and not is_follower_allowed(context)
    try:
        fetch_context = context.services.fetch_sessions.context(request, context.api_version, is_refused=is_refused)
    except KafkaError as error:
        return top_level_error(FetchResponse, error.code)  # type: ignore[no-any-return]
    fetch = Fetch(request, context, fetch_context, follower, is_refused=is_refused)
    if fetch.is_large:
        return large.handle(fetch, request, context)
    if fetch.follower >= 0 and not fetch.is_refused:
        at_once(fetch.note_follower(request.replica_state.replica_epoch))
    fetch.read_all()
    if fetch.is_enough():
        return fetch.response()
    waiting = WaitingFetch(fetch, request.max_wait_ms)
    waiting.watch()
    if fetch.follower_session is not None:
        context.wake_early = waiting.wake_early
    return waiting.response


API = Api(ApiKey.FETCH, served=(4, 18), handle=handle, cancel_on_disconnect=True, fast_path=lambda _: fast_path.respond)

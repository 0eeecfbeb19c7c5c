"""`Fetcher`: replicates partitions from one leading broker with the ordinary Fetch API.

A fetcher has one connection and one fetch session (KIP-227), so a request names only the partitions that changed. Each
partition fetches from its log end offset and sends the epoch of its last record (KIP-595). If the logs have diverged,
the response carries the diverging epoch and the follower truncates there: epochs decide where to truncate, never the
high watermark. An error of one partition delays only that partition.

A partition that is added while a fetch is waiting at the leader need not wait for it: the leader completes the waiting
fetch as soon as another request arrives on the connection, so the fetcher sends one (`_nudge`), and the next fetch
names the new partition. (A leader of an older kwire responds when the wait ends, after at most
`replica.fetch.wait.max.ms`.)

A request names `NAMED_MAX` partitions at most: a leader refuses requests of very many elements, and serves others
between two of them. While there are more to name, it need not wait for data.

A partition is delayed, and not part of the session, after an error, and while it is throttled, out of sync, and over
the quota (KIP-73).

What lives elsewhere: which partitions are fetched (`replication.fetcher_manager`), how a follower's log changes
(`replication.partition`), the leader's side (`kwire.handlers.data.fetch.handler`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.codec.errors import CodecError
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.net.client import ConnectionLost

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig
    from kwire.cluster.replication.partition import Partition
    from kwire.cluster.replication.throttles import ReplicationQuota
    from kwire.codec.messages.fetch_response import FetchResponse, PartitionData
    from kwire.net.client import ClientConnection

FETCH_VERSION: Final = 18
LIST_OFFSETS_VERSION: Final = 10
EARLIEST: Final = -2
API_VERSIONS_VERSION: Final = 0
NUDGED_S_MAX: Final = 2.0
"""The fetcher reconnects if a nudged leader has not responded after this time: the network may have lost a packet."""

NAMED_MAX: Final = 10_000
"""How many partitions one request names, and how many it forgets. A leader would not decode 22,000 of as many topics,
or 40,000 of few (`kwire.handlers.api.REQUEST_BUDGET`). Much fewer would cost it more: each request makes it read those
again that are not in sync yet."""

ERROR_DELAY_S_MIN: Final = 0.02
"""The delay after the first of several transient errors. It doubles with each error, up to
`replica.fetch.backoff.ms`."""

THROTTLE_DELAY_S_MIN: Final = 0.02
"""The shortest delay of throttled partitions, so that the next fetch is worth its cost."""

TopicIdPartition = tuple[bytes, int]
"""Topic id and partition index."""

_TRANSIENT: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors that end once both brokers have the same metadata image."""

_logger = get_logger("kwire.cluster.fetcher")


class FetcherSettings(NamedTuple):
    """What all fetchers of a broker share; the properties are read-only while a broker runs."""

    broker_id: int
    max_bytes: int
    response_max_bytes: int
    min_bytes: int
    wait_max_ms: int
    backoff_s: float
    socket_timeout_s: float

    @classmethod
    def of(cls, config: KafkaConfig, broker_id: int) -> FetcherSettings:
        """The settings in a broker's configuration (`replica.fetch.*`, `replica.socket.timeout.ms`)."""
        return cls(
            broker_id,
            config.replica_fetch_max_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_min_bytes,
            config.replica_fetch_wait_max_ms,
            config.replica_fetch_backoff_ms / 1000,
            config.replica_socket_timeout_ms / 1000,
        )


class _FetchState:
    """One partition of a fetcher. ``in_session``: the leader's fetch session has it; ``epoch``: the leader epoch of the
    last request that named it; ``delayed_until_s``: no fetch before this time of the loop's clock; ``error_delay_s``:
    the delay after the next transient error; ``lag``: how far it was behind the leader's high watermark."""

    __slots__ = ("delayed_until_s", "epoch", "error_delay_s", "in_session", "lag", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.in_session = False
        self.epoch = -1
        self.delayed_until_s = 0.0
        self.error_delay_s = ERROR_DELAY_S_MIN
        self.lag = 0

    def fetch_partition(self, max_bytes: int) -> FetchPartition:
        """The partition as a Fetch request names it now."""
        partition, log = self.partition, self.partition.log
        self.epoch = partition.leader_epoch
        return FetchPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.epochs.latest_epoch,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=max_bytes,
            high_watermark=log.high_watermark,
        )


class Fetcher:
    """Fetches the partitions that one broker leads.

    ``connect`` opens a connection to that broker; ``broker_epoch`` gives the epoch of this broker's registration;
    ``quota`` is that of throttled followers.
    """

    def __init__(
        self,
        settings: FetcherSettings,
        leader: int,
        connect: Callable[[], Awaitable[ClientConnection]],
        broker_epoch: Callable[[], int],
        quota: ReplicationQuota,
    ) -> None:
        self._settings = settings
        self._leader = leader
        self._connect = connect
        self._broker_epoch = broker_epoch
        self._quota = quota
        self._loop = asyncio.get_running_loop()
        self._states: dict[TopicIdPartition, _FetchState] = {}
        self._dirty: dict[TopicIdPartition, None] = {}  # to be named in the next request
        self._delayed: dict[TopicIdPartition, None] = {}  # never dirty at the same time
        self._lagging: dict[TopicIdPartition, None] = {}  # may not have reached the high watermark
        self._forgotten: dict[TopicIdPartition, None] = {}
        self._connection: ClientConnection | None = None
        self._sleeping: asyncio.Future[None] | None = None
        self._pending: asyncio.Future[FetchResponse] | None = None  # the response that is awaited
        self._waking = False
        self._nudged = False  # the pending fetch has been nudged
        self._reconnect_now = False  # if the connection ends, reconnect without a backoff
        self._task = self._loop.create_task(self._run(), name=f"fetch from broker {leader}")

    def add(self, partition: Partition) -> None:
        """Fetch a partition, or one that is fetched already in a new leader epoch."""
        key = (partition.topic_id, partition.index)
        state = self._states.get(key)
        if state is None or state.partition is not partition:
            in_session = key in self._forgotten if state is None else state.in_session
            state = self._states[key] = _FetchState(partition)
            state.in_session = in_session
        state.error_delay_s = ERROR_DELAY_S_MIN
        self._forgotten.pop(key, None)
        self._delayed.pop(key, None)
        self._dirty[key] = self._lagging[key] = None
        self._wake_early()

    def remove(self, partition: Partition) -> None:
        """Stop fetching a partition; a response for it that is still to come is ignored."""
        key = (partition.topic_id, partition.index)
        state = self._states.pop(key, None)
        for keys in (self._dirty, self._delayed, self._lagging):
            keys.pop(key, None)
        if state is not None and state.in_session:
            self._forgotten[key] = None

    def max_lag(self) -> int:
        """How many records the last partition is behind the leader's high watermark, as the last responses told it."""
        return max((self._states[key].lag for key in self._lagging), default=0)

    async def close(self) -> None:
        """Stop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._disconnect()

    def _wake_early(self) -> None:
        """End a wait in the next turn of the loop, so that partitions added together share one request."""
        if not self._waking:
            self._waking = True
            self._loop.call_soon(self._interrupt)

    def _interrupt(self) -> None:
        self._waking = False
        if self._sleeping is not None:
            self._wake(self._sleeping)
        elif self._pending is None:
            self._reconnect_now = True
        elif self._dirty and not self._nudged:
            self._nudge(self._pending)

    def _nudge(self, pending: asyncio.Future[FetchResponse]) -> None:
        """Make the leader complete the waiting fetch: it does so when another request arrives."""
        if self._connection is None or pending.done():
            return
        self._nudged = True
        response = self._connection.call(ApiVersionsRequest(), API_VERSIONS_VERSION)
        response.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._loop.call_later(NUDGED_S_MAX, self._give_up, pending)

    def _give_up(self, pending: asyncio.Future[FetchResponse]) -> None:
        if self._pending is pending and not pending.done():
            self._reconnect_now = True
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _sleep(self, seconds: float | None) -> None:
        """Wait until the time has passed or a partition is added; None: without a time limit."""
        self._sleeping = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, self._wake, self._sleeping)
        try:
            await self._sleeping
        finally:
            self._sleeping = None
            if timer is not None:
                timer.cancel()

    @staticmethod
    def _wake(future: asyncio.Future[None]) -> None:
        if not future.done():
            future.set_result(None)

    # -- the loop -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._reconnect_now = False
            if not self._states:
                await self._sleep(None)
                continue
            try:
                await self._session()
            except (PeerUnavailable, ConnectionLost, TimeoutError, CodecError) as error:
                if not self._reconnect_now:
                    refused = isinstance(error.__cause__, PermissionError)  # this broker's login: nobody else tells
                    log = _logger.warning if refused else _logger.info
                    log("cannot fetch from leader", leader=self._leader, error=str(error))
            except KafkaError as error:
                _logger.info("fetch session ended", leader=self._leader, error=error.code.name)
            except Exception as error:
                _logger.error("fetcher failed", leader=self._leader, exc_info=error)
            self._pending = None
            self._disconnect()
            if not self._reconnect_now:
                await self._sleep(self._settings.backoff_s)

    async def _session(self) -> None:
        """Fetch over one connection until it ends or no partition is left."""
        self._connection = connection = await self._connect()
        session_id = session_epoch = 0
        sessionless = False
        self._reconnect_now = False
        self._forgotten.clear()
        for state in self._states.values():
            state.in_session = False
        while self._states:
            if connection.is_due:
                self._reconnect_now = True
                return
            self._end_delays()
            self._throttle()
            delay_s = self._next_delay_s()
            if len(self._delayed) == len(self._states):
                await self._sleep(delay_s)
                continue
            if session_epoch == 0:
                for key in self._states:  # after those that the previous request did not name
                    if key not in self._delayed:
                        self._dirty[key] = None
            if not await self._flush_due():
                await self._sleep(self._settings.backoff_s)
                continue
            request = self._request(session_id, session_epoch, self._wait_ms(delay_s, sessionless))
            self._pending, self._nudged = connection.call(request, FETCH_VERSION), False
            async with asyncio.timeout(self._settings.socket_timeout_s):
                response = await self._pending
            self._pending = None
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
            if session_epoch == 0:
                session_id = response.session_id
            session_epoch = session_epoch + 1 if session_id else 0
            sessionless = not session_epoch
            await self._process(response)

    async def _flush_due(self) -> bool:
        """Sync what `flush.messages` requires before the request reports it as replicated. False if a disk refuses for
        now."""
        due = [flushed for key in self._dirty if (flushed := self._states[key].partition.log.flush_if_due())]
        if due:
            await asyncio.wait(due)
        return not any(flushed.exception() for flushed in due)

    def _request(self, session_id: int, session_epoch: int, wait_ms: int) -> FetchRequest:
        """Changes since the last request: as many as one may name."""
        settings = self._settings
        topics: dict[bytes, FetchTopic] = {}
        for key in list(islice(self._dirty, NAMED_MAX)):
            state = self._states[key]
            topic = topics.get(key[0])
            if topic is None:
                topic = topics[key[0]] = FetchTopic(topic_id=key[0])
            topic.partitions.append(state.fetch_partition(settings.max_bytes))
            state.in_session = True
            self._forgotten.pop(key, None)
            del self._dirty[key]
        forgotten: dict[bytes, ForgottenTopic] = {}
        for key in list(islice(self._forgotten, NAMED_MAX)):
            forgotten.setdefault(key[0], ForgottenTopic(topic_id=key[0])).partitions.append(key[1])
            del self._forgotten[key]
        return FetchRequest(
            replica_state=ReplicaState(replica_id=settings.broker_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    def _wait_ms(self, delay_s: float, sessionless: bool) -> int:
        """How long the leader may wait for data with the next request. ``delay_s``: until the next delayed partition is
        due."""
        wait_ms = self._settings.wait_max_ms
        if len(self._dirty) > NAMED_MAX or len(self._forgotten) > NAMED_MAX:
            if not sessionless:
                return 0
            # Every request leaves some out: so many in turn wait as long as one that names all.
            wait_ms = wait_ms * NAMED_MAX // len(self._states)
        return int(min(wait_ms, max(delay_s * 1000, 1)))

    # -- responses ----------------------------------------------------------------------------------------------------

    async def _process(self, response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                state = self._states.get(key)
                if state is not None:
                    await self._process_partition(key, state, data)

    async def _process_partition(self, key: TopicIdPartition, state: _FetchState, data: PartitionData) -> None:
        partition = state.partition
        if not partition.following or partition.leader != self._leader or partition.leader_epoch != state.epoch:
            return  # the response to a request in an earlier epoch; the next request names the partition
        self._dirty[key] = self._lagging[key] = None
        error = ErrorCode(data.error_code)
        try:
            if error is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._restart_at_leader_start(partition)
            elif error is not ErrorCode.NONE:
                self._delay_after_error(key, state, error)
            elif data.diverging_epoch.end_offset >= 0:
                self._truncate(partition, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            else:
                self._append(key, partition, data)
        except KafkaError as failure:
            _logger.warning(
                "replica cannot follow", topic=partition.topic, partition=partition.index, error=str(failure)
            )
            self._delay_after_error(key, state, failure.code)

    def _append(self, key: TopicIdPartition, partition: Partition, data: PartitionData) -> None:
        records: Any = data.records or b""
        self._states[key].error_delay_s = ERROR_DELAY_S_MIN
        if self._quota.is_throttled(partition.topic, partition.index):
            self._quota.record(len(records))
        partition.metrics.replication_bytes_in += len(records)
        end = partition.append_fetched(records, data.high_watermark, data.log_start_offset)
        if end >= data.high_watermark:
            self._lagging.pop(key, None)
        else:
            self._states[key].lag = data.high_watermark - end

    # -- delays -------------------------------------------------------------------------------------------------------

    def _throttle(self) -> None:
        """Delay the throttled partitions that lag while the quota is exceeded."""
        if self._quota.idle or not self._lagging or not self._quota.is_exceeded():
            return
        pause_s = max(self._quota.pause_s(self._settings.backoff_s), THROTTLE_DELAY_S_MIN)
        until_s = self._loop.time() + pause_s
        for key in self._lagging:
            state = self._states[key]
            if key not in self._delayed and self._quota.is_throttled(state.partition.topic, state.partition.index):
                self._delay(key, state, until_s)

    def _end_delays(self) -> None:
        """Fetch the partitions again whose back-off has passed."""
        if self._delayed:
            now_s = self._loop.time()
            for key in [key for key in self._delayed if self._states[key].delayed_until_s <= now_s]:
                del self._delayed[key]
                self._dirty[key] = None

    def _next_delay_s(self) -> float:
        """Seconds until the next back-off ends, at least a millisecond; infinite if no partition is delayed."""
        if not self._delayed:
            return math.inf
        return max(min(self._states[key].delayed_until_s for key in self._delayed) - self._loop.time(), 0.001)

    def _delay(self, key: TopicIdPartition, state: _FetchState, until_s: float) -> None:
        state.delayed_until_s = until_s
        self._delayed[key] = None
        self._dirty.pop(key, None)
        if state.in_session:
            state.in_session = False
            self._forgotten[key] = None

    def _delay_after_error(self, key: TopicIdPartition, state: _FetchState, error: ErrorCode) -> None:
        delay_s = self._settings.backoff_s
        log = _logger.info
        if error in _TRANSIENT:
            log = _logger.debug
            delay_s = min(delay_s, state.error_delay_s)
            state.error_delay_s *= 2
        self._delay(key, state, self._loop.time() + delay_s)
        log("partition fetch delayed", topic=state.partition.topic, partition=state.partition.index, error=error.name)

    # -- truncation ---------------------------------------------------------------------------------------------------

    def _truncate(self, partition: Partition, epoch: int, end_offset: int) -> None:
        """Truncate to the last offset that both logs can share: the leader's records of ``epoch`` end at
        ``end_offset``, and the leader has no later epoch that this log has."""
        log = partition.log
        own_epoch, own_end = log.end_offset_for_epoch(epoch)
        if own_epoch == epoch:
            offset = min(end_offset, own_end, log.log_end_offset)
        elif own_epoch >= 0:
            offset = min(own_end, log.log_end_offset)
        else:
            offset = min(end_offset, log.log_end_offset)
        report = _logger.warning if offset < log.high_watermark else _logger.info
        report(
            "log truncated where it diverges from the leader's",
            topic=partition.topic,
            partition=partition.index,
            offset=offset,
            end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
        )
        partition.truncate_to(offset)

    async def _restart_at_leader_start(self, partition: Partition) -> None:
        """The leader's log starts after this log's end: drop this log's records and start where the leader's does."""
        if self._connection is None:
            return
        epoch = partition.leader_epoch
        earliest = ListOffsetsPartition(partition_index=partition.index, current_leader_epoch=epoch, timestamp=EARLIEST)
        request = ListOffsetsRequest(
            replica_id=self._settings.broker_id,
            topics=[ListOffsetsTopic(name=partition.topic, partitions=[earliest])],
        )
        response = await self._connection.call(request, LIST_OFFSETS_VERSION)
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code))
        if partition.leader_epoch != epoch or not partition.following:
            return
        start, log = found.offset, partition.log
        if start > log.log_end_offset or log.log_start_offset >= log.log_end_offset:
            _logger.info(
                "log restarted at the leader's start", topic=partition.topic, partition=partition.index, offset=start
            )
            partition.truncate_fully_and_start_at(start)
        else:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"The leader starts at {start}, {log} does not fit.")

"""Following a leader: a fetcher speaks the ordinary Fetch API as a replica.

A fetcher has one connection and one fetch session (KIP-227), so a request names only what changed. Every partition
fetches from the end of its log and says in which epoch its last record was written (KIP-595); a leader whose log is
another one answers where the two part, and the follower cuts there: epochs decide, never the high watermark. An error
of one partition delays that one only.

A partition that begins to follow does not wait for a request that sleeps at the leader: a request behind it on the
same connection, whatever it is, has the leader answer it at once, and the next one names what is new. (A leader of an
older kwire answers when it has slept, at most `replica.fetch.wait.max.ms`.)

A partition rests after an error, and, where it is throttled and not in sync, while the quota is exceeded (KIP-73): then
it is no part of the session.

What lives elsewhere: which partitions are followed (`replica_fetchers`), what a follower's log takes (`partition`), the
leader's side (`kwire.handlers.data.fetch.handler`).
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

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
    from kwire.cluster.replication.fetcher_manager import ReplicaFetchers
    from kwire.cluster.replication.partition import Partition
    from kwire.codec.messages.fetch_response import FetchResponse, PartitionData
    from kwire.net.client import ClientConnection

FETCH_VERSION: Final = 18
LIST_OFFSETS_VERSION: Final = 10
EARLIEST: Final = -2
API_VERSIONS_VERSION: Final = 0
NUDGED_MAX_S: Final = 2.0
"""A leader that has not answered so long after it was nudged is connected to anew: the network may have lost it."""

QUIET_REST_S: Final = 0.02
"""How long a partition rests after the first of the errors that pass by themselves; after each other one twice as long,
at most `replica.fetch.backoff.ms`."""

PAUSE_MIN_S: Final = 0.02
"""How long throttled partitions rest at least, so that a fetch is worth its while."""

Key = tuple[bytes, int]
"""Topic id and partition index."""

_QUIET: Final = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""What passes by itself when both sides have the same image."""

_logger = get_logger("kwire.cluster.fetcher")


class _Followed:
    """One partition of a fetcher. ``told``: the leader has it in the session, asked for in leader epoch ``epoch``.
    ``until_s``: it is left alone before this moment of the loop's clock; ``rest_s``: for how long it is left alone when
    the next error comes that passes by itself."""

    __slots__ = ("epoch", "partition", "rest_s", "told", "until_s")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.told = False
        self.epoch = -1
        self.until_s = 0.0
        self.rest_s = QUIET_REST_S

    def asked(self, max_bytes: int) -> FetchPartition:
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
    """Follows the partitions that one broker leads."""

    def __init__(self, owner: ReplicaFetchers, leader: int) -> None:
        self._owner = owner
        self._leader = leader
        self._loop = asyncio.get_running_loop()
        self._followed: dict[Key, _Followed] = {}
        self._dirty: dict[Key, None] = {}  # to be named in the next request
        self._resting: dict[Key, None] = {}  # never dirty at the same time
        self._behind: dict[Key, None] = {}  # not known to have all that is committed
        self._forgotten: dict[Key, None] = {}
        self._connection: ClientConnection | None = None
        self._sleeping: asyncio.Future[None] | None = None
        self._asked: asyncio.Future[FetchResponse] | None = None  # the request that is under way
        self._hurrying = False
        self._nudged = False  # the leader was told not to let that request sleep
        self._anew = False  # should the connection end, the next one is opened at once
        self._task = self._loop.create_task(self._run(), name=f"fetch from broker {leader}")

    def add(self, partition: Partition) -> None:
        """Follow a partition, or one that is followed already in a new leader epoch."""
        key = (partition.topic_id, partition.index)
        followed = self._followed.get(key)
        if followed is None or followed.partition is not partition:
            told = key in self._forgotten if followed is None else followed.told
            followed = self._followed[key] = _Followed(partition)
            followed.told = told
        followed.rest_s = QUIET_REST_S
        self._forgotten.pop(key, None)
        self._resting.pop(key, None)
        self._dirty[key] = self._behind[key] = None
        self._hurry()

    def remove(self, partition: Partition) -> None:
        """Follow a partition no more; what is under way for it is dropped."""
        key = (partition.topic_id, partition.index)
        followed = self._followed.pop(key, None)
        for keys in (self._dirty, self._resting, self._behind):
            keys.pop(key, None)
        if followed is not None and followed.told:
            self._forgotten[key] = None

    async def close(self) -> None:
        """Stop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._disconnect()

    def _hurry(self) -> None:
        """End a wait, in the next turn of the loop, so that many partitions are one request."""
        if not self._hurrying:
            self._hurrying = True
            self._loop.call_soon(self._interrupt)

    def _interrupt(self) -> None:
        self._hurrying = False
        if self._sleeping is not None:
            self._wake(self._sleeping)
        elif self._asked is None:
            self._anew = True
        elif self._dirty and not self._nudged:
            self._nudge(self._asked)

    def _nudge(self, asked: asyncio.Future[FetchResponse]) -> None:
        """Have the leader answer now: it does when there is another request to answer."""
        if self._connection is None or asked.done():
            return
        self._nudged = True
        answer = self._connection.call(ApiVersionsRequest(), API_VERSIONS_VERSION)
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._loop.call_later(NUDGED_MAX_S, self._give_up, asked)

    def _give_up(self, asked: asyncio.Future[FetchResponse]) -> None:
        if self._asked is asked and not asked.done():
            self._anew = True
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _sleep(self, seconds: float | None) -> None:
        """Until the time is over or there is something new to do."""
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

    # The loop

    async def _run(self) -> None:
        while True:
            self._anew = False
            if not self._followed:
                await self._sleep(None)
                continue
            try:
                await self._session()
            except (PeerUnavailable, ConnectionLost, TimeoutError, CodecError) as error:
                if not self._anew:
                    _logger.info("leader cannot be followed now", leader=self._leader, error=str(error))
            except KafkaError as error:
                _logger.info("fetch session ended", leader=self._leader, error=error.code.name)
            except Exception as error:
                _logger.error("fetcher failed", leader=self._leader, exc_info=error)
            self._asked = None
            self._disconnect()
            if not self._anew:
                await self._sleep(self._owner.config.replica_fetch_backoff_ms / 1000)

    async def _session(self) -> None:
        """Fetch over one connection until it ends, or nothing is left to follow."""
        self._connection = connection = await self._owner.peers.connect(
            self._leader, f"broker-{self._owner.broker_id}-fetcher-{self._leader}"
        )
        session_id = session_epoch = 0
        self._anew = False
        self._forgotten.clear()
        for followed in self._followed.values():
            followed.told = False
        timeout_s = self._owner.config.replica_socket_timeout_ms / 1000
        while self._followed:
            self._wake_rested()
            self._throttle()
            rest_s = self._rest_s()
            if len(self._resting) == len(self._followed):
                await self._sleep(rest_s)
                continue
            if session_epoch == 0:
                self._dirty = dict.fromkeys(key for key in self._followed if key not in self._resting)
            if not await self._synced():
                await self._sleep(self._owner.config.replica_fetch_backoff_ms / 1000)
                continue
            request = self._request(session_id, session_epoch, rest_s)
            self._asked, self._nudged = connection.call(request, FETCH_VERSION), False
            async with asyncio.timeout(timeout_s):
                response = await self._asked
            self._asked = None
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
            if session_epoch == 0:
                session_id = response.session_id
            session_epoch = session_epoch + 1 if session_id else 0
            await self._take(response)

    async def _synced(self) -> bool:
        """What a leader is told to be here is what others rely on: with `flush.messages` it is synced before. False:
        a disk refuses, for now."""
        due = [flushed for key in self._dirty if (flushed := self._followed[key].partition.log.flush_if_due())]
        if due:
            await asyncio.wait(due)
        return not any(flushed.exception() for flushed in due)

    def _request(self, session_id: int, session_epoch: int, rest_s: float) -> FetchRequest:
        """What is new since the last request. ``rest_s``: until the next partition has rested."""
        config = self._owner.config
        topics: dict[bytes, FetchTopic] = {}
        for key in self._dirty:
            followed = self._followed[key]
            topic = topics.get(key[0])
            if topic is None:
                topic = topics[key[0]] = FetchTopic(topic_id=key[0])
            topic.partitions.append(followed.asked(config.replica_fetch_max_bytes))
            followed.told = True
            self._forgotten.pop(key, None)
        self._dirty.clear()
        forgotten: dict[bytes, ForgottenTopic] = {}
        for key in self._forgotten:
            forgotten.setdefault(key[0], ForgottenTopic(topic_id=key[0])).partitions.append(key[1])
        self._forgotten.clear()
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._owner.broker_id, replica_epoch=self._owner.epoch()),
            max_wait_ms=int(min(config.replica_fetch_wait_max_ms, max(rest_s * 1000, 1))),
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    # Responses

    async def _take(self, response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                followed = self._followed.get(key)
                if followed is not None:
                    await self._take_partition(key, followed, data)

    async def _take_partition(self, key: Key, followed: _Followed, data: PartitionData) -> None:
        partition = followed.partition
        if not partition.following or partition.leader != self._leader or partition.leader_epoch != followed.epoch:
            return  # of an earlier request; the next one names it
        self._dirty[key] = self._behind[key] = None
        error = ErrorCode(data.error_code)
        try:
            if error is ErrorCode.OFFSET_OUT_OF_RANGE:
                await self._start_where_leader_starts(partition)
            elif error is not ErrorCode.NONE:
                self._rest(key, followed, error)
            elif data.diverging_epoch.end_offset >= 0:
                self._cut(partition, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            else:
                self._append(key, partition, data)
        except KafkaError as failure:
            _logger.warning(
                "replica cannot follow", topic=partition.topic, partition=partition.index, error=str(failure)
            )
            self._rest(key, followed, failure.code)

    def _append(self, key: Key, partition: Partition, data: PartitionData) -> None:
        records: Any = data.records or b""
        self._followed[key].rest_s = QUIET_REST_S
        quota = self._owner.quota
        if quota.is_throttled(partition.topic, partition.index):
            quota.record(len(records))
        partition.metrics.replication_bytes_in += len(records)
        if partition.append_fetched(records, data.high_watermark, data.log_start_offset) >= data.high_watermark:
            self._behind.pop(key, None)

    # Resting

    def _throttle(self) -> None:
        """Leave out what is throttled and not in sync while too much has come."""
        quota = self._owner.quota
        if quota.idle or not self._behind or not quota.is_exceeded():
            return
        pause_s = max(quota.pause_s(self._owner.config.replica_fetch_backoff_ms / 1000), PAUSE_MIN_S)
        until_s = self._loop.time() + pause_s
        for key in self._behind:
            followed = self._followed[key]
            if key not in self._resting and quota.is_throttled(followed.partition.topic, followed.partition.index):
                self._leave_alone(key, followed, until_s)

    def _wake_rested(self) -> None:
        """Have those fetched again that have rested."""
        if self._resting:
            now_s = self._loop.time()
            for key in [key for key in self._resting if self._followed[key].until_s <= now_s]:
                del self._resting[key]
                self._dirty[key] = None

    def _rest_s(self) -> float:
        """In how many seconds the next one has rested (at least a millisecond)."""
        if not self._resting:
            return math.inf
        return max(min(self._followed[key].until_s for key in self._resting) - self._loop.time(), 0.001)

    def _leave_alone(self, key: Key, followed: _Followed, until_s: float) -> None:
        followed.until_s = until_s
        self._resting[key] = None
        self._dirty.pop(key, None)
        if followed.told:
            followed.told = False
            self._forgotten[key] = None

    def _rest(self, key: Key, followed: _Followed, error: ErrorCode) -> None:
        """Leave a partition alone for a while that cannot be fetched."""
        rest_s = self._owner.config.replica_fetch_backoff_ms / 1000
        log = _logger.info
        if error in _QUIET:
            log = _logger.debug
            rest_s = min(rest_s, followed.rest_s)
            followed.rest_s *= 2
        self._leave_alone(key, followed, self._loop.time() + rest_s)
        log("partition rests", topic=followed.partition.topic, partition=followed.partition.index, error=error.name)

    def _cut(self, partition: Partition, epoch: int, end_offset: int) -> None:
        """The leader's last records of ``epoch`` end at ``end_offset``, and it has none of a later epoch that this log
        has: cut to what both can have."""
        log = partition.log
        mine, my_end = log.end_offset_for_epoch(epoch)
        if mine == epoch:
            offset = min(end_offset, my_end, log.log_end_offset)
        elif mine >= 0:
            offset = min(my_end, log.log_end_offset)
        else:
            offset = min(end_offset, log.log_end_offset)
        report = _logger.warning if offset < log.high_watermark else _logger.info
        report(
            "log cut to where it parts from the leader's",
            topic=partition.topic,
            partition=partition.index,
            offset=offset,
            end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
        )
        partition.truncate_to(offset)

    async def _start_where_leader_starts(self, partition: Partition) -> None:
        """The leader has nothing of what this log ends with: begin anew at its start."""
        if self._connection is None:
            return
        epoch = partition.leader_epoch
        asked = ListOffsetsPartition(partition_index=partition.index, current_leader_epoch=epoch, timestamp=EARLIEST)
        request = ListOffsetsRequest(
            replica_id=self._owner.broker_id, topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])]
        )
        response = await self._connection.call(request, LIST_OFFSETS_VERSION)
        found = response.topics[0].partitions[0]
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code))
        if partition.leader_epoch != epoch or not partition.following:
            return
        start, log = found.offset, partition.log
        if start > log.log_end_offset or log.log_start_offset >= log.log_end_offset:
            _logger.info("log begins anew", topic=partition.topic, partition=partition.index, offset=start)
            partition.start_anew_at(start)
        else:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"The leader starts at {start}, {log} does not fit.")

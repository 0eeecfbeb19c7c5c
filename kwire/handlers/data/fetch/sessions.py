"""Incremental fetch sessions (KIP-227): the partitions that a client reads, kept between its Fetch requests.

With a session, neither requests nor responses have to name every partition. A *full* fetch names all its partitions
(sessionless, or to open a session); an incremental one names only what changed since the previous request. What lives
elsewhere: reading the partitions (`fetch.partitions`) and waiting for data (`fetch.handler`).

Rules, as in Kafka:

- Session epoch -1 ends the named session (if any), and the response is sessionless; 0 ends it and opens a new one. Any
  other epoch must be the one that the session expects next: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH.
- A session uses names (up to version 12) or topic ids (from 13): FETCH_SESSION_TOPIC_ID_ERROR.
- A session whose last partition is forgotten ends, and the response is sessionless.
- There are at most `max.incremental.fetch.session.cache.slots` sessions. A new one replaces the least recently used one
  if that has been unused for two minutes, or a smaller one that is at least two minutes old; otherwise the fetch is
  sessionless.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.handlers.data.fetch.fetched_partition import FetchedPartition, FetchedPartitions, TopicKey
from kwire.handlers.data.fetch.follower_session import FollowerSession

if TYPE_CHECKING:
    from kwire.base.doors import Doors
    from kwire.codec.messages.fetch_request import FetchRequest
    from kwire.codec.messages.fetch_response import PartitionData

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
NO_SESSION: Final = 0
EVICTION_MS: Final = 120_000
_CONSUMER: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class FetchSession:
    """A client's session: its partitions and the epoch of its next request. ``follower_session`` is None for a
    consumer."""

    __slots__ = ("created_ms", "epoch", "follower_session", "id", "partitions", "used_ms", "uses_topic_ids")

    def __init__(
        self,
        session_id: int,
        partitions: FetchedPartitions,
        uses_topic_ids: bool,
        now_ms: int,
        follower_session: FollowerSession | None,
    ) -> None:
        self.follower_session = follower_session
        self.id = session_id
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.created_ms = now_ms
        self.used_ms = now_ms

    def update(self, request: FetchRequest) -> None:
        """Add, change and forget the partitions that an incremental request names."""
        named = requested_partitions(request, self.uses_topic_ids)
        for key, partition in named.items():
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = partition
            else:
                known.requested = partition.requested
        if self.follower_session is not None:
            self.follower_session.named(named)
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                self.partitions.pop((topic, index), None)
                if self.follower_session is not None:
                    self.follower_session.forget((topic, index))


class FetchContext:
    """What one Fetch request reads, and which of it the response includes.

    ``known`` are all partitions of the session, ``partitions`` those to read now. ``follower_session`` is None for a
    consumer.
    """

    __slots__ = ("_incremental", "follower_session", "known", "partitions", "session_id")

    def __init__(
        self,
        partitions: FetchedPartitions,
        session_id: int = NO_SESSION,
        incremental: bool = False,
        follower_session: FollowerSession | None = None,
    ) -> None:
        self.known = partitions
        self.partitions = partitions if follower_session is None or not incremental else follower_session.to_read()
        self.session_id = session_id
        self.follower_session = follower_session
        self._incremental = incremental

    @property
    def is_incremental(self) -> bool:
        """Whether the request continues a session."""
        return self._incremental

    def includes(self, partition: FetchedPartition, data: PartitionData) -> bool:
        """Whether the response includes this partition: always, unless it is incremental and nothing is new. What it
        includes is remembered."""
        if self.session_id == NO_SESSION:
            return True
        news = partition.take_news(data)
        if self.follower_session is not None and data.high_watermark > partition.requested.high_watermark:
            return True  # the previous response may not have arrived
        return news or not self._incremental

    def would_include(self, partition: FetchedPartition, data: PartitionData) -> bool:
        """`includes` for a consumer, with nothing remembered."""
        return not self._incremental or partition.has_news(data)

    def read(self, partition: FetchedPartition, gave_data: bool) -> None:
        """Note what the response includes: in a session, a partition that gave data is read last next time."""
        if self._incremental and gave_data and self.follower_session is None:
            self.partitions.move_to_end((partition.topic, partition.index))


def follower_of(request: FetchRequest) -> int:
    """The broker id of the follower that fetches; negative for a consumer."""
    return max(request.replica_id, request.replica_state.replica_id)


def requested_partitions(request: FetchRequest, by_id: bool) -> FetchedPartitions:
    """The partitions that a request names. If one is named twice, the last entry counts."""
    partitions: FetchedPartitions = OrderedDict()
    for topic in request.topics:
        key: TopicKey = topic.topic_id if by_id else topic.topic
        for requested in topic.partitions:
            partitions[key, requested.partition] = FetchedPartition(key, requested)
    return partitions


class FetchSessions:
    """All sessions of a broker, the least recently used first."""

    def __init__(self, doors: Doors, slots: int) -> None:
        self._clock = doors.clock
        self._random = doors.random
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._of_followers: dict[int, int] = {}  # replica id -> session id

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """How many partitions all sessions have together."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def context(self, request: FetchRequest, version: int, *, is_refused: bool = False) -> FetchContext:
        """What a request reads. ``is_refused``: the client may not fetch as a follower, so its session takes no
        follower's place. KafkaError: an unknown session, a wrong epoch, or a change between names and ids."""
        by_id = version >= 13
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._end(request.session_id)
            partitions = requested_partitions(request, by_id)
            if request.session_epoch == FINAL_EPOCH or not partitions:
                return FetchContext(partitions)
            session = self._open(partitions, by_id, _CONSUMER if is_refused else follower_of(request))
            if session is None:
                return FetchContext(partitions)
            if session.follower_session is not None:
                session.follower_session.registered(request.replica_state.replica_epoch)
            return FetchContext(partitions, session.id, follower_session=session.follower_session)
        return self._continue(request, by_id)

    def _continue(self, request: FetchRequest, by_id: bool) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(request)
        if session.follower_session is not None:
            session.follower_session.registered(request.replica_state.replica_epoch)
        if not session.partitions:
            self._end(session.id)
            return FetchContext(session.partitions)
        self.used(session)
        return FetchContext(session.partitions, session.id, incremental=True, follower_session=session.follower_session)

    def ordinary(self, session_id: int, epoch: int, by_id: bool) -> FetchSession | None:
        """The session of a consumer that reads one partition, if a request with this epoch continues it."""
        session = self._sessions.get(session_id)
        if (
            session is None
            or session.epoch != epoch
            or epoch == INITIAL_EPOCH
            or session.uses_topic_ids != by_id
            or session.follower_session is not None
            or len(session.partitions) != 1
        ):
            return None
        return session

    def used(self, session: FetchSession) -> None:
        """A request has continued the session: expect the next epoch."""
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.used_ms = self._clock.time_ms()
        self._sessions.move_to_end(session.id)

    def _open(self, partitions: FetchedPartitions, by_id: bool, replica: int) -> FetchSession | None:
        """A new session; None if there is no room. A follower's new session replaces the one that it had."""
        now_ms = self._clock.time_ms()
        if replica >= 0:
            self._end(self._of_followers.pop(replica, NO_SESSION))
        if not self._make_room(len(partitions), now_ms):
            return None
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        follower_session = None if replica < 0 else FollowerSession(partitions)
        session = FetchSession(session_id, partitions, by_id, now_ms, follower_session)
        self._sessions[session_id] = session
        if replica >= 0:
            self._of_followers[replica] = session_id
        return session

    def throttled(self, context: FetchContext) -> int:
        """The session id in the empty response to a throttled client. A session that this request would have opened
        ends: the client does not learn of it, as in Kafka."""
        if context.is_incremental:
            return context.session_id
        self._end(context.session_id)
        return NO_SESSION

    def _end(self, session_id: int) -> None:
        """End a session, if there is one with this id."""
        session = self._sessions.pop(session_id, None)
        if session is not None and session.follower_session is not None:
            session.follower_session.close()

    def _make_room(self, size: int, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > EVICTION_MS:
            self._end(oldest.id)
            return True
        smallest = min(self._sessions.values(), key=lambda session: (len(session.partitions), session.used_ms))
        if len(smallest.partitions) < size and now_ms - smallest.created_ms > EVICTION_MS:
            self._end(smallest.id)
            return True
        return False

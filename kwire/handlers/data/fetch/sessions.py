"""Incremental fetch sessions (KIP-227): the partitions a consumer reads, remembered between its Fetch requests.

A session saves both sides from naming every partition in every request and response. A request either names all its
partitions (a *full* fetch: sessionless, or opening a session) or only what changed since its last one. What lives
elsewhere: reading the partitions and waiting for data (`fetch`).

Rules, as Kafka has them:

- session epoch -1 ends the session named (if any) and is answered sessionless; 0 ends it and opens a new one; any other
  epoch must be the one the session expects next: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH.
- a session is bound to names (up to version 12) or topic ids (from 13): FETCH_SESSION_TOPIC_ID_ERROR.
- a session whose last partition was forgotten is ended, and the answer is sessionless.
- at most `max.incremental.fetch.session.cache.slots` sessions; one unused for two minutes makes room for a new one, as
  does a smaller one that has been there as long; otherwise the fetch goes on sessionless.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.file_range import FileRange
from kwire.handlers.data.fetch.follower_session import Followed

if TYPE_CHECKING:
    from kwire.codec.message import Records
    from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest
    from kwire.codec.messages.fetch_response import PartitionData
    from kwire.handlers.context import Services

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
NO_SESSION: Final = 0
EVICTION_MS: Final = 120_000
_EPOCH_MAX: Final = 2**31 - 1

TopicKey = str | bytes
"""A topic's name, or from version 13 on its id."""


def records_size(records: Records | None) -> int:
    """Bytes of what a partition gives, wherever they are."""
    if isinstance(records, FileRange):
        return records.size
    return len(records) if isinstance(records, bytes) else 0


class FetchedPartition:
    """One partition of a fetch: what the client asks of it and, in a session, what it was last told."""

    __slots__ = ("asked", "index", "log_start_offset", "told_high_watermark", "topic")

    def __init__(self, topic: TopicKey, asked: FetchPartition) -> None:
        self.topic = topic
        self.index = asked.partition
        self.asked = asked
        self.told_high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, data: PartitionData) -> bool:
        """Whether an incremental answer must contain the partition; remembers what it tells."""
        news = (
            records_size(data.records) > 0
            or data.high_watermark != self.told_high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.preferred_read_replica != -1
            or data.diverging_epoch.epoch != -1
        )
        self.told_high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset
        if data.error_code:
            self.told_high_watermark = -1  # so that the end of the trouble is told as well
            return True
        return news


Key = tuple[TopicKey, int]
Partitions = OrderedDict[Key, FetchedPartition]
"""In the order in which they are read: those that gave data move to the end, so that all get their turn."""


class FetchSession:
    """One client's session: its partitions and the epoch of its next request. ``followed``: it is a follower's."""

    __slots__ = ("created_ms", "epoch", "followed", "id", "partitions", "used_ms", "uses_topic_ids")

    def __init__(
        self, session_id: int, partitions: Partitions, uses_topic_ids: bool, now_ms: int, followed: Followed | None
    ) -> None:
        self.followed = followed
        self.id = session_id
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.created_ms = now_ms
        self.used_ms = now_ms

    def update(self, request: FetchRequest) -> None:
        """Take in what an incremental request adds, changes and forgets."""
        named = requested_partitions(request, self.uses_topic_ids)
        for key, partition in named.items():
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = partition
            else:
                known.asked = partition.asked
        if self.followed is not None:
            self.followed.named(named)
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                self.partitions.pop((topic, index), None)
                if self.followed is not None:
                    self.followed.forget((topic, index))


class FetchContext:
    """How one Fetch request is to be answered: which partitions are read, and which of them are told.

    ``followed``: of a follower's session; ``known``: all partitions of the session.
    """

    __slots__ = ("_incremental", "followed", "known", "partitions", "session_id")

    def __init__(
        self,
        partitions: Partitions,
        session_id: int = NO_SESSION,
        incremental: bool = False,
        followed: Followed | None = None,
    ) -> None:
        self.known = partitions
        self.partitions = partitions if followed is None or not incremental else followed.to_read()
        self.session_id = session_id
        self.followed = followed
        self._incremental = incremental

    def must_tell(self, partition: FetchedPartition, data: PartitionData) -> bool:
        """Whether the answer contains this partition (all, but for incremental answers without news)."""
        if self.session_id == NO_SESSION:
            return True
        news = partition.has_news(data)
        if self.followed is not None and data.high_watermark > partition.asked.high_watermark:
            return True  # what it was told before may not have arrived
        return news or not self._incremental

    def read(self, partition: FetchedPartition, gave_data: bool) -> None:
        """Note that a partition was told: in a session, one that gave data is read last next time."""
        if self._incremental and gave_data and self.followed is None:
            self.partitions.move_to_end((partition.topic, partition.index))


def requested_partitions(request: FetchRequest, by_id: bool) -> Partitions:
    """The partitions that a request names; of one named twice the last naming counts."""
    partitions: Partitions = OrderedDict()
    for topic in request.topics:
        key: TopicKey = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            partitions[key, asked.partition] = FetchedPartition(key, asked)
    return partitions


class FetchSessions:
    """All sessions of a broker, the least recently used first."""

    def __init__(self, services: Services) -> None:
        self._clock = services.doors.clock
        self._random = services.doors.random
        self._slots = services.config.max_incremental_fetch_session_cache_slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._of_followers: dict[int, int] = {}  # session by replica id: each has one

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, request: FetchRequest, version: int) -> FetchContext:
        """How to answer a request. KafkaError for an unknown session, epoch or a change between names and ids."""
        by_id = version >= 13
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._end(request.session_id)
            partitions = requested_partitions(request, by_id)
            if request.session_epoch == FINAL_EPOCH or not partitions:
                return FetchContext(partitions)
            session = self._open(partitions, by_id, max(request.replica_id, request.replica_state.replica_id))
            if session is None:
                return FetchContext(partitions)
            if session.followed is not None:
                session.followed.registered(request.replica_state.replica_epoch)
            return FetchContext(partitions, session.id, followed=session.followed)
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
        if session.followed is not None:
            session.followed.registered(request.replica_state.replica_epoch)
        if not session.partitions:
            self._end(session.id)
            return FetchContext(session.partitions)
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.used_ms = self._clock.time_ms()
        self._sessions.move_to_end(session.id)
        return FetchContext(session.partitions, session.id, incremental=True, followed=session.followed)

    def _open(self, partitions: Partitions, by_id: bool, replica: int) -> FetchSession | None:
        """A new session, if there is room for it. A follower's takes the place of the one that it had."""
        now_ms = self._clock.time_ms()
        if replica >= 0:
            self._end(self._of_followers.pop(replica, NO_SESSION))
        if not self._make_room(len(partitions), now_ms):
            return None
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        followed = None if replica < 0 else Followed(partitions)
        session = self._sessions[session_id] = FetchSession(session_id, partitions, by_id, now_ms, followed)
        if replica >= 0:
            self._of_followers[replica] = session_id
        return session

    def _end(self, session_id: int) -> None:
        """End a session; content if there is none."""
        session = self._sessions.pop(session_id, None)
        if session is not None and session.followed is not None:
            session.followed.close()

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

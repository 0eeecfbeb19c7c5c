"""Share sessions (KIP-932): the partitions that a member of a share group reads from this broker, between its requests.

A session belongs to a group and a member; it has no id of its own. Rules, as in Kafka:

- Epoch 0 opens a session in place of the one that the member had; what that one had acquired stays acquired until its
  locks end. It may not carry acknowledgements: INVALID_REQUEST. There are at most `group.share.max.share.sessions`
  sessions: SHARE_SESSION_LIMIT_REACHED.
- Epoch -1 ends the session; anything else must be the epoch that the session expects next: SHARE_SESSION_NOT_FOUND,
  INVALID_SHARE_SESSION_EPOCH. After 2^31 - 1 comes 1.
- A session ends with the connection on which it was opened.

What lives elsewhere: what is released at the end of a session (`share.partitions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kwire.base.metrics import Meter

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1

PartitionKey = tuple[bytes, int]
"""Topic id and partition index."""


class SessionKey(NamedTuple):
    """Whose session it is."""

    group_id: str
    member_id: str


class SessionPartition:
    """A partition of a session. ``topic`` is the topic's name when the partition was added, None if there was no such
    topic; ``is_news``: the next response must contain the partition even without records."""

    __slots__ = ("is_news", "topic")

    def __init__(self, topic: str | None, is_news: bool) -> None:
        self.topic = topic
        self.is_news = is_news


class ShareSession:
    """The session of one member: its partitions, in the order in which they are to be read, and its next epoch."""

    __slots__ = ("connection_id", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, partitions: dict[PartitionKey, SessionPartition], connection_id: str) -> None:
        self.key = key
        self.partitions = partitions
        self.connection_id = connection_id
        self.epoch = 1

    def update(self, named: dict[PartitionKey, str | None], forgotten: Iterable[PartitionKey]) -> None:
        """Add the partitions that a request names, and drop those that it forgets."""
        for key, topic in named.items():
            if key not in self.partitions:
                self.partitions[key] = SessionPartition(topic, is_news=True)
        for key in forgotten:
            self.partitions.pop(key, None)

    def advance(self) -> None:
        """A request of the session was accepted: expect the next epoch."""
        self.epoch = next_epoch(self.epoch)

    def includes(self, key: PartitionKey, size: int, error_code: int) -> bool:
        """Whether the response must contain a partition, given the bytes of its records. One that gave records is read
        last next time; one that failed is contained in the next response, too."""
        partition = self.partitions.get(key)
        if partition is None:
            return size > 0 or error_code != ErrorCode.NONE
        is_included = size > 0 or partition.is_news or error_code != ErrorCode.NONE
        partition.is_news = error_code != ErrorCode.NONE
        if size > 0:
            del self.partitions[key]
            self.partitions[key] = partition
        return is_included


def next_epoch(epoch: int) -> int:
    """The epoch of the request after one with ``epoch``."""
    return 1 if epoch >= _EPOCH_MAX else epoch + 1


class ShareSessions:
    """All share sessions of a broker.

    ``on_leave`` is called with a session that ended with its connection, ``on_empty`` with a group that has no session
    left at such a moment. ``evictions`` counts the sessions that ended so.
    """

    def __init__(
        self,
        sessions_max: int,
        on_leave: Callable[[ShareSession], None],
        on_empty: Callable[[str], None],
        evictions: Meter,
    ) -> None:
        self._max = sessions_max
        self._on_leave = on_leave
        self._on_empty = on_empty
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._of_connections: dict[str, dict[SessionKey, None]] = {}
        self._members: dict[str, int] = {}
        self._evictions = evictions

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """How many partitions all sessions have."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, key: SessionKey, named: dict[PartitionKey, str | None], connection_id: str) -> ShareSession:
        """A new session in place of the member's present one. KafkaError (SHARE_SESSION_LIMIT_REACHED)."""
        self.remove(key)
        if len(self._sessions) >= self._max:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        partitions = {each: SessionPartition(topic, is_news=False) for each, topic in named.items()}
        session = self._sessions[key] = ShareSession(key, partitions, connection_id)
        self._of_connections.setdefault(connection_id, {})[key] = None
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        return session

    def find(self, key: SessionKey) -> ShareSession:
        """A member's session. KafkaError (SHARE_SESSION_NOT_FOUND)."""
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def expect(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session that a request of this epoch continues or ends. KafkaError (SHARE_SESSION_NOT_FOUND,
        INVALID_SHARE_SESSION_EPOCH)."""
        session = self.find(key)
        if epoch not in (FINAL_EPOCH, session.epoch):
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def remove(self, key: SessionKey) -> ShareSession | None:
        """End a session, if there is one."""
        session = self._sessions.pop(key, None)
        if session is not None:
            self._members[key.group_id] -= 1
        return session

    def disconnected(self, connection_id: str) -> None:
        """A connection has closed: the sessions that were opened on it end."""
        keys = self._of_connections.pop(connection_id, ())
        for key in keys:
            session = self._sessions.get(key)
            if session is not None and session.connection_id == connection_id:
                self._evictions.count += 1
                self.remove(key)
                self._on_leave(session)
        for group_id in dict.fromkeys(key.group_id for key in keys):
            if not self._members.get(group_id):
                self._members.pop(group_id, None)
                self._on_empty(group_id)

    def close_all(self) -> None:
        """End all sessions, without a call to anybody: `share.version` is 0 again."""
        self._sessions.clear()
        self._members.clear()

"""A follower's session: idle partitions are not read, and any change makes a partition active."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kwire.codec.messages.fetch_response import EpochEndOffset, PartitionData
from kwire.handlers.data.fetch.fetched_partition import FetchedPartition
from kwire.handlers.data.fetch.follower_session import CHECKED_PER_REQUEST, FollowerSession
from kwire.handlers.data.fetch.sessions import FetchSessions

FOLLOWER = 2
TOPIC = b"t" * 16


class Leader:
    """A partition that ends at 10, all of it committed, with the follower in sync."""

    def __init__(self) -> None:
        self.log = SimpleNamespace(log_end_offset=10, high_watermark=10, log_start_offset=0)
        self.isr: tuple[int, ...] = (1, FOLLOWER)
        self.listeners: dict[Callable[[], None], None] = {}

    def on_change(self, callback: Callable[[], None]) -> None:
        self.listeners[callback] = None

    def off_change(self, callback: Callable[[], None]) -> None:
        self.listeners.pop(callback, None)

    def change(self) -> None:
        for callback in list(self.listeners):
            callback()


class Session:
    """Partitions that a follower fetches at their log end offsets."""

    def __init__(self, count: int) -> None:
        fetched = [FetchPartition(partition=index, fetch_offset=10, high_watermark=10) for index in range(count)]
        self.partitions = OrderedDict(((TOPIC, each.partition), FetchedPartition(TOPIC, each)) for each in fetched)
        self.leaders = [Leader() for _ in fetched]
        self.session = FollowerSession(self.partitions)  # type: ignore[arg-type]

    def respond(self, index: int, **data: Any) -> None:
        """Read one partition and include it in a response."""
        leader, fetched = self.leaders[index], self.partitions[TOPIC, index]
        self.session.watch((TOPIC, index), leader)  # type: ignore[arg-type]
        part = PartitionData(
            partition_index=index, **{"high_watermark": leader.log.high_watermark, "records": b"", **data}
        )
        part.log_start_offset = leader.log.log_start_offset
        fetched.take_news(part)
        self.session.responded(FOLLOWER, leader, fetched, part)  # type: ignore[arg-type]

    def to_read(self) -> list[int]:
        return [index for _, index in self.session.to_read()]


@pytest.fixture
def session() -> Session:
    made = Session(3)
    for index in range(3):
        made.respond(index)
    return made


def test_at_first_everything_is_read_and_then_nothing(session: Session) -> None:
    assert Session(2).to_read() == [0, 1]
    assert session.to_read() == []


def test_a_changed_partition_is_read_again_and_wakes_the_waiting_request(session: Session) -> None:
    woken: list[object] = []
    session.session.on_change = woken.append
    session.leaders[1].change()
    assert woken == [(TOPIC, 1)]
    assert session.to_read() == [1]


def test_what_a_request_names_is_read(session: Session) -> None:
    session.session.named([(TOPIC, 2)])
    assert session.to_read() == [2]


@pytest.mark.parametrize(
    "data", [{"error_code": 6}, {"diverging_epoch": EpochEndOffset(epoch=1, end_offset=5)}], ids=["error", "diverged"]
)
def test_a_partition_with_an_error_or_divergence_is_read_again(session: Session, data: dict[str, Any]) -> None:
    session.respond(0, **data)
    assert session.to_read() == [0]


def test_a_follower_that_is_behind_or_out_of_sync_or_lags_in_its_high_watermark_is_read_again(session: Session) -> None:
    session.leaders[0].log.log_end_offset = 11
    session.leaders[1].isr = (1,)
    session.partitions[TOPIC, 2].requested.high_watermark = 9
    for index in (2, 1, 0):
        session.respond(index)
    assert session.to_read() == [2, 1, 0]


def test_a_log_start_offset_that_moves_silently_is_found(session: Session) -> None:
    session.leaders[2].log.log_start_offset = 4
    assert session.to_read() == [2]


def test_each_request_checks_a_limited_number_of_idle_partitions() -> None:
    session = Session(3 * CHECKED_PER_REQUEST)
    for index in range(len(session.leaders)):
        session.respond(index)
        session.leaders[index].log.log_start_offset = 1
    assert [len(session.to_read()) for _ in range(4)] == [CHECKED_PER_REQUEST * each for each in (1, 2, 3, 3)]


def test_after_a_new_registration_all_partitions_are_read(session: Session) -> None:
    session.session.registered(7)
    assert session.to_read() == [0, 1, 2]


def test_a_recreated_partition_replaces_the_old_one(session: Session) -> None:
    old, session.leaders[0] = session.leaders[0], Leader()
    session.respond(0)
    assert not old.listeners
    session.leaders[0].change()
    assert session.to_read() == [0]


def test_closed_sessions_and_forgotten_partitions_have_no_listeners(session: Session) -> None:
    session.session.forget((TOPIC, 0))
    assert [len(each.listeners) for each in session.leaders] == [0, 1, 1]
    session.session.close()
    session.session.watch((TOPIC, 1), session.leaders[1])  # type: ignore[arg-type]
    assert not any(each.listeners for each in session.leaders)


def test_a_follower_has_one_session() -> None:
    doors = SimpleNamespace(clock=SimpleNamespace(time_ms=lambda: 0), random=random.Random(1))
    sessions = FetchSessions(doors, 10)  # type: ignore[arg-type]
    topics = [FetchTopic(topic_id=TOPIC, partitions=[FetchPartition(partition=0)])]
    for replica in (FOLLOWER, FOLLOWER, 3, -1, -1):
        sessions.context(
            FetchRequest(session_epoch=0, topics=topics, replica_state=ReplicaState(replica_id=replica)), 18
        )
    assert len(sessions) == 4


def test_a_refused_follower_gets_a_consumers_session() -> None:
    doors = SimpleNamespace(clock=SimpleNamespace(time_ms=lambda: 0), random=random.Random(1))
    sessions = FetchSessions(doors, 10)  # type: ignore[arg-type]
    topics = [FetchTopic(topic_id=TOPIC, partitions=[FetchPartition(partition=0)])]
    request = FetchRequest(session_epoch=0, topics=topics, replica_state=ReplicaState(replica_id=FOLLOWER))
    follower = sessions.context(request, 18)
    assert sessions.context(request, 18, is_refused=True).follower_session is None
    continued = sessions.context(FetchRequest(session_id=follower.session_id, session_epoch=1), 18)
    assert continued.follower_session is follower.follower_session

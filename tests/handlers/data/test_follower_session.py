"""A follower's session: idle partitions are quiet, and whatever there is to tell of one makes it heard."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kwire.codec.messages.fetch_response import EpochEndOffset, PartitionData
from kwire.handlers.data.fetch.follower_session import LOOKED_AT_PER_REQUEST, Followed
from kwire.handlers.data.fetch.sessions import FetchedPartition, FetchSessions

FOLLOWER = 2
TOPIC = b"t" * 16


class Leader:
    """A partition that ends at 10, all of it committed, with the follower in sync."""

    def __init__(self) -> None:
        self.log = SimpleNamespace(log_end_offset=10, high_watermark=10, log_start_offset=0)
        self.isr = (1, FOLLOWER)
        self.listeners: dict[Callable[[], None], None] = {}

    def on_change(self, callback: Callable[[], None]) -> None:
        self.listeners[callback] = None

    def off_change(self, callback: Callable[[], None]) -> None:
        self.listeners.pop(callback, None)

    def change(self) -> None:
        for callback in list(self.listeners):
            callback()


class Session:
    """Partitions that a follower asks for at their ends."""

    def __init__(self, count: int) -> None:
        asked = [FetchPartition(partition=index, fetch_offset=10, high_watermark=10) for index in range(count)]
        self.partitions = OrderedDict(((TOPIC, each.partition), FetchedPartition(TOPIC, each)) for each in asked)
        self.leaders = [Leader() for _ in asked]
        self.followed = Followed(self.partitions)  # type: ignore[arg-type]

    def answer(self, index: int, **data: Any) -> None:
        """One partition is read and told."""
        leader, asked = self.leaders[index], self.partitions[TOPIC, index]
        self.followed.watch((TOPIC, index), leader)  # type: ignore[arg-type]
        told = PartitionData(
            partition_index=index, **{"high_watermark": leader.log.high_watermark, "records": b"", **data}
        )
        told.log_start_offset = leader.log.log_start_offset
        asked.has_news(told)
        self.followed.told(FOLLOWER, leader, asked, told)  # type: ignore[arg-type]

    def to_read(self) -> list[int]:
        return [index for _, index in self.followed.to_read()]


@pytest.fixture
def session() -> Session:
    made = Session(3)
    for index in range(3):
        made.answer(index)
    return made


def test_at_first_everything_is_read_and_then_nothing(session: Session) -> None:
    assert Session(2).to_read() == [0, 1]
    assert session.to_read() == []


def test_what_changes_is_read_again_and_wakes_whoever_waits(session: Session) -> None:
    woken: list[object] = []
    session.followed.on_change = woken.append
    session.leaders[1].change()
    assert woken == [(TOPIC, 1)]
    assert session.to_read() == [1]


def test_what_a_request_names_is_read(session: Session) -> None:
    session.followed.named([(TOPIC, 2)])
    assert session.to_read() == [2]


@pytest.mark.parametrize(
    "data", [{"error_code": 6}, {"diverging_epoch": EpochEndOffset(epoch=1, end_offset=5)}], ids=["error", "diverged"]
)
def test_what_was_told_of_trouble_is_read_again(session: Session, data: dict[str, Any]) -> None:
    session.answer(0, **data)
    assert session.to_read() == [0]


def test_a_follower_that_is_behind_or_out_of_sync_or_lags_in_its_high_watermark_is_read_again(session: Session) -> None:
    session.leaders[0].log.log_end_offset = 11
    session.leaders[1].isr = (1,)
    session.partitions[TOPIC, 2].asked.high_watermark = 9
    for index in (2, 1, 0):
        session.answer(index)
    assert session.to_read() == [2, 1, 0]


def test_a_start_that_moves_silently_is_found(session: Session) -> None:
    session.leaders[2].log.log_start_offset = 4
    assert session.to_read() == [2]


def test_so_many_quiet_ones_are_looked_at_with_each_request() -> None:
    session = Session(3 * LOOKED_AT_PER_REQUEST)
    for index in range(len(session.leaders)):
        session.answer(index)
        session.leaders[index].log.log_start_offset = 1
    assert [len(session.to_read()) for _ in range(4)] == [LOOKED_AT_PER_REQUEST * each for each in (1, 2, 3, 3)]


def test_a_new_registration_has_everything_read(session: Session) -> None:
    session.followed.registered(7)
    assert session.to_read() == [0, 1, 2]


def test_a_partition_made_anew_is_heard_instead_of_the_old_one(session: Session) -> None:
    old, session.leaders[0] = session.leaders[0], Leader()
    session.answer(0)
    assert not old.listeners
    session.leaders[0].change()
    assert session.to_read() == [0]


def test_nobody_listens_for_a_session_that_is_over_or_a_partition_forgotten(session: Session) -> None:
    session.followed.forget((TOPIC, 0))
    assert [len(each.listeners) for each in session.leaders] == [0, 1, 1]
    session.followed.close()
    session.followed.watch((TOPIC, 1), session.leaders[1])  # type: ignore[arg-type]
    assert not any(each.listeners for each in session.leaders)


def test_a_follower_has_one_session() -> None:
    doors = SimpleNamespace(clock=SimpleNamespace(time_ms=lambda: 0), random=random.Random(1))
    config = SimpleNamespace(max_incremental_fetch_session_cache_slots=10)
    sessions = FetchSessions(SimpleNamespace(doors=doors, config=config))  # type: ignore[arg-type]
    topics = [FetchTopic(topic_id=TOPIC, partitions=[FetchPartition(partition=0)])]
    for replica in (FOLLOWER, FOLLOWER, 3, -1, -1):
        sessions.context(
            FetchRequest(session_epoch=0, topics=topics, replica_state=ReplicaState(replica_id=replica)), 18
        )
    assert len(sessions) == 4

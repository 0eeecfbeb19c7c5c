"""Share sessions: epochs, limits, and their end with a connection."""

from __future__ import annotations

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.metrics import Meter
from kwire.handlers.share.sessions import SessionKey, ShareSession, ShareSessions, next_epoch

TOPIC = b"t" * 16
ONE, TWO = SessionKey("g", "one"), SessionKey("g", "two")


class Watched:
    """Sessions, and what was told about their ends."""

    def __init__(self, sessions_max: int = 10) -> None:
        self.left: list[ShareSession] = []
        self.empty: list[str] = []
        self.evictions = Meter(0.0)
        self.sessions = ShareSessions(sessions_max, self.left.append, self.empty.append, self.evictions)


def test_a_session_expects_one_epoch_or_its_end() -> None:
    sessions = Watched().sessions
    session = sessions.open(ONE, {}, "c")
    assert sessions.expect(ONE, 1) is sessions.expect(ONE, -1) is session
    with pytest.raises(KafkaError) as raised:
        sessions.expect(ONE, 2)
    assert raised.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_epochs_wrap_to_one() -> None:
    assert [next_epoch(each) for each in (0, 1, 2**31 - 2, 2**31 - 1)] == [1, 2, 2**31 - 1, 1]


def test_there_are_only_so_many_sessions_but_a_member_may_replace_its_own() -> None:
    sessions = Watched(1).sessions
    sessions.open(ONE, {}, "c")
    replaced = sessions.open(ONE, {(TOPIC, 0): "t"}, "c")
    with pytest.raises(KafkaError) as raised:
        sessions.open(TWO, {}, "c")
    assert raised.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert (len(sessions), sessions.partitions, sessions.find(ONE)) == (1, 1, replaced)


def test_sessions_end_with_their_connection() -> None:
    watched = Watched()
    one = watched.sessions.open(ONE, {}, "c")
    watched.sessions.open(TWO, {}, "other")
    watched.sessions.disconnected("c")
    assert (watched.left, watched.empty, watched.evictions.count) == ([one], [], 1)
    watched.sessions.disconnected("other")
    assert (watched.empty, len(watched.sessions)) == (["g"], 0)


def test_a_session_that_was_opened_again_elsewhere_outlives_its_first_connection() -> None:
    watched = Watched()
    watched.sessions.open(ONE, {}, "c")
    watched.sessions.open(ONE, {}, "other")
    watched.sessions.disconnected("c")
    assert (watched.left, watched.empty, len(watched.sessions)) == ([], [], 1)


def test_a_partition_is_in_a_response_if_there_is_news_of_it() -> None:
    session = Watched().sessions.open(ONE, {(TOPIC, 0): "t"}, "c")
    session.update({(TOPIC, 1): "t"}, [])
    new = (TOPIC, 1)
    assert [session.includes(new, 0, 0), session.includes(new, 0, 0), session.includes(new, 5, 0)] == [
        True,
        False,
        True,
    ]
    assert [session.includes(new, 0, 3), session.includes(new, 0, 0), session.includes(new, 0, 0)] == [
        True,
        True,
        False,
    ]


def test_a_partition_that_gave_records_is_read_last_next_time() -> None:
    session = Watched().sessions.open(ONE, {(TOPIC, 0): "t", (TOPIC, 1): "t"}, "c")
    session.includes((TOPIC, 0), 100, 0)
    assert list(session.partitions) == [(TOPIC, 1), (TOPIC, 0)]
    session.update({}, [(TOPIC, 1)])
    assert list(session.partitions) == [(TOPIC, 0)]

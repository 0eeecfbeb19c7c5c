"""Fetch sessions (KIP-227): what a session stores, and when it is refused, ended or evicted."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kwire.codec.messages.fetch_response import EpochEndOffset, PartitionData
from kwire.handlers.data.fetch.fetched_partition import PartitionKey
from kwire.handlers.data.fetch.sessions import EVICTION_MS, FetchContext, FetchSessions

BY_NAME = 12
BY_ID = 13


class Time:
    now_ms = 1_000

    def time_ms(self) -> int:
        return self.now_ms


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def sessions(time: Time) -> FetchSessions:
    doors = SimpleNamespace(clock=time, random=random.Random(1))
    return FetchSessions(doors, 2)  # type: ignore[arg-type]


def request(
    *partitions: tuple[str, int], session: int = 0, epoch: int = 0, forget: tuple[tuple[str, int], ...] = ()
) -> FetchRequest:
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic(topic=topic, partitions=[FetchPartition(partition=index)]) for topic, index in partitions],
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[index]) for topic, index in forget],
    )


def included(context: FetchContext, **data: object) -> list[PartitionKey]:
    """The partitions that a response includes if all of them look like ``data``."""
    response = []
    for key, partition in list(context.partitions.items()):
        content = PartitionData(partition_index=partition.index, **{"high_watermark": 5, "records": b"", **data})  # type: ignore[arg-type]
        if context.includes(partition, content):
            response.append(key)
            context.read(partition, bool(content.records))
    return response


def refused(sessions: FetchSessions, fetch: FetchRequest, version: int = BY_NAME) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        sessions.context(fetch, version)
    return caught.value.code


def test_a_full_fetch_opens_a_session_and_includes_every_partition(sessions: FetchSessions) -> None:
    context = sessions.context(request(("a", 0), ("a", 1)), BY_NAME)
    assert context.session_id > 0
    assert included(context) == [("a", 0), ("a", 1)]


def test_a_final_epoch_is_sessionless(sessions: FetchSessions) -> None:
    context = sessions.context(request(("a", 0), epoch=-1), BY_NAME)
    assert (context.session_id, len(sessions)) == (0, 0)
    assert included(context) == [("a", 0)]


def test_an_incremental_fetch_includes_only_what_is_new(sessions: FetchSessions) -> None:
    first = sessions.context(request(("a", 0), ("b", 0)), BY_NAME)
    included(first)
    second = sessions.context(request(session=first.session_id, epoch=1), BY_NAME)
    assert list(second.partitions) == [("a", 0), ("b", 0)]
    assert included(second) == []
    third = sessions.context(request(session=first.session_id, epoch=2), BY_NAME)
    assert included(third, high_watermark=6) == [("a", 0), ("b", 0)]


@pytest.mark.parametrize(
    "news",
    [
        {"records": b"x"},
        {"high_watermark": 6},
        {"log_start_offset": 3},
        {"preferred_read_replica": 2},
        {"diverging_epoch": EpochEndOffset(epoch=1, end_offset=2)},
        {"error_code": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)},
    ],
)
def test_a_partition_with_any_change_is_included(sessions: FetchSessions, news: dict[str, object]) -> None:
    first = sessions.context(request(("a", 0)), BY_NAME)
    included(first)
    second = sessions.context(request(session=first.session_id, epoch=1), BY_NAME)
    assert included(second, **news) == [("a", 0)]


def test_the_end_of_an_error_is_included_even_without_data(sessions: FetchSessions) -> None:
    first = sessions.context(request(("a", 0)), BY_NAME)
    included(first)
    included(sessions.context(request(session=first.session_id, epoch=1), BY_NAME), error_code=3)
    assert included(sessions.context(request(session=first.session_id, epoch=2), BY_NAME)) == [("a", 0)]


def test_a_partition_that_gave_data_is_read_last_next_time(sessions: FetchSessions) -> None:
    first = sessions.context(request(("a", 0), ("b", 0)), BY_NAME)
    included(first)
    second = sessions.context(request(session=first.session_id, epoch=1), BY_NAME)
    partition = second.partitions["a", 0]
    second.read(partition, gave_data=True)
    third = sessions.context(request(session=first.session_id, epoch=2), BY_NAME)
    assert list(third.partitions) == [("b", 0), ("a", 0)]


def test_a_session_adds_and_forgets_partitions(sessions: FetchSessions) -> None:
    first = sessions.context(request(("a", 0), ("b", 0)), BY_NAME)
    included(first)
    fetch = request(("c", 7), session=first.session_id, epoch=1, forget=(("a", 0),))
    second = sessions.context(fetch, BY_NAME)
    assert list(second.partitions) == [("b", 0), ("c", 7)]
    assert included(second) == [("c", 7)], "the new one is included, the old one has not changed"


def test_forgetting_the_last_partition_ends_the_session(sessions: FetchSessions) -> None:
    first = sessions.context(request(("a", 0)), BY_NAME)
    last = sessions.context(request(session=first.session_id, epoch=1, forget=(("a", 0),)), BY_NAME)
    assert (last.session_id, len(sessions)) == (0, 0)


def test_a_new_full_fetch_ends_the_session_it_names(sessions: FetchSessions) -> None:
    first = sessions.context(request(("a", 0)), BY_NAME)
    second = sessions.context(request(("a", 0), session=first.session_id), BY_NAME)
    assert second.session_id not in (0, first.session_id)
    assert len(sessions) == 1


def test_unknown_sessions_and_epochs_are_refused(sessions: FetchSessions) -> None:
    assert refused(sessions, request(session=77, epoch=1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    first = sessions.context(request(("a", 0)), BY_NAME)
    assert refused(sessions, request(session=first.session_id, epoch=2)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    by_id = refused(sessions, request(session=first.session_id, epoch=1), BY_ID)
    assert by_id is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_cache_is_sessionless_until_the_oldest_session_was_idle(sessions: FetchSessions, time: Time) -> None:
    kept = [sessions.context(request(("a", 0)), BY_NAME).session_id for _ in range(2)]
    assert sessions.context(request(("b", 0)), BY_NAME).session_id == 0
    time.now_ms += EVICTION_MS + 1
    assert sessions.context(request(("b", 0)), BY_NAME).session_id > 0
    assert refused(sessions, request(session=kept[0], epoch=1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_larger_session_takes_the_place_of_an_old_smaller_one(sessions: FetchSessions, time: Time) -> None:
    small = [sessions.context(request(("a", 0)), BY_NAME).session_id for _ in range(2)]
    time.now_ms += EVICTION_MS + 1
    for session in small:
        sessions.context(request(session=session, epoch=1), BY_NAME)  # both in use: none is idle
    assert sessions.context(request(("a", 0)), BY_NAME).session_id == 0, "as small: no reason to evict"
    assert sessions.context(request(("a", 0), ("a", 1)), BY_NAME).session_id > 0

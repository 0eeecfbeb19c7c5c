"""What a follower asks its leader for, request by request, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from harness.simulation import Simulation
from kwire.base.errors import ErrorCode
from kwire.cluster.replication.fetcher_manager import ReplicaFetchers
from kwire.cluster.replication.partition import Partition
from kwire.cluster.replication.throttles import ReplicationQuota
from kwire.cluster.store.keys import PartitionState
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.api_versions_response import ApiVersionsResponse
from kwire.codec.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.net.client import ConnectionLost
from tests.cluster.helpers import FakeLog

ME, LEADER = 1, 2
BACKOFF_S = 1.0
WAIT_S = 0.5
START = 1
"""Both logs have a record to begin with: what is in the first one is not looked at."""


class FollowerLog(FakeLog):
    """Takes whatever its leader sends: a byte is a record."""

    def __init__(self, partition: int) -> None:
        super().__init__(partition=partition)
        self.log_end_offset = START
        self.epochs = SimpleNamespace(latest_epoch=0)  # type: ignore[assignment]

    def append_as_follower(self, records: bytes) -> None:
        self.log_end_offset += len(records)


class Leader:
    """Answers with what a test gives, or with nothing after the wait that was asked for."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.next: dict[int, PartitionData] = {}
        self.session_id = 7
        self.nudges = 0
        self.is_old = False
        self.is_silent = False
        self._changed = asyncio.Event()
        self._closed = False

    async def connect(self, broker_id: int, client_id: str) -> Leader:
        assert broker_id == LEADER
        await asyncio.sleep(0.001)
        self._closed = False
        return self

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    def call(self, request: Any, version: int) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._answer(request))

    async def _answer(self, request: Any) -> Any:
        if isinstance(request, ApiVersionsRequest):
            self.nudges += 1
            if not (self.is_old or self.is_silent):
                self._changed.set()
            return ApiVersionsResponse()
        self.requests.append(request)
        await asyncio.sleep(0.001)
        if not self.next:
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), None if self.is_silent else request.max_wait_ms / 1000)
        if self._closed:
            raise ConnectionLost
        given, self.next = list(self.next.values()), {}
        topics = [FetchableTopicResponse(topic_id=b"i" * 16, partitions=given)] if given else []
        return FetchResponse(session_id=self.session_id, responses=topics)

    def gives(self, partition: int, records: bytes = b"", error: ErrorCode = ErrorCode.NONE, high: int = 0) -> None:
        self.next[partition] = PartitionData(
            partition_index=partition, error_code=error, high_watermark=high, log_start_offset=0, records=records
        )
        self._changed.set()


class Follower:
    """A broker that follows partitions 0 and 1."""

    def __init__(self) -> None:
        self.leader = Leader()
        self.quota = ReplicationQuota(asyncio.get_running_loop().time)
        config = SimpleNamespace(
            replica_fetch_backoff_ms=int(BACKOFF_S * 1000),
            replica_fetch_wait_max_ms=int(WAIT_S * 1000),
            replica_fetch_max_bytes=100,
            replica_fetch_min_bytes=1,
            replica_fetch_response_max_bytes=1000,
            replica_socket_timeout_ms=30_000,
        )
        self.fetchers = ReplicaFetchers(config, self.leader, ME, lambda: 5, self.quota)  # type: ignore[arg-type]
        self.partitions = []
        for index in range(2):
            partition = Partition(ME, FollowerLog(index))  # type: ignore[arg-type]
            partition.update(PartitionState((LEADER, ME), (LEADER,), LEADER, 0, 0))
            self.partitions.append(partition)
            self.fetchers.follow(partition)

    async def begun(self) -> Follower:
        """The session is open, and the first fetch waits."""
        while not self.leader.requests:  # noqa: ASYNC110 - on a virtual clock
            await asyncio.sleep(0.001)
        return self

    async def asleep(self) -> Follower:
        """The first fetch is answered: the next one, which sleeps at the leader, names only what is new."""
        await self.begun()
        await self.answered()
        return self

    async def answered(self) -> None:
        """The present fetch is answered, and the next one is on its way."""
        count = len(self.leader.requests)
        while len(self.leader.requests) == count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def asked(request: Any) -> dict[int, int]:
    """Partition and offset."""
    return {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}


def forgotten(request: Any) -> list[int]:
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def tell(told: Coroutine[Any, Any, None]) -> None:
    Simulation(1).run(told)


def test_an_idle_fetch_names_nothing() -> None:
    async def told() -> None:
        follower = await Follower().begun()
        assert asked(follower.leader.requests[0]) == {0: START, 1: START}
        for _ in range(3):
            await follower.answered()
        assert [asked(each) for each in follower.leader.requests[1:]] == [{}] * 3
        assert {each.max_wait_ms for each in follower.leader.requests} == {500}

    tell(told())


def test_only_what_has_grown_is_named_again() -> None:
    async def told() -> None:
        follower = await Follower().begun()
        follower.leader.gives(1, b"abc")
        await follower.answered()
        await follower.answered()
        assert asked(follower.leader.requests[-1]) in ({1: START + 3}, {})
        assert {1: START + 3} in [asked(each) for each in follower.leader.requests]

    tell(told())


def test_a_leader_without_room_for_a_session_is_told_everything_each_time() -> None:
    async def told() -> None:
        follower = Follower()
        follower.leader.session_id = 0
        await follower.begun()
        await follower.answered()
        await follower.answered()
        assert [asked(each) for each in follower.leader.requests] == [{0: START, 1: START}] * 3

    tell(told())


def test_an_error_of_one_partition_rests_that_one_only() -> None:
    async def told() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().begun()
        follower.leader.gives(0, error=ErrorCode.CORRUPT_MESSAGE)
        while not forgotten(follower.leader.requests[-1]):
            await follower.answered()
        began_s = loop.time()
        assert forgotten(follower.leader.requests[-1]) == [0]
        follower.leader.gives(1, b"x")
        while 0 not in asked(follower.leader.requests[-1]):
            await follower.answered()
        assert BACKOFF_S - 0.1 < loop.time() - began_s < BACKOFF_S + 0.1
        assert {1: START + 1} in [asked(each) for each in follower.leader.requests]

    tell(told())


def test_while_too_much_has_come_throttled_partitions_are_left_out() -> None:
    async def told() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().begun()
        follower.quota.rate = 100
        follower.quota.throttle("t", frozenset({0}))
        began_s = loop.time()
        follower.leader.gives(0, b"x" * 190, high=1000)
        follower.leader.gives(1, b"x" * 5000, high=10_000)  # not throttled
        while not forgotten(follower.leader.requests[-1]):
            await follower.answered()
        assert (forgotten(follower.leader.requests[-1]), asked(follower.leader.requests[-1])) == (
            [0],
            {1: START + 5000},
        )
        while 0 not in asked(follower.leader.requests[-1]):
            await follower.answered()
        assert asked(follower.leader.requests[-1]) == {0: START + 190}
        assert 1.85 < loop.time() - began_s < 2.5

    tell(told())


def test_a_throttled_partition_that_has_all_that_is_committed_is_fetched_at_any_rate() -> None:
    async def told() -> None:
        follower = await Follower().begun()
        follower.quota.rate = 100
        follower.quota.throttle("t", None)
        for end in (1001, 2001, 3001):
            follower.leader.gives(0, b"x" * 1000, high=end)
            follower.leader.gives(1, b"x" * 1000, high=end)
            while follower.partitions[0].log_end_offset < end:
                await follower.answered()
        assert follower.quota.is_exceeded()
        await follower.answered()
        assert not any(forgotten(each) for each in follower.leader.requests)

    tell(told())


def test_where_all_rest_nothing_is_asked_until_the_quota_allows_it() -> None:
    async def told() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().begun()
        follower.quota.rate = 100
        follower.quota.throttle("t", None)
        follower.leader.gives(0, b"x" * 150, high=1000)
        follower.leader.gives(1, b"x" * 150, high=1000)
        while follower.partitions[0].log_end_offset == START:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        count, began_s = len(follower.leader.requests), loop.time()
        await follower.answered()
        assert 1.9 < loop.time() - began_s < 3.1
        assert len(follower.leader.requests) == count + 1
        assert asked(follower.leader.requests[-1]) == {0: START + 150, 1: START + 150}

    tell(told())


def test_a_new_leader_epoch_ends_a_rest() -> None:
    async def told() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().begun()
        follower.leader.gives(0, error=ErrorCode.CORRUPT_MESSAGE)
        while not forgotten(follower.leader.requests[-1]):
            await follower.answered()
        began_s = loop.time()
        follower.fetchers.follow(follower.partitions[0])
        while 0 not in asked(follower.leader.requests[-1]):
            await follower.answered()
        assert loop.time() - began_s < BACKOFF_S / 10

    tell(told())


def test_who_is_followed_no_more_is_forgotten() -> None:
    async def told() -> None:
        follower = await Follower().begun()
        follower.fetchers.forget(follower.partitions[1])
        await follower.answered()
        assert forgotten(follower.leader.requests[-1]) == [1]

    tell(told())


def test_a_request_that_sleeps_is_ended_by_one_behind_it() -> None:
    async def told() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().asleep()
        await asyncio.sleep(WAIT_S / 10)
        began_s = loop.time()
        for partition in follower.partitions:
            follower.fetchers.follow(partition)
        await follower.answered()
        assert loop.time() - began_s < WAIT_S / 10
        assert follower.leader.nudges == 1, "for all that begin together"
        assert asked(follower.leader.requests[-1]) == {0: START, 1: START}
        assert follower.leader.requests[-1].session_epoch > 0, "the session goes on"

    tell(told())


def test_a_leader_that_does_not_mind_answers_when_it_has_slept() -> None:
    async def told() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().asleep()
        follower.leader.is_old = True
        began_s = loop.time()
        follower.fetchers.follow(follower.partitions[0])
        await follower.answered()
        assert WAIT_S / 2 < loop.time() - began_s < 2 * WAIT_S
        assert asked(follower.leader.requests[-1]) == {0: START}
        assert follower.leader.requests[-1].session_epoch > 0

    tell(told())


def test_a_leader_that_stays_silent_is_connected_to_anew() -> None:
    async def told() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().asleep()
        follower.leader.is_silent = True
        await asyncio.sleep(WAIT_S * 2)
        began_s = loop.time()
        follower.fetchers.follow(follower.partitions[0])
        await follower.answered()
        assert 1.9 < loop.time() - began_s < 2.1
        assert asked(follower.leader.requests[-1]) == {0: START, 1: START}
        assert follower.leader.requests[-1].session_epoch == 0

    tell(told())


def test_what_passes_by_itself_is_asked_for_again_soon_and_then_later_and_later() -> None:
    async def told() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().begun()
        rests = []
        for _ in range(9):
            follower.leader.gives(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            while not forgotten(follower.leader.requests[-1]):
                await follower.answered()
            began_s = loop.time()
            while 0 not in asked(follower.leader.requests[-1]):
                await follower.answered()
            rests.append(loop.time() - began_s)
        assert rests[0] < 0.05
        assert all(earlier < later for earlier, later in pairwise(rests[:6]))
        assert BACKOFF_S * 0.9 < rests[-1] < BACKOFF_S * 1.2

    tell(told())


def test_an_answer_from_before_a_new_leader_epoch_does_not_count() -> None:
    """A session that still had the partition as it was asked for before: nothing ever told it otherwise (found by seed
    10001571 of the simulated cluster)."""

    async def told() -> None:
        follower = await Follower().asleep()
        partition = follower.partitions[0]
        follower.fetchers.forget(partition)
        partition.update(PartitionState((LEADER, ME), (LEADER,), LEADER, 1, 1))
        follower.fetchers.follow(partition)
        follower.leader.gives(0, error=ErrorCode.FENCED_LEADER_EPOCH)
        await follower.answered()
        (named,) = follower.leader.requests[-1].topics[0].partitions
        assert (named.partition, named.current_leader_epoch) == (0, 1)
        assert forgotten(follower.leader.requests[-1]) == []

    tell(told())


def test_what_comes_back_and_fails_before_it_is_named_is_forgotten_by_the_leader() -> None:
    async def told() -> None:
        follower = await Follower().asleep()
        partition = follower.partitions[0]
        follower.fetchers.forget(partition)
        follower.fetchers.follow(partition)
        fetcher = next(iter(follower.fetchers._fetchers.values()))
        key = (partition.topic_id, partition.index)
        fetcher._rest(key, fetcher._followed[key], ErrorCode.CORRUPT_MESSAGE)
        await follower.answered()
        assert forgotten(follower.leader.requests[-1]) == [0]

    tell(told())

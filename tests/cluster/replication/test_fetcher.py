"""The Fetch requests of a follower, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from harness.simulation import Simulation
from kwire.base.errors import ErrorCode
from kwire.cluster.replication import fetcher
from kwire.cluster.replication.fetcher_manager import ReplicaFetchers
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.cluster.replication.throttles import ReplicationQuota
from kwire.cluster.store.keys import PartitionState
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.api_versions_response import ApiVersionsResponse
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kwire.codec.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.codec.protocol import decode, encode
from kwire.handlers.api import REQUEST_BUDGET
from kwire.net.client import ConnectionLost
from tests.cluster.helpers import FakeLog, partition_on

ME, LEADER = 1, 2
BACKOFF_S = 1.0
WAIT_S = 0.5
START = 1
"""Both logs have one record at the start, which no test looks at."""


class FollowerLog(FakeLog):
    """Appends everything that the leader sends: a byte is a record."""

    def __init__(self, partition: int) -> None:
        super().__init__(partition=partition)
        self.log_end_offset = START

    def append_as_follower(self, records: bytes) -> None:
        self.log_end_offset += len(records)


class Leader:
    """Responds with the data of a test, or with no data when the request's wait is over."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.next: dict[int, PartitionData] = {}
        self.session_id = 7
        self.nudges = 0
        self.is_old = False
        self.is_silent = False
        self.is_due = False  # the login never ends
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
        return asyncio.ensure_future(self._respond(request))

    async def _respond(self, request: Any) -> Any:
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
        data, self.next = list(self.next.values()), {}
        topics = [FetchableTopicResponse(topic_id=b"i" * 16, partitions=data)] if data else []
        return FetchResponse(session_id=self.session_id, responses=topics)

    def give(self, partition: int, records: bytes = b"", error: ErrorCode = ErrorCode.NONE, high: int = 0) -> None:
        self.next[partition] = PartitionData(
            partition_index=partition, error_code=error, high_watermark=high, log_start_offset=0, records=records
        )
        self._changed.set()


class Follower:
    """A broker that follows partitions 0, 1 and so on."""

    def __init__(self, count: int = 2) -> None:
        self.leader = Leader()
        self.quota = ReplicationQuota(asyncio.get_running_loop().time, windows=11, window_s=1)
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
        for index in range(count):
            partition = partition_on(ME, FollowerLog(index))
            partition.update(PartitionState((LEADER, ME), (LEADER,), LEADER, 0, 0))
            self.partitions.append(partition)
            self.fetchers.follow(partition)

    async def started(self) -> Follower:
        """Return when the session is open and the first fetch waits."""
        while not self.leader.requests:  # noqa: ASYNC110 - on a virtual clock
            await asyncio.sleep(0.001)
        return self

    async def waiting(self) -> Follower:
        """Return when the first fetch has its response; the next one, which waits at the leader, names only changes."""
        await self.started()
        await self.responded()
        return self

    async def responded(self) -> None:
        """Return when the present fetch has its response and the next one is sent."""
        count = len(self.leader.requests)
        while len(self.leader.requests) == count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


def fetched(request: Any) -> dict[int, int]:
    """Partition and offset."""
    return {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}


def forgotten(request: Any) -> list[int]:
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def simulate(scenario: Coroutine[Any, Any, None]) -> None:
    Simulation(1).run(scenario)


def test_an_idle_fetch_names_nothing() -> None:
    async def scenario() -> None:
        follower = await Follower().started()
        assert fetched(follower.leader.requests[0]) == {0: START, 1: START}
        for _ in range(3):
            await follower.responded()
        assert [fetched(each) for each in follower.leader.requests[1:]] == [{}] * 3
        assert {each.max_wait_ms for each in follower.leader.requests} == {500}

    simulate(scenario())


def test_only_what_has_grown_is_named_again() -> None:
    async def scenario() -> None:
        follower = await Follower().started()
        follower.leader.give(1, b"abc")
        await follower.responded()
        await follower.responded()
        assert fetched(follower.leader.requests[-1]) in ({1: START + 3}, {})
        assert {1: START + 3} in [fetched(each) for each in follower.leader.requests]

    simulate(scenario())


def test_without_a_fetch_session_every_request_names_all_partitions() -> None:
    async def scenario() -> None:
        follower = Follower()
        follower.leader.session_id = 0
        await follower.started()
        await follower.responded()
        await follower.responded()
        assert [fetched(each) for each in follower.leader.requests] == [{0: START, 1: START}] * 3

    simulate(scenario())


def test_a_request_names_no_more_partitions_than_a_leader_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "NAMED_MAX", 2)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower(5).started()
        began_s = loop.time()
        for _ in range(3):
            await follower.responded()
        requests = follower.leader.requests
        assert [list(fetched(each)) for each in requests] == [[0, 1], [2, 3], [4], []]
        assert [each.max_wait_ms for each in requests] == [0, 0, WAIT_S * 1000, WAIT_S * 1000]
        assert loop.time() - began_s < WAIT_S + 0.1
        for partition in follower.partitions[:3]:
            partition.update(PartitionState((LEADER, ME), (LEADER,), -1, 1, 1))
            follower.fetchers.follow(partition)
        for _ in range(2):
            await follower.responded()
        assert [forgotten(each) for each in follower.leader.requests[-2:]] == [[0, 1], [2]]

    simulate(scenario())


def test_without_a_session_partitions_are_named_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "NAMED_MAX", 2)

    async def scenario() -> None:
        follower = Follower(5)
        follower.leader.session_id = 0
        await follower.started()
        for _ in range(5):
            await follower.responded()
        named = [list(fetched(each)) for each in follower.leader.requests]
        assert named == [[0, 1], [2, 3], [4, 0], [1, 2], [3, 0], [4, 1]]
        assert [each.max_wait_ms for each in follower.leader.requests[1:]] == [WAIT_S * 1000 * 2 / 5] * 5

    simulate(scenario())


def test_a_leader_decodes_the_largest_request() -> None:
    """Each partition of another topic, which costs most."""
    topics = [FetchTopic(topic_id=bytes(16), partitions=[FetchPartition()]) for _ in range(fetcher.NAMED_MAX)]
    forgotten = [ForgottenTopic(topic_id=bytes(16), partitions=[0]) for _ in range(fetcher.NAMED_MAX)]
    request = FetchRequest(topics=topics, forgotten_topics_data=forgotten)
    encoded = encode(request, fetcher.FETCH_VERSION)
    assert decode(FetchRequest, fetcher.FETCH_VERSION, encoded, budget=REQUEST_BUDGET)[0] == request


def test_an_error_of_one_partition_delays_only_that_partition() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().started()
        follower.leader.give(0, error=ErrorCode.CORRUPT_MESSAGE)
        while not forgotten(follower.leader.requests[-1]):
            await follower.responded()
        began_s = loop.time()
        assert forgotten(follower.leader.requests[-1]) == [0]
        follower.leader.give(1, b"x")
        while 0 not in fetched(follower.leader.requests[-1]):
            await follower.responded()
        assert BACKOFF_S - 0.1 < loop.time() - began_s < BACKOFF_S + 0.1
        assert {1: START + 1} in [fetched(each) for each in follower.leader.requests]

    simulate(scenario())


def test_throttled_partitions_are_left_out_while_the_quota_is_exceeded() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().started()
        follower.quota.rate = 100
        follower.quota.throttle("t", frozenset({0}))
        began_s = loop.time()
        follower.leader.give(0, b"x" * 190, high=1000)
        follower.leader.give(1, b"x" * 5000, high=10_000)  # not throttled
        while not forgotten(follower.leader.requests[-1]):
            await follower.responded()
        assert (forgotten(follower.leader.requests[-1]), fetched(follower.leader.requests[-1])) == (
            [0],
            {1: START + 5000},
        )
        while 0 not in fetched(follower.leader.requests[-1]):
            await follower.responded()
        assert fetched(follower.leader.requests[-1]) == {0: START + 190}
        assert 1.85 < loop.time() - began_s < 2.5

    simulate(scenario())


def test_the_lag_is_that_of_the_partition_that_is_furthest_behind() -> None:
    async def scenario() -> None:
        follower = await Follower().started()
        assert follower.fetchers.max_lag() == 0
        for lag in (900, 100, 0):
            follower.leader.give(0, b"x" * 100, high=follower.partitions[0].log_end_offset + 100 + lag)
            follower.leader.give(1, b"x" * 100, high=follower.partitions[1].log_end_offset + 100)
            await follower.responded()
            await follower.responded()
            assert follower.fetchers.max_lag() == lag
        await follower.fetchers.close()
        assert follower.fetchers.max_lag() == 0

    simulate(scenario())


def test_a_throttled_partition_that_has_reached_the_high_watermark_is_fetched_at_any_rate() -> None:
    async def scenario() -> None:
        follower = await Follower().started()
        follower.quota.rate = 100
        follower.quota.throttle("t", None)
        for end in (1001, 2001, 3001):
            follower.leader.give(0, b"x" * 1000, high=end)
            follower.leader.give(1, b"x" * 1000, high=end)
            while follower.partitions[0].log_end_offset < end:
                await follower.responded()
        assert follower.quota.is_exceeded()
        await follower.responded()
        assert not any(forgotten(each) for each in follower.leader.requests)

    simulate(scenario())


def test_no_fetch_is_sent_while_all_partitions_are_throttled() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().started()
        follower.quota.rate = 100
        follower.quota.throttle("t", None)
        follower.leader.give(0, b"x" * 150, high=1000)
        follower.leader.give(1, b"x" * 150, high=1000)
        while follower.partitions[0].log_end_offset == START:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        count, began_s = len(follower.leader.requests), loop.time()
        await follower.responded()
        assert 1.9 < loop.time() - began_s < 3.1
        assert len(follower.leader.requests) == count + 1
        assert fetched(follower.leader.requests[-1]) == {0: START + 150, 1: START + 150}

    simulate(scenario())


def test_a_new_leader_epoch_ends_a_delay() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().started()
        follower.leader.give(0, error=ErrorCode.CORRUPT_MESSAGE)
        while not forgotten(follower.leader.requests[-1]):
            await follower.responded()
        began_s = loop.time()
        follower.fetchers.follow(follower.partitions[0])
        while 0 not in fetched(follower.leader.requests[-1]):
            await follower.responded()
        assert loop.time() - began_s < BACKOFF_S / 10

    simulate(scenario())


def test_a_partition_that_is_no_longer_followed_leaves_the_session() -> None:
    async def scenario() -> None:
        follower = await Follower().started()
        follower.fetchers.forget(follower.partitions[1])
        await follower.responded()
        assert forgotten(follower.leader.requests[-1]) == [1]

    simulate(scenario())


def test_a_waiting_fetch_is_nudged_when_partitions_are_added() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().waiting()
        await asyncio.sleep(WAIT_S / 10)
        began_s = loop.time()
        for partition in follower.partitions:
            follower.fetchers.follow(partition)
        await follower.responded()
        assert loop.time() - began_s < WAIT_S / 10
        assert follower.leader.nudges == 1, "for all that begin together"
        assert fetched(follower.leader.requests[-1]) == {0: START, 1: START}
        assert follower.leader.requests[-1].session_epoch > 0, "the session goes on"

    simulate(scenario())


def test_a_leader_that_ignores_a_nudge_responds_when_the_wait_is_over() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().waiting()
        follower.leader.is_old = True
        began_s = loop.time()
        follower.fetchers.follow(follower.partitions[0])
        await follower.responded()
        assert WAIT_S / 2 < loop.time() - began_s < 2 * WAIT_S
        assert fetched(follower.leader.requests[-1]) == {0: START}
        assert follower.leader.requests[-1].session_epoch > 0

    simulate(scenario())


def test_the_fetcher_reconnects_to_a_leader_that_stays_silent() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().waiting()
        follower.leader.is_silent = True
        await asyncio.sleep(WAIT_S * 2)
        began_s = loop.time()
        follower.fetchers.follow(follower.partitions[0])
        await follower.responded()
        assert 1.9 < loop.time() - began_s < 2.1
        assert fetched(follower.leader.requests[-1]) == {0: START, 1: START}
        assert follower.leader.requests[-1].session_epoch == 0

    simulate(scenario())


@pytest.mark.parametrize(("cause", "level"), [(PermissionError, "warning"), (ConnectionRefusedError, "info")])
def test_a_refused_login_at_the_leader_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, cause: type[OSError], level: str
) -> None:
    """A broker with a wrong password serves clients, but follows nobody."""
    logger = MagicMock()
    monkeypatch.setattr(fetcher, "_logger", logger)

    async def connect(*_: object) -> Leader:
        raise PeerUnavailable("broker 2") from cause()

    async def scenario() -> None:
        monkeypatch.setattr(Leader, "connect", connect)
        Follower()
        await asyncio.sleep(BACKOFF_S / 2)
        assert {name for name, *_ in logger.method_calls} == {level}

    simulate(scenario())


def test_delays_after_transient_errors_grow() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        follower = await Follower().started()
        delays = []
        for _ in range(9):
            follower.leader.give(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            while not forgotten(follower.leader.requests[-1]):
                await follower.responded()
            began_s = loop.time()
            while 0 not in fetched(follower.leader.requests[-1]):
                await follower.responded()
            delays.append(loop.time() - began_s)
        assert delays[0] < 0.05
        assert all(earlier < later for earlier, later in pairwise(delays[:6]))
        assert BACKOFF_S * 0.9 < delays[-1] < BACKOFF_S * 1.2

    simulate(scenario())


def test_a_response_from_before_a_new_leader_epoch_is_ignored() -> None:
    """The session kept the partition with its earlier epoch, and no request ever changed that (found by seed 10001571
    of the simulated cluster)."""

    async def scenario() -> None:
        follower = await Follower().waiting()
        partition = follower.partitions[0]
        follower.fetchers.forget(partition)
        partition.update(PartitionState((LEADER, ME), (LEADER,), LEADER, 1, 1))
        follower.fetchers.follow(partition)
        follower.leader.give(0, error=ErrorCode.FENCED_LEADER_EPOCH)
        await follower.responded()
        (named,) = follower.leader.requests[-1].topics[0].partitions
        assert (named.partition, named.current_leader_epoch) == (0, 1)
        assert forgotten(follower.leader.requests[-1]) == []

    simulate(scenario())


def test_a_partition_that_is_added_again_and_fails_leaves_the_session() -> None:
    async def scenario() -> None:
        follower = await Follower().waiting()
        partition = follower.partitions[0]
        follower.fetchers.forget(partition)
        follower.fetchers.follow(partition)
        fetcher = next(iter(follower.fetchers._fetchers.values()))
        key = (partition.topic_id, partition.index)
        fetcher._delay_after_error(key, fetcher._states[key], ErrorCode.CORRUPT_MESSAGE)
        await follower.responded()
        assert forgotten(follower.leader.requests[-1]) == [0]

    simulate(scenario())

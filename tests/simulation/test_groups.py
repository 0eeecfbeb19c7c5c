"""Groups on virtual time: session timeouts that take seconds elsewhere pass in no time here, at the exact moment."""

from __future__ import annotations

import asyncio

from harness.raw_client import RawClient
from harness.simulation import Simulation
from kwire.base.errors import ErrorCode
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codec.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.server.broker import Broker
from tests.simulation.scenario import config

SESSION_MS = 10_000
HEARTBEAT_S = 3.0


class Member:
    """A scripted member of group ``g``."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.id = ""
        self.generation = -1

    async def find(self) -> None:
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        while (await self.client.call(request, 4)).coordinators[0].error_code:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def join(self) -> int:
        """Join and sync; how many members the leader was told (0 for a follower)."""
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=protocols,
        )
        answer = await self.client.call(request, 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = request.member_id = answer.member_id
            answer = await self.client.call(request, 9)
        assert answer.error_code == ErrorCode.NONE, answer
        self.generation = answer.generation_id
        assignments = [SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"") for each in answer.members]
        synced = await self.client.call(
            SyncGroupRequest(
                group_id="g",
                generation_id=self.generation,
                member_id=self.id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            ),
            5,
        )
        if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return await self.join()
        assert synced.error_code == ErrorCode.NONE, synced
        return len(answer.members)

    async def beat(self) -> ErrorCode:
        request = HeartbeatRequest(group_id="g", generation_id=self.generation, member_id=self.id)
        return ErrorCode((await self.client.call(request, 4)).error_code)


async def lose_a_member(simulation: Simulation) -> float:
    """Two members, one of which falls silent; the virtual seconds from its last sign of life until the other knows."""
    machine = simulation.machine("broker")
    async with Broker(config(), doors=machine.doors, store=MemoryStore()):
        first = Member(await simulation.machine("first").connect("broker:9092"))
        second = Member(await simulation.machine("second").connect("broker:9092"))
        await first.find()
        assert await first.join() == 1
        joining = asyncio.ensure_future(second.join())
        while await first.beat() == ErrorCode.NONE:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        counts = await asyncio.gather(first.join(), joining)
        assert sorted(counts) == [0, 2]
        assert await second.beat() == ErrorCode.NONE
        silent_since = simulation.elapsed_s
        while await first.beat() == ErrorCode.NONE:  # noqa: ASYNC110
            await asyncio.sleep(HEARTBEAT_S)
        noticed = simulation.elapsed_s
        assert await first.join() == 1
        first.client.close()
        second.client.close()
    return noticed - silent_since


def test_a_silent_member_is_put_out_when_its_session_is_over() -> None:
    for seed in range(5):
        simulation = Simulation(seed)
        took_s = simulation.run(lose_a_member(simulation))
        assert SESSION_MS / 1000 - 0.1 <= took_s <= SESSION_MS / 1000 + HEARTBEAT_S + 0.1


def test_the_same_seed_gives_the_same_trace() -> None:
    digests = []
    for _ in range(2):
        simulation = Simulation(11)
        simulation.run(lose_a_member(simulation))
        digests.append(simulation.trace.digest())
    assert digests[0] == digests[1]

"""What kwire answers, byte for byte, to a recorded session. A change that means to keep the behaviour keeps the bytes.

The requests are the golden frames of five real clients (`tests/codec/golden`), replayed in their order against one
broker on virtual time, and then a scripted producer and consumer. Identifiers, times and timers come from the seed, so
every response has the same bytes on each run. `responses.json` holds the size and the SHA-256 of each.

A change that is meant (another API in ApiVersions, another property in DescribeConfigs) changes the responses:
``python -m tests.simulation.test_recorded_session`` records them again. Responses that hold identifiers or times may
change with it, with the same size, because the longer responses before them arrive at another virtual time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.raw_client import RawClient
from harness.simulation import Simulation
from kwire.base.config import KafkaConfig
from kwire.base.errors import ErrorCode
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.protocol import ApiKey
from kwire.server.broker import Broker
from tests.simulation import scenario

GOLDEN = Path(__file__).parents[1] / "codec" / "golden"
RECORDED = Path(__file__).parent / "recorded" / "responses.json"
ANSWER_S = 60
"""Virtual seconds for one response; a request without one (acks=0, a closed connection) is recorded as that."""

SILENCE = "silence"
Line = tuple[str, str, int, int, str]
"""Client, API, version, size of the response, its SHA-256."""


def requests() -> Iterator[tuple[str, int, int, bytes]]:
    """Client, API key, version and frame of every golden request, in the order in which they were captured."""
    frames = (GOLDEN / "frames.bin").read_bytes()
    for client, direction, key, version, offset, size in json.loads((GOLDEN / "index.json").read_text()):
        if direction == "request":
            yield client, key, version, frames[offset : offset + size]


class Recorder(RawClient):
    """A raw client whose responses are the frames, undecoded."""

    def _answered(self, frame: bytes) -> None:
        *_, future = self._waiting.popleft()
        if not future.done():
            future.set_result(frame)

    def expect(self) -> asyncio.Future[bytes]:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append((0, 0, 0, future))
        return future


async def connect(simulation: Simulation, name: str) -> Recorder:
    return await Recorder.connect(simulation.machine(name).doors, "broker", 9092, name)  # type: ignore[return-value]


async def response_to(client: Recorder, frame: bytes) -> bytes | None:
    """The response to a frame; None if there is none."""
    answered = client.expect()
    try:
        client.send_bytes(struct.pack(">i", len(frame)) + frame)
        return await asyncio.wait_for(answered, ANSWER_S)
    except Exception:
        client.close()
        return None


async def replay(simulation: Simulation, lines: list[Line]) -> None:
    """All golden requests, each client's on connections of its own; a connection that was not answered is replaced."""
    clients: dict[str, Recorder] = {}
    for name, key, version, frame in requests():
        if name not in clients or clients[name].closed:
            clients[name] = await connect(simulation, name)
        response = await response_to(clients[name], frame)
        size, digest = (-1, SILENCE) if response is None else (len(response), hashlib.sha256(response).hexdigest())
        lines.append((name, ApiKey(key).name, version, size, digest))
    for client in clients.values():
        client.close()


async def session(simulation: Simulation) -> list[Line]:
    lines: list[Line] = []
    config = KafkaConfig(
        {
            "log.dirs": "/data",
            "listeners": "PLAINTEXT://broker:9092",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
        }
    )
    async with Broker(config, doors=simulation.machine("broker").doors, store=MemoryStore()):
        async with await simulation.machine("admin").connect("broker:9092") as admin:
            topics = [CreatableTopic(name=f"golden-{n}", num_partitions=1, replication_factor=1) for n in ("kp", "aio")]
            created = await admin.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
            assert [each.error_code for each in created.topics] == [ErrorCode.NONE] * 2
        await asyncio.sleep(1)
        await replay(simulation, lines)
    return lines


async def data_path(simulation: Simulation, seen: hashlib._Hash) -> None:
    """The scenario of the simulation's tests, with every response of the broker folded into a hash."""
    answered = RawClient._answered

    def keep(self: RawClient, frame: bytes) -> None:
        seen.update(frame)
        answered(self, frame)

    RawClient._answered = keep  # type: ignore[method-assign]
    try:
        await scenario.one_broker(simulation, 20)
    finally:
        RawClient._answered = answered  # type: ignore[method-assign]


def record() -> list[list[Any]]:
    simulation = Simulation(20261122)
    lines = simulation.run(session(simulation))
    seen = hashlib.sha256()
    simulation = Simulation(20261122)
    simulation.run(data_path(simulation, seen))
    return [*map(list, lines), ["scenario", "produce and fetch", 0, 0, seen.hexdigest()]]


def test_the_responses_of_a_recorded_session_have_the_same_bytes() -> None:
    recorded, answered = json.loads(RECORDED.read_text()), record()
    assert len(recorded) > 200
    assert len(recorded) == len(answered)
    different = [(then, now) for then, now in zip(recorded, answered, strict=True) if then != now]
    apis = sorted({f"{then[1]} v{then[2]}: {then[3]} -> {now[3]} bytes" for then, now in different})
    assert not different, f"other responses (if meant: python -m {__name__} records them again): {'; '.join(apis)}"


def write() -> None:
    lines = ",\n".join(json.dumps(line) for line in record())
    RECORDED.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    write()

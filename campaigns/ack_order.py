"""Check that no Produce response leaves before the sync it depends on: a broker on real sockets with a delayed fsync.

    .venv/bin/python -m campaigns.ack_order

With `flush.messages=1` on the topic or `log.flush.interval.messages=1` on the broker, for acks=all and acks=1: no
response is sent before the log's fsync returns, one is sent afterwards, and no consumer reads records that may still be
lost.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


from campaigns.command_line import campaign_parser
from harness.raw_client import RawClient
from harness.waiting import until
from kwire.base.doors import Doors, Files
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch
from kwire.server.broker import Broker

TOO_EARLY_S = 0.1
"""How long to wait for a response that must not come. Without the sync, it would take well under a millisecond."""

LATE_S = 60.0


class HeldFiles(Files):
    """Files whose fsync of a partition's `.log` waits for `gate`. ``waiting`` is set while an fsync waits."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()

    def fsync(self, fd: int) -> None:
        """Sync a file; a partition's `.log` waits until `gate` is set, for at most `LATE_S`."""
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".log") and not self.gate.is_set():
            self.waiting.set()
            self.gate.wait(LATE_S)
        os.fsync(fd)


@asynccontextmanager
async def _broker(directory: Path, files: HeldFiles, on: str) -> AsyncIterator[RawClient]:
    settings: dict[str, Any] = {"log_flush_interval_messages": "1"} if on == "broker" else {}
    doors = Doors(files=files)
    broker = Broker(
        store=MemoryStore(), doors=doors, log_dir=str(directory), listeners="PLAINTEXT://127.0.0.1:0", **settings
    )
    async with broker:
        port = broker.net.listeners[0].address[1]
        async with await RawClient.connect(Doors(), "127.0.0.1", port) as client:
            configs = [CreatableTopicConfig(name="flush.messages", value="1")] if on == "topic" else []
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
            await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5)
            try:
                yield client
            finally:
                files.gate.set()


def _write(client: RawClient, acks: int) -> asyncio.Future[Any]:
    records = memoryview(bytearray(build_batch([Record(timestamp=1_790_000_000_000, value=b"v")])))
    data = [PartitionProduceData(index=0, records=records)]
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    return client.post(request, 9)


async def _end_offset(client: RawClient) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
    answer = await client.call(request, 5)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


async def watch(directory: Path, on: str, acks: int) -> list[str]:
    """The failures with the setting on the ``topic`` or on the ``broker``; an empty list if there are none."""
    files, where, found = HeldFiles(), f"set on the {on}, acks={acks}", []
    async with _broker(directory, files, on) as client:
        files.gate.clear()
        answer = _write(client, acks)
        with suppress(TimeoutError):
            await until(lambda: answer.done() or files.waiting.is_set(), LATE_S)
        done, _ = await asyncio.wait([answer], timeout=TOO_EARLY_S)
        if done:
            found.append(f"{where}: a response before the sync")
        elif not files.waiting.is_set():
            found.append(f"{where}: neither a response nor a sync")
        else:
            port = client._socket.getpeername()[1]  # the first connection waits for its response
            async with await RawClient.connect(Doors(), "127.0.0.1", port) as other:
                if await _end_offset(other) != 0:
                    found.append(f"{where}: a consumer sees what is not synced")
        files.gate.set()
        done, _ = await asyncio.wait([answer], timeout=LATE_S)
        if not done:
            found.append(f"{where}: no response after the sync")
        elif answer.result().responses[0].partition_responses[0].error_code:
            found.append(f"{where}: {answer.result()}")
    return found


async def _watch_all(directory: Path) -> list[str]:
    found = []
    for on in ("topic", "broker"):
        for acks in (-1, 1):
            found += await watch(directory / f"{on}{acks}", on, acks)
    return found


def run_seeds(first: int, count: int) -> tuple[None, list[str]]:
    """Run it as other campaigns are run. Nothing here is random, so the seeds do not matter."""
    with tempfile.TemporaryDirectory(prefix="ack-order-") as directory:
        return None, asyncio.run(_watch_all(Path(directory)))


def main() -> int:
    """The command line; 1 if a response left before its sync."""
    campaign_parser("ack_order", __doc__).parse_args()
    found = run_seeds(0, 1)[1]
    print("\n".join(found) or "no response left before its sync")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""``scripts/bench --micro``: what codec, append, fetch and a whole request cost inside one process, without a socket.

Each line is the best of several short rounds, which depends little on other work of the machine. For exact comparisons
count instructions: ``valgrind --tool=callgrind .venv/bin/python -m tools.benchmark.micro --once append``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.codec.messages.produce_request import ProduceRequest
from kwire.codec.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kwire.codec.protocol import decode, encode_parts
from kwire.net.connection import Connection
from kwire.net.outgoing import release_parts
from kwire.server.broker import Broker
from tools.benchmark import access, frames

ROUNDS, ROUND_S = 150, 0.006
FETCH_VERSION = 18
TOPIC = "micro"


class Sink(Connection):
    """A connection that discards responses."""

    __slots__ = ()

    def send(self, parts: list[Any], size: int) -> None:
        """Release the parts of a response instead of sending them."""
        release_parts(parts)

    def queue(self, response: bytes) -> None:
        """Do not send a response."""

    def put_off(self, work: Callable[[], None]) -> None:
        """Do the work at once: no other connection has anything to add."""
        work()


class Several(Sink):
    """Connections whose requests come in one turn of the loop."""

    __slots__ = ("works",)
    works: list[Callable[[], None]]

    def put_off(self, work: Callable[[], None]) -> None:
        """Keep the work until all have come."""
        self.works.append(work)


def operations(broker: Broker) -> dict[str, Callable[[], object]]:
    """The operations that are timed, by name."""
    topic = broker.metadata.image.topics[TOPIC]
    partitions = [broker.replicas.partition(TOPIC, index) for index in range(len(topic.partitions))]
    sink = Sink.__new__(Sink)
    sink.context, sink.listener, sink.local, sink.peer, sink.id = None, "PLAINTEXT", ("::", 1), ("::", 2), "micro"
    sink.closed, sink.is_alone = False, True
    several = Several.__new__(Several)
    for name in ("context", "listener", "local", "peer", "id", "closed"):
        setattr(several, name, getattr(sink, name))
    several.is_alone = False
    dispatch = broker.dispatcher.dispatch

    def requests(indexes: list[int], batch: bytes, count: int) -> Callable[[], object]:
        frame = frames.produce(topic.id, indexes, batch, count, -1).frame
        return lambda: dispatch(sink, memoryview(bytearray(frame)))

    def together(batch: bytes) -> Callable[[], object]:
        frame = frames.produce(topic.id, [0], batch, 1, -1).frame

        def run() -> None:
            work: list[Callable[[], None]] = []
            several.works = work
            for _ in range(16):
                dispatch(several, memoryview(bytearray(frame)))
            for each in work:
                each()

        return run

    one, small = frames.batch_of(100, 0)[0], frames.batch_of(100, 16 * 1024)[0]
    produce_frame = frames.produce(topic.id, [0], one, 1, -1).frame
    body = len(frames.header(0, frames.PRODUCE_VERSION))
    produced = ProduceResponse(
        responses=[
            TopicProduceResponse(
                topic_id=topic.id, partition_responses=[PartitionProduceResponse(index=0, base_offset=1)]
            )
        ]
    )
    fetched = FetchResponse(
        responses=[
            FetchableTopicResponse(topic_id=topic.id, partitions=[PartitionData(partition_index=0, records=one)])
        ]
    )

    def append(batch: bytes) -> Callable[[], object]:
        return lambda: partitions[0].append(memoryview(bytearray(batch)), required_acks=-1)

    def fetch(indexes: list[int], offset: int, size: int) -> Callable[[], object]:
        options = [FetchPartition(partition=i, fetch_offset=offset, partition_max_bytes=size) for i in indexes]
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=50 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=topic.id, partitions=options)],
        )
        frame = frames.frame(request, FETCH_VERSION)
        return lambda: dispatch(sink, memoryview(bytearray(frame)))

    for each in partitions:
        for _ in range(80):
            each.append(memoryview(bytearray(small)), required_acks=-1)
    offset = partitions[0].log_end_offset // 2
    return {
        "decode Produce, 1 partition": lambda: decode(ProduceRequest, frames.PRODUCE_VERSION, produce_frame, body),
        "encode Produce answer": lambda: encode_parts(produced, frames.PRODUCE_VERSION),
        "encode Fetch answer": lambda: encode_parts(fetched, FETCH_VERSION),
        "append 1 record": append(one),
        "append 16 KiB": append(small),
        "request: Produce 1 record": requests([0], one, 1),
        "16 requests in one turn: Produce 1 record": together(one),
        "request: Produce 16 KiB": requests([0], small, 1),
        "request: Produce 1 record to each of 50 partitions": requests(list(range(50)), one, 1),
        "request: Fetch 16 KiB": fetch([0], offset, 16 * 1024),
        "request: Fetch 1 MiB": fetch([0], offset, 1 << 20),
        "request: Fetch 1 MiB from each of 50 partitions": fetch(list(range(50)), offset, 1 << 20),
        "request: Fetch at the end, nothing there": fetch([0], 1 << 40, 1 << 20),
        **tls_operations(),
        **access.operations(),
    }


class Memory:
    """A socket whose peer is in the same process. What is sent is discarded."""

    def __init__(self) -> None:
        self.incoming = b""
        self.outgoing = b""

    def recv_into(self, buffer: memoryview) -> int:
        """What has come from the peer, once."""
        data, self.incoming = self.incoming, b""
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: bytes) -> int:
        """Keep the last bytes, for the handshake."""
        self.outgoing = data
        return len(data)

    def sendmsg(self, buffers: list[bytes]) -> int:
        """Accept all."""
        return sum(map(len, buffers))


def tls_operations() -> dict[str, Callable[[], object]]:
    """Both directions of the record layer. As a record can be decrypted once only, receiving includes the peer's work
    of encrypting it."""
    import ssl

    from harness.processes.certificates import rsa_server
    from kwire.net.tls import RecordBuffers, TlsSocket

    with tempfile.TemporaryDirectory(prefix="kwire-micro-") as folder:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(rsa_server(Path(folder)).pem)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    sock, received = Memory(), memoryview(bytearray(1 << 17))

    def connected() -> tuple[TlsSocket, Any, Any]:
        tls = TlsSocket(sock, context, RecordBuffers(), server_side=True)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trusting.wrap_bio(incoming, outgoing)
        complete = False
        while not complete:
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                pass
            tls.feed(outgoing.read())
            complete = tls.handshake()
            incoming.write(sock.outgoing)
        return tls, client, outgoing

    tls, client, outgoing = connected()

    def receive(data: bytes) -> Callable[[], object]:
        def run() -> None:
            client.write(data)
            sock.incoming = outgoing.read()
            assert tls.recv_into(received) == len(data)

        return run

    small, full = bytes(150), bytes(16 * 1024)
    return {
        "TLS: send 150 B": lambda: tls.send(small),
        "TLS: send 128 KiB": lambda: tls.send(received),
        "TLS: encrypt by the peer, receive 150 B": receive(small),
        "TLS: encrypt by the peer, receive 16 KiB": receive(full),
        "TLS: both sides of a handshake, RSA-2048": connected,
    }


def best_us(operation: Callable[[], object]) -> float:
    """Microseconds for one call, in the best of the rounds."""
    best = float("inf")
    operation()
    for _ in range(ROUNDS):
        count, started = 0, time.perf_counter()
        end = started + ROUND_S
        while (now := time.perf_counter()) < end:
            for _ in range(20):
                operation()
            count += 20
        if count:
            best = min(best, (now - started) / count)
    return best * 1e6


async def measure(only: str, once: int) -> None:
    """Measure the operations whose name contains `only`, or call each `once` times without timing."""
    with tempfile.TemporaryDirectory(prefix="kwire-micro-") as directory:
        async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=directory) as broker:
            new = CreatableTopic(name=TOPIC, num_partitions=50, replication_factor=1)
            await _create(broker, new)
            for name, operation in operations(broker).items():
                if only not in name:
                    continue
                if once:
                    for _ in range(once):
                        operation()
                else:
                    print(f"{name:52} {best_us(operation):8.2f} us", flush=True)


async def _create(broker: Broker, new: CreatableTopic) -> None:
    from harness.raw_client import RawClient
    from kwire.base.addresses import parse_address
    from kwire.base.doors import Doors

    async with await RawClient.connect(Doors(), *parse_address(broker.bootstrap_servers)) as client:
        await client.call(CreateTopicsRequest(topics=[new], timeout_ms=30_000), 7)
        while any(broker.replicas.get(TOPIC, index) is None for index in range(50)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="operations whose name contains this")
    parser.add_argument("--once", type=int, default=0, metavar="N", help="call N times without timing, for a profiler")
    options, _ = parser.parse_known_args()
    asyncio.run(measure(options.only, options.once))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Garbage, incomplete and huge frames, and clients that never read.

The broker must serve other clients within a second, with bounded memory and without a traceback in its log. The fate of
the hostile connection itself is compared with Apache Kafka."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.comparisons.hostile.attack import (
    Healthy,
    MiB,
    Watch,
    answers_api_versions,
    connect,
    connections,
    fetch_request,
    frame,
    send_all,
    what_comes,
)
from compat_tests.servers import running
from harness.observations import Observations
from harness.processes.brokers import Broker, make_broker, wait_until
from harness.wire_client import WireClient
from kwire.codec.compression import compress
from kwire.codec.crc import crc32c
from kwire.codec.protocol import ApiKey
from kwire.codec.records import Record, build_batch


@pytest.fixture(scope="module")
def target(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for this module only, since its memory is measured."""
    own = make_broker(broker_kind, tmp_path_factory.mktemp(f"hostile-{broker_kind}"))
    with running(own, own.kill):
        yield own


@pytest.fixture(scope="module")
def kwire(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A kwire broker, for attacks that Apache Kafka does not withstand (it allocates the announced size)."""
    if request.config.getoption("--broker") == "kafka":
        pytest.skip("tests what only kwire promises")
    own = make_broker("kwire", tmp_path_factory.mktemp("hostile-kwire-alone"))
    with running(own, own.kill):
        yield own


@contextlib.contextmanager
def healthy_client(broker: Broker) -> Iterator[Healthy]:
    """A well-behaved client, warmed up, which must be served at the end as well."""
    with contextlib.closing(Healthy(broker.bootstrap, "healthy")) as client:
        with contextlib.suppress(AssertionError):
            client.round_trip()  # the first round trip opens files and imports codecs
        client.round_trip()
        yield client
        client.round_trip()


@pytest.fixture
def healthy(target: Broker) -> Iterator[Healthy]:
    """A well-behaved client of the target."""
    with healthy_client(target) as client:
        yield client


@pytest.fixture
def beside(kwire: Broker) -> Iterator[Healthy]:
    """A well-behaved client of kwire."""
    with healthy_client(kwire) as client:
        yield client


def sized(size: int) -> bytes:
    return struct.pack(">i", size)


# Metadata v9: the compact length of the topics array, larger than the array.
_DEEP = b"\xff\xff\xff\xff\x07"

REFUSED: dict[str, bytes] = {
    "a web browser": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS client": bytes.fromhex("1603010200010001fc0303") + b"\x55" * 300,
    "a frame of 2 GB": sized(2**31 - 1) + b"x" * 100,
    "a frame over the limit": sized(100 * 1024 * 1024 + 1),
    "a negative size": sized(-1) + b"x" * 100,
    "the least size": sized(-(2**31)) + b"x" * 100,
    "an empty frame": sized(0),
    "a frame of one byte": sized(1) + b"x",
    "half a header": sized(6) + b"\x00\x12\x00\x00\x00\x00",
    "an unknown API": frame(9999, 0, b"", False),
    "a negative API": frame(-1, 0, b"", False),
    "an API that was removed": frame(4, 0, b"\0" * 20, False),
    "a version to come": frame(ApiKey.METADATA, 999, b"", True),
    "a negative version": frame(ApiKey.METADATA, -1, b"", False),
    "a version of the past": frame(ApiKey.PRODUCE, 0, b"\0" * 40, False),
    "a client id beyond the frame": sized(12) + struct.pack(">hhih", 3, 1, 5, 1000) + b"ab",
    "a header and no body": frame(ApiKey.METADATA, 9, b"", True),
    "a header and garbage": frame(ApiKey.METADATA, 9, b"\xff" * 60, True),
    "an array of two thousand million": frame(ApiKey.METADATA, 4, sized(2**31 - 1) + b"\0" * 50, False),
    "a compact array as long": frame(ApiKey.METADATA, 9, _DEEP + b"\0" * 50, True),
    "records longer than the frame": frame(
        ApiKey.PRODUCE,
        8,
        struct.pack(">hhii", -1, -1, 1000, 1) + b"\0\1t" + struct.pack(">iii", 1, 0, 2**31 - 1),
        False,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_request_closes_its_connection(
    target: Broker, healthy: Healthy, observe: Observations, what: str
) -> None:
    with Watch(target, 8 * MiB), connect(target) as sock:
        send_all(sock, REFUSED[what])
        outcome = what_comes(sock)
        observe("outcome", outcome)
        assert outcome == "closed"
        healthy.round_trip()


def test_an_unknown_version_of_api_versions_is_answered(
    target: Broker, healthy: Healthy, observe: Observations
) -> None:
    with Watch(target, 8 * MiB), connect(target) as sock:
        send_all(sock, frame(ApiKey.API_VERSIONS, 127, b"\xff" * 30, True))
        observe("outcome", what_comes(sock))
        assert answers_api_versions(sock)
        healthy.round_trip()


def test_bytes_after_a_request_are_ignored(target: Broker, healthy: Healthy, observe: Observations) -> None:
    with Watch(target, 8 * MiB), connect(target) as sock:
        send_all(sock, frame(ApiKey.API_VERSIONS, 0, b"extra" * 10, False))
        observe("outcome", what_comes(sock))
        observe("still there", answers_api_versions(sock))
        healthy.round_trip()


def test_random_bytes_on_many_connections(kwire: Broker, beside: Healthy) -> None:
    rng = random.Random(20261121)
    with Watch(kwire, 16 * MiB):
        for _ in range(20):
            with connections(kwire, 20) as socks:
                for sock in socks:
                    size = rng.choice([1, 3, 4, 20, 5000])
                    junk = rng.randbytes(size)
                    send_all(sock, junk if rng.random() < 0.5 else sized(size) + junk)
                beside.round_trip()


def test_half_a_frame_and_then_nothing(target: Broker, healthy: Healthy, observe: Observations) -> None:
    whole = frame(ApiKey.API_VERSIONS, 0, b"", False)
    with Watch(target, 8 * MiB), connections(target, 100) as socks:
        for number, sock in enumerate(socks):
            send_all(sock, whole[: 1 + number % (len(whole) - 1)])
        healthy.round_trip()
        observe("while it waits", what_comes(socks[-1], 0.3))
        number = len(socks) - 1
        send_all(socks[-1], whole[1 + number % (len(whole) - 1) :])
        observe("with the other half", what_comes(socks[-1]))


def test_frames_that_trickle_in_byte_by_byte(kwire: Broker, beside: Healthy) -> None:
    whole = frame(ApiKey.API_VERSIONS, 0, b"", False)
    with Watch(kwire, 8 * MiB), connections(kwire, 100) as socks:
        for position in range(len(whole)):
            for sock in socks:
                sock.send(whole[position : position + 1])
            beside.round_trip()
        assert all(what_comes(sock) == "answer" for sock in socks)


def test_announced_frames_take_what_was_sent_of_them_only(kwire: Broker, beside: Healthy) -> None:
    with Watch(kwire, 24 * MiB), connections(kwire, 200) as socks:
        for sock in socks:  # 20 GB in total, if the broker trusted them
            send_all(sock, sized(100 * 1024 * 1024) + b"x" * 8192)
        beside.keep_asking(0.3)


def test_a_thousand_idle_connections(kwire: Broker, beside: Healthy) -> None:
    with Watch(kwire, 32 * MiB) as watch:
        before = watch.descriptors()
        with connections(kwire, 1000) as socks:
            assert answers_api_versions(socks[0])
            assert answers_api_versions(socks[-1])
            beside.keep_asking(0.5)
        wait_until(lambda: watch.descriptors() <= before + 5, 20, "the descriptors to be closed")


def test_more_connections_than_a_shell_allows_descriptors(tmp_path: Path) -> None:
    """The broker raises its soft limit of file descriptors to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    own = make_broker("kwire", tmp_path)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        own.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        with connections(own, 400), healthy_client(own) as client:
            client.round_trip()
    finally:
        own.kill()


def test_without_descriptors_those_who_are_connected_are_served_and_accepting_resumes(tmp_path: Path) -> None:
    own = make_broker("kwire", tmp_path)
    own.start()
    try:
        with healthy_client(own) as client, Watch(own, 32 * MiB) as watch:
            limit = watch.descriptors() + 50
            resource.prlimit(own.pid, resource.RLIMIT_NOFILE, (limit, limit))
            waiting = [connect(own) for _ in range(80)]  # connections that are not accepted wait in the backlog
            wait_until(lambda: "cannot accept" in own.log_text(), 10, "the broker to run out of descriptors")
            client.keep_asking(0.5)
            for sock in waiting:
                sock.close()
            wait_until(lambda: watch.descriptors() < limit - 45, 10, "the descriptors to be closed")
            with connect(own) as late:
                assert answers_api_versions(late)
    finally:
        own.kill()


def test_connections_that_come_and_go_leave_nothing(kwire: Broker, beside: Healthy) -> None:
    with Watch(kwire, 16 * MiB) as watch:
        before = watch.descriptors()
        for _ in range(20):
            with connections(kwire, 50) as socks:
                for sock in socks[::2]:  # half of them end with a reset
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            beside.round_trip()
        wait_until(lambda: watch.descriptors() <= before + 5, 20, "the descriptors to be closed")


def test_a_client_that_fetches_much_and_never_reads(kwire: Broker, beside: Healthy) -> None:
    batch = build_batch([Record(value=b"v" * 900_000, timestamp=int(time.time() * 1000))])
    first = beside.produce(batch)
    for _ in range(19):
        beside.produce(batch)
    request = fetch_request("healthy", first, max_bytes=50 * MiB)
    with Watch(kwire, 48 * MiB), contextlib.ExitStack() as stack:
        for _ in range(10):
            client = stack.enter_context(WireClient(kwire.bootstrap))
            client.socket.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                for _ in range(2000):
                    client.send(request, 12)
            beside.round_trip()
        beside.keep_asking(0.5)


def test_a_flood_of_small_requests_whose_answers_nobody_reads(kwire: Broker, beside: Healthy) -> None:
    flood = frame(ApiKey.API_VERSIONS, 0, b"", False) * 1000
    with Watch(kwire, 24 * MiB), connections(kwire, 10, receive_buffer=4096) as socks:
        for sock in socks:
            sock.settimeout(0.1)
            with contextlib.suppress(TimeoutError):
                for _ in range(200):
                    sock.sendall(flood)
        beside.keep_asking(0.5)


def test_a_client_that_floods_as_fast_as_it_can_read(kwire: Broker, beside: Healthy) -> None:
    """Other clients are served while one connection is never idle."""
    stop = threading.Event()
    flood = frame(ApiKey.API_VERSIONS, 0, b"", False) * 200

    def run(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not stop.is_set():
                sock.sendall(flood)

    def read(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while sock.recv(1 << 20):
                pass

    with Watch(kwire, 24 * MiB), connections(kwire, 2) as socks:
        threads = [threading.Thread(target=work, args=(sock,)) for sock in socks for work in (run, read)]
        for thread in threads:
            thread.start()
        try:
            beside.keep_asking(1.0)
        finally:
            stop.set()
            for sock in socks:
                sock.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(10)


def deep_frames() -> dict[str, Callable[[], bytes]]:
    """Frames within `socket.request.max.bytes` that attack by their number of elements, not of bytes."""
    topics = 30_000_000
    count = bytes([0x80 | (topics + 1) & 0x7F]) + bytes(
        (0x80 if shift < 21 else 0) | (((topics + 1) >> shift) & 0x7F) for shift in (7, 14, 21)
    )
    tags = b"\x80\xc2\xd7\x2f"  # a hundred million tagged fields
    return {
        "metadata of thirty million empty names": lambda: frame(
            ApiKey.METADATA, 9, count + b"\x01\x00" * topics + b"\x00\x00\x00\x00", True
        ),
        "a hundred million tagged fields": lambda: frame(
            ApiKey.METADATA, 9, b"\x01\x00\x00\x00" + tags + b"\x00" * 40_000_000, True
        ),
        "twenty million partitions to fetch": lambda: frame(
            ApiKey.OFFSET_FETCH,
            7,
            b"\x02g\x02\x02t" + b"\x81\xda\xc4\x09" + b"\0\0\0\0" * 20_000_000 + b"\0\0\0",
            True,
        ),
    }


@pytest.mark.parametrize("what", deep_frames())
def test_deep_arrays_end_at_the_budget_of_elements(kwire: Broker, beside: Healthy, what: str) -> None:
    attack = deep_frames()[what]()
    with Watch(kwire, 32 * MiB), connect(kwire) as sock:
        sender = threading.Thread(target=send_all, args=(sock, attack))
        sender.start()
        beside.keep_asking(0.5)
        sender.join(60)
        assert what_comes(sock, 20) == "closed"
        beside.round_trip()
    del attack


def test_produced_garbage_is_an_error_code_and_no_closed_connection(
    target: Broker, healthy: Healthy, observe: Observations, tmp_path: Path
) -> None:
    good = build_batch([Record(value=b"v", timestamp=int(time.time() * 1000))])
    damaged = {
        "no batch": b"",
        "noise": random.Random(3).randbytes(200),
        "zeros": b"\0" * 200,
        "a wrong checksum": good[:-1] + b"\xff",
        "half a batch": good[:-1],
        "two batches": good * 2,
        "an old message set": struct.pack(">qiIbbii3s", 0, 17, 0, 0, 0, -1, 3, b"abc"),
        "a length of 1 GB": good[:8] + sized(2**30) + good[12:],  # Apache Kafka's sum overflows at 2 GB
        "a negative length": good[:8] + sized(-5) + good[12:],
    }
    with Watch(target, 16 * MiB):
        for what, records in damaged.items():
            with connect(target) as sock:
                body = struct.pack(">hhii", -1, -1, 1000, 1) + b"\0\7healthy" + struct.pack(">ii", 1, 0)
                send_all(sock, frame(ApiKey.PRODUCE, 8, body + sized(len(records)) + records, False))
                response = sock.recv(65536)
                (error,) = struct.unpack_from(">h", response, 4 + 4 + 4 + 2 + len("healthy") + 4 + 4)
                observe(what, error)
                assert error != 0
        healthy.round_trip()


def bomb(record: bytes, count: int, codec: int) -> bytes:
    """A small compressed batch of many equal records; timestamps by the broker make the log decompress it."""
    body = compress(codec, record * count)
    batch = bytearray(build_batch([Record(value=b"")])[:61])
    struct.pack_into(">i", batch, 8, len(batch) - 12 + len(body))
    struct.pack_into(">hi", batch, 21, codec | 8, count - 1)
    struct.pack_into(">i", batch, 57, count)
    batch += body
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return bytes(batch)


ATTACKS = 8
"""Each would do the same, but once it may go unnoticed."""


@pytest.mark.parametrize(
    ("record", "count"),
    [(b"\x0c\0\0\0\x01\x01\0", 20_000_000), (b"\x0c\0\0\0\x01\x01\0", 100_000), (b"\0" * 100_000_000, 1)],
    ids=["twenty million records", "a hundred thousand records", "a hundred megabytes of nothing"],
)
def test_a_batch_that_unpacks_to_much_is_refused_soon(
    kwire: Broker, beside: Healthy, record: bytes, count: int
) -> None:
    batch = bomb(record, count, 4)
    assert len(batch) < 100_000
    with Watch(kwire, 48 * MiB), contextlib.closing(Healthy(kwire.bootstrap, "healthy")) as attacker:
        sender = threading.Thread(target=lambda: [attacker.offer(batch) for _ in range(ATTACKS)])
        sender.start()
        beside.keep_asking(0.5)
        sender.join(20)
        assert attacker.last_error not in (None, 0)

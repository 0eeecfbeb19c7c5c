"""Tools of the hostile tests: measuring the broker, misbehaving sockets, and a well-behaved client."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from harness.processes.brokers import Broker
from harness.waiting import PATIENCE_S
from harness.wire_client import WireClient
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch, iter_records

ANSWER_MAX_S = 5.0  # an attack that holds up the broker does so for longer; a busy machine does not
MiB = 1 << 20


class Healthy:
    """A client that produces one record, fetches it and measures the time."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._wire = WireClient(bootstrap, client_id="healthy", timeout_s=PATIENCE_S)
        self._topic = topic
        self.slowest_s = 0.0
        self.last_error: int | None = None
        try:
            self._wait_for_topic()
        except BaseException:
            self.close()
            raise

    def _wait_for_topic(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)], allow_auto_topic_creation=True)
        while time.monotonic() < deadline:
            topic = self._wire.call(request, 9).topics[0]
            if topic.error_code == 0 and topic.partitions and topic.partitions[0].leader_id >= 0:
                return
            time.sleep(0.05)
        raise TimeoutError(f"topic {self._topic} did not come")

    def produce(self, batch: bytes) -> int:
        """Produce a batch; returns its offset."""
        offset = self.offer(batch)
        assert self.last_error == 0, self.last_error
        return offset

    def offer(self, batch: bytes) -> int:
        """Produce a batch and set `last_error` to the response's error code."""
        partition = PartitionProduceData(index=0, records=batch)
        topic = TopicProduceData(name=self._topic, partition_data=[partition])
        response = self._wire.call(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic]), 9)
        result = response.responses[0].partition_responses[0]
        self.last_error = result.error_code
        offset: int = result.base_offset
        return offset

    def fetch(self, offset: int) -> bytes:
        """Fetch the batches at an offset."""
        response = self._wire.call(fetch_request(self._topic, offset), 12)
        result = response.responses[0].partitions[0]
        assert result.error_code == 0, result
        return bytes(result.records or b"")

    def round_trip(self) -> float:
        """Produce and consume one record; returns the seconds, which must be few."""
        value = b"healthy %f" % time.monotonic()
        started = time.monotonic()
        offset = self.produce(build_batch([Record(value=value, timestamp=int(time.time() * 1000))]))
        batch = self.fetch(offset)
        took = time.monotonic() - started
        assert [record.value for record in iter_records(batch, max_bytes=MiB)] == [value]
        self.slowest_s = max(self.slowest_s, took)
        assert took < ANSWER_MAX_S, f"a round trip took {took:.2f} s"
        return took

    def keep_asking(self, seconds: float) -> None:
        """Make round trips, one after the other, for ``seconds``."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.round_trip()

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()


def fetch_request(topic: str, offset: int, max_bytes: int = MiB, max_wait_ms: int = 500) -> FetchRequest:
    """Fetch (v12) of partition 0, outside any session."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, session_epoch=-1, topics=topics)


class Watch:
    """The broker's process: memory and file descriptors before and after, and no traceback in its log.

    The limits apply to kwire only; of Apache Kafka the tests require only that it stays responsive."""

    def __init__(self, broker: Broker, growth_max: int) -> None:
        self._broker = broker
        self._growth_max = growth_max
        self._strict = broker.kind == "kwire"

    def __enter__(self) -> Watch:
        self._log_before = len(self._broker.log_text())
        self._memory_before = self.memory()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None or not self._strict:
            return
        ends_s = time.monotonic() + PATIENCE_S  # the response is sent before what the request has taken is given back
        while (grown := self.memory() - self._memory_before) >= self._growth_max and time.monotonic() < ends_s:
            time.sleep(0.05)
        assert grown < self._growth_max, f"memory grew by {grown / MiB:.1f} MiB, {self._growth_max / MiB:.0f} allowed"
        new_lines = self._broker.log_text()[self._log_before :]
        assert "Traceback" not in new_lines and "exc_info" not in new_lines, new_lines[-3000:]

    def memory(self) -> int:
        """Resident bytes of the process."""
        status = Path(f"/proc/{self._broker.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def descriptors(self) -> int:
        """Open descriptors of the process."""
        return len(list(Path(f"/proc/{self._broker.pid}/fd").iterdir()))


def connect(broker: Broker, timeout_s: float = 10.0, receive_buffer: int | None = None) -> socket.socket:
    """A plain TCP connection to the broker."""
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(timeout_s)
    sock.connect((broker.host, broker.port))
    return sock


@contextlib.contextmanager
def connections(broker: Broker, count: int, receive_buffer: int | None = None) -> Iterator[list[socket.socket]]:
    """Open many connections, closed at the end, no faster than the broker accepts (its backlog is 50, as Kafka's)."""
    socks: list[socket.socket] = []
    try:
        with connect(broker) as pace:
            for number in range(count):
                socks.append(connect(broker, receive_buffer=receive_buffer))
                if number % 32 == 31:
                    assert answers_api_versions(pace)
        yield socks
    finally:
        for sock in socks:
            sock.close()


def frame(api_key: int, version: int, body: bytes, flexible: bool, client_id: bytes = b"hostile") -> bytes:
    """A request with any body, preceded by its size."""
    head = struct.pack(f">hhih{len(client_id)}s", api_key, version, 5, len(client_id), client_id)
    head += b"\0" if flexible else b""
    return struct.pack(">i", len(head) + len(body)) + head + body


def what_comes(sock: socket.socket, wait_s: float = 5.0) -> str:
    """The broker's reaction: `answer`, `closed`, or `nothing` within the time."""
    sock.settimeout(wait_s)
    try:
        return "answer" if sock.recv(65536) else "closed"
    except TimeoutError:
        return "nothing"
    except OSError:
        return "closed"  # reset: the broker closed with unread bytes in its buffer


def send_all(sock: socket.socket, data: bytes) -> bool:
    """Send; returns False if the broker has closed the connection."""
    try:
        sock.sendall(data)
    except OSError:
        return False
    return True


def answers_api_versions(sock: socket.socket) -> bool:
    """Whether the connection still works."""
    body = b"\x02x\x02y\x00"  # software name and version
    return send_all(sock, frame(ApiVersionsRequest.API_KEY, 3, body, True)) and what_comes(sock) == "answer"

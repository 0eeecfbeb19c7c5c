"""Count the user-space instructions that a broker executes for a request, with valgrind's callgrind.

    .venv/bin/python -m tools.count_instructions                    # this version, also over TLS
    .venv/bin/python -m tools.count_instructions --base ../base     # beside another version, a checkout of it
    .venv/bin/python -m tools.count_instructions --start            # also from the start to the ready line
    .venv/bin/python -m tools.count_instructions --authorizer       # beside the same version with an authorizer

One connection sends one request after the other. A count depends little on other work of the machine: the same
version differs by about 0.2 % from run to run (timers of the broker, memory addresses). The kernel's work is not
counted. The least of five counts is taken: timers of the broker, which a busy machine lets run more often per request,
only add to it. The exit status is 1 if a plaintext request executes over 1 % more instructions than in the other
version, or over 3 % more with an authorizer and 1,000 ACLs than without one.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from harness.paths import ROOT
from harness.processes.brokers import wait_until
from harness.processes.certificates import rsa_server
from harness.processes.ports import free_port
from harness.wire_client import WireClient
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.server.ready_line import ReadyLine
from tools.benchmark import frames
from tools.benchmark.setups import guarded

MORE_MAX = 0.01
AUTHORIZER_MAX = 0.03
START_S = 120
_SIZE = struct.Struct(">i")


class Counted:
    """A broker under callgrind, with a PLAINTEXT listener, and an SSL listener if ``pem`` is given. The count of a
    Metadata request depends on the number of listeners."""

    def __init__(
        self, source: Path, home: Path, pem: Path | None, *, from_start: bool = False, authorizer: bool = False
    ) -> None:
        self._home = home
        listeners = {"PLAINTEXT": free_port()}
        settings = dict(guarded.AUTHORIZER) if authorizer else {}
        if pem is not None:
            listeners["SSL"] = free_port()
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pem)}
        settings["listeners"] = ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())
        self.ports = listeners
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={home / 'counts'}"]
        valgrind.append(f"--instr-atstart={'yes' if from_start else 'no'}")
        command = [*valgrind, sys.executable, "-m", "kwire", "start", "--data-dir", str(home / "data")]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=home, env=environment, text=True
        )
        assert self._process.stdout is not None
        ReadyLine.parse(self._process.stdout.readline())
        if not from_start:
            self._control("-i", "on")

    def _control(self, *options: str) -> None:
        subprocess.run(
            ["callgrind_control", *options, str(self._process.pid)], check=True, capture_output=True, timeout=START_S
        )

    def instructions(self, run: Callable[[], None]) -> int:
        """Instructions that the broker executes while ``run`` sends requests."""
        for old in self._home.glob("counts*"):
            old.unlink()
        self._control("-z")
        run()
        return self.so_far()

    def so_far(self) -> int:
        """Instructions since the last call of `instructions`, or since the start."""
        self._control("-d")
        wait_until(lambda: any(self._totals()), 30, "callgrind's counts")
        return sum(self._totals())

    def _totals(self) -> list[int]:
        texts = [path.read_text() for path in self._home.glob("counts*")]
        return [int(number) for text in texts for number in re.findall(r"^totals: (\d+)", text, re.MULTILINE)]

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


@contextmanager
def connected(port: int, tls: bool) -> Iterator[socket.socket]:
    """A connection to a listener; the certificate is not checked."""
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not tls:
            yield plain
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with context.wrap_socket(plain) as secured:
            yield secured


def send_all(sock: socket.socket, frame: bytes, count: int) -> None:
    """Send a request several times, each after the response to the one before."""
    for number in range(count):
        sock.sendall(_SIZE.pack(len(frame)) + frame[:4] + _SIZE.pack(number) + frame[8:])
        response = received(sock, _SIZE.unpack(received(sock, 4))[0])
        assert _SIZE.unpack_from(response)[0] == number


def received(sock: socket.socket, size: int) -> bytes:
    """So many bytes from a socket."""
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece, "the broker closed the connection"
        data += piece
    return data


def requests(topic_id: bytes, name: str) -> dict[str, bytes]:
    """The frames whose cost is counted."""

    def produce(size: int, version: int = frames.PRODUCE_VERSION) -> bytes:
        return frames.produce(topic_id, [0], *frames.batch_of(100, size), acks=-1, version=version, name=name).frame

    def fetch(offset: int, version: int = 18) -> bytes:
        option = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=16 * 1024)
        topic = FetchTopic(topic=name, topic_id=topic_id, partitions=[option])
        return frames.frame(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[topic]), version)

    metadata = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    versions = ApiVersionsRequest(client_software_name="counter", client_software_version="1")
    return {
        "ApiVersions": frames.frame(versions, 4),
        "Metadata, 1 topic": frames.frame(metadata, 12),
        "Produce, 1 record": produce(0),
        "Produce 3, 1 record": produce(0, 3),
        "Produce 7, 1 record": produce(0, 7),
        "Produce 9, 1 record": produce(0, 9),
        "Produce, 16 KiB": produce(16 * 1024),
        "Fetch, 16 KiB": fetch(0),
        "Fetch 4, 16 KiB": fetch(0, 4),
        "Fetch 11, 16 KiB": fetch(0, 11),
        "Fetch 12, 16 KiB": fetch(0, 12),
        "Fetch at the end": fetch(1 << 40),
    }


def count(source: Path, number: int, *, tls: bool = False, authorizer: bool = False) -> dict[str, float]:
    """Instructions of each request, by its name."""
    home = Path(tempfile.mkdtemp(prefix="kwire-count-"))
    broker = Counted(source, home, rsa_server(home).pem if tls else None, authorizer=authorizer)
    found = {}
    try:
        with WireClient(f"127.0.0.1:{broker.ports['PLAINTEXT']}", timeout_s=START_S) as client:
            new = CreatableTopic(name="counted", num_partitions=1, replication_factor=1)
            created = client.call(CreateTopicsRequest(topics=[new], timeout_ms=60_000), 7).topics[0]
            if authorizer:
                guarded.add_acls(client, "count")
        with connected(broker.ports["SSL" if tls else "PLAINTEXT"], tls) as sock:
            for name, frame in requests(created.topic_id, "counted").items():
                run = partial(send_all, sock, frame, number)
                run()  # warms up, and fills the topic
                found[name] = min(broker.instructions(run) for _ in range(5)) / number
    finally:
        broker.end()
        shutil.rmtree(home, ignore_errors=True)
    return found


def count_start(source: Path) -> float:
    """Instructions from the start of the process to the ready line, on an empty directory; modules are compiled."""
    counts = []
    for _ in range(4):
        home = Path(tempfile.mkdtemp(prefix="kwire-count-"))
        broker = Counted(source, home, None, from_start=True)
        try:
            counts.append(broker.so_far())
        finally:
            broker.end()
            shutil.rmtree(home, ignore_errors=True)
    return statistics.median(counts[1:])


def kept_with_authorizer(without: dict[str, float], counted: dict[str, float]) -> bool:
    """Print both counts of each request; whether the authorizer adds no more than `AUTHORIZER_MAX` to any."""
    for name, number in without.items():
        more = counted[name] / number - 1
        print(f"{name:20} {number:13,.0f} instructions, with an authorizer {counted[name]:13,.0f} ({more:+.2%})")
    return all(counted[name] <= (1 + AUTHORIZER_MAX) * number for name, number in without.items())


def main() -> int:
    """The command line; 1 if a plaintext request has become dearer."""
    parser = argparse.ArgumentParser(description="User-space instructions of a request.")
    parser.add_argument("--base", type=Path, metavar="DIR", help="a checkout of the version to compare with")
    parser.add_argument("--requests", type=int, default=1000, metavar="N", help="requests of each kind (default: 1000)")
    parser.add_argument("--authorizer", action="store_true", help="compare with an authorizer instead, without TLS")
    parser.add_argument("--start", action="store_true", help="count a start of the broker, too")
    options = parser.parse_args()
    ours = count(ROOT, options.requests)
    if options.authorizer:
        return 0 if kept_with_authorizer(ours, count(ROOT, options.requests, authorizer=True)) else 1
    secured = count(ROOT, options.requests, tls=True)
    base = count(options.base.resolve(), options.requests) if options.base else {}
    if options.start:
        ours["start"] = count_start(ROOT)
        base["start"] = count_start(options.base.resolve()) if options.base else 0.0
    kept = True
    for name, number in ours.items():
        line = f"{name:20} {number:13,.0f} instructions"
        if options.base:
            more = number / base[name] - 1
            kept = kept and more <= MORE_MAX
            line += f", base {base[name]:13,.0f} ({more:+.2%})"
        if name in secured:
            line += f"; TLS {secured[name]:9,.0f}"
        print(line, flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())

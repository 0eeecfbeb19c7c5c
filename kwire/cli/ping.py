"""``kwire ping [HOST:PORT]``: whether a Kafka broker answers there. For health checks and for scripts that wait.

It asks for the API versions, which every broker answers before anything else. Nothing of the broker is imported: a
health check runs every few seconds.
"""

from __future__ import annotations

import argparse
import socket
import struct
import time

from kwire.cli import fail

_REQUEST = struct.pack(">ihhih9s", 19, 18, 0, 1, 9, b"kwireping")  # ApiVersions, version 0
_ANSWER = struct.Struct(">iihi")  # size, correlation id, error code, number of APIs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire ping``."""
    parser.add_argument("address", metavar="HOST:PORT", nargs="?", default="localhost:9092")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=2.0, help="for one attempt (default: 2)")
    parser.add_argument("--wait", metavar="SECONDS", type=float, default=0.0, help="try again for so long")


def run(arguments: argparse.Namespace) -> int:
    """Ask, perhaps again and again; 0 when there was an answer."""
    host, colon, port = arguments.address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        return fail(f"{arguments.address!r} is not HOST:PORT")
    deadline = time.monotonic() + arguments.wait
    while True:
        try:
            apis = _ask(host.strip("[]") or "localhost", int(port), arguments.timeout)
        except OSError as error:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            return fail(f"{arguments.address}: {error.strerror or error}")
        print(f"{arguments.address} answers: a Kafka broker with {apis} APIs")
        return 0


def _ask(host: str, port: int, timeout_s: float) -> int:
    """The number of APIs that a broker has. OSError when no broker answers."""
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.sendall(_REQUEST)
        data = b""
        while len(data) < _ANSWER.size:
            received = connection.recv(_ANSWER.size - len(data))
            if not received:
                raise ConnectionResetError("the connection was closed without an answer")
            data += received
    size, correlation_id, error_code, apis = _ANSWER.unpack(data)
    if correlation_id != 1 or error_code or size < 10:
        raise ConnectionError("what answers there is no Kafka broker")
    return int(apis)

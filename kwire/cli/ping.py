"""``kwire ping [HOST:PORT]``: check whether a Kafka broker responds. For health checks and for scripts that wait.

It sends ApiVersions, which every broker handles before anything else. The request is a constant and no codec is
imported, because a health check runs every few seconds.
"""

from __future__ import annotations

import argparse
import socket
import struct
import time

from kwire.base.addresses import parse_address
from kwire.cli import fail

_REQUEST = struct.pack(">ihhih9s", 19, 18, 0, 1, 9, b"kwireping")  # ApiVersions, version 0
_RESPONSE = struct.Struct(">iihi")  # size, correlation id, error code, number of APIs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``kwire ping``."""
    parser.add_argument("address", metavar="HOST:PORT", nargs="?", default="localhost:9092")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=2.0, help="for one attempt (default: 2)")
    parser.add_argument("--wait", metavar="SECONDS", type=float, default=0.0, help="try again for so long")


def run(arguments: argparse.Namespace) -> int:
    """Send ApiVersions, repeatedly with ``--wait``; 0 if a broker responds."""
    try:
        host, port = parse_address(arguments.address)
    except ValueError as error:
        return fail(error)
    deadline = time.monotonic() + arguments.wait
    while True:
        try:
            apis = _count_apis(host or "localhost", port, arguments.timeout)
        except OSError as error:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            return fail(f"{arguments.address}: {error.strerror or error}")
        print(f"{arguments.address} answers: a Kafka broker with {apis} APIs")
        return 0


def _count_apis(host: str, port: int, timeout_s: float) -> int:
    """The number of APIs of a broker. OSError if none responds."""
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.sendall(_REQUEST)
        data = b""
        while len(data) < _RESPONSE.size:
            received = connection.recv(_RESPONSE.size - len(data))
            if not received:
                raise ConnectionResetError("the connection was closed without an answer")
            data += received
    size, correlation_id, error_code, apis = _RESPONSE.unpack(data)
    if correlation_id != 1 or error_code or size < 10:
        raise ConnectionError("the server there is not a Kafka broker")
    return int(apis)

"""Snapshots, asked of brokers at their Unix sockets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kwire.metrics.render import Snapshot

TIMEOUT_S: Final = 10.0
"""Seconds for a broker to answer; it is taken for dead or stuck after that."""
_READ_BYTES: Final = 1 << 18


class Unavailable(Exception):
    """A broker gives no snapshot. One line."""


def ask_all(sockets: Mapping[str, str], *, facts_only: bool = False) -> dict[str, Snapshot]:
    """The snapshots of those brokers that answer, or snapshots without rows. `Unavailable` if none does."""
    found, reasons = {}, []
    for label, path in sockets.items():
        try:
            found[label] = ask(path, facts_only=facts_only)
        except Unavailable as error:
            reasons.append(str(error))
    if not found:
        raise Unavailable("; ".join(reasons))
    return found


def ask(path: str, *, facts_only: bool = False) -> Snapshot:
    """The snapshot of one broker, or one without rows. `Unavailable`."""
    rows: list[list[Any]] = []
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(path)
            connection.sendall(b"facts\n" if facts_only else b"\n")
            for line in _lines(connection):
                content = json.loads(line)
                if isinstance(content, dict):
                    return rows, content
                rows += content
    except TimeoutError:
        raise Unavailable(f"the broker does not answer within {TIMEOUT_S:g} s") from None
    except OSError as error:
        raise Unavailable(f"the broker does not answer: {error.strerror or error}") from None
    raise Unavailable("the broker is stopping")


def _lines(connection: socket.socket) -> Iterator[bytes]:
    rest = b""
    while data := connection.recv(_READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        yield from lines

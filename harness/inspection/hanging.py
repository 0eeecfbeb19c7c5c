"""What a client that does not go on is waiting for, as text: the Python stacks of all threads, those of librdkafka, the
connections as the kernel has them, and the broker's dump, which also tells whether it owes someone a response."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from harness.processes.brokers import Broker, wait_until
from harness.processes.secured import SecuredBroker

DUMP_S: Final = 60.0
OWED_S: Final = 10.0
"""Longer than any Fetch waits. A JoinGroup may wait longer, and is then owed."""
GDB_S: Final = 60
TOLD: Final = ("task", "connection", "request", "group", "transaction")
"""Of the broker's dump. The rest are partitions and metrics, hundreds of lines."""


def report(broker: SecuredBroker) -> str:
    """All of it. It takes seconds, and raises nothing: a broker that does not write its dump is a finding, too."""
    parts: dict[str, Callable[[], Iterable[str]]] = {
        "Python": python_stacks,
        "librdkafka": native_stacks,
        "TCP": lambda: connections(broker),
        "broker": lambda: _told(broker),
    }
    lines: list[str] = []
    for name, part in parts.items():
        lines.append(f"-- {name}")
        try:
            lines += part()
        except Exception as error:
            lines.append(f"not to be had: {error!r}")
    return "\n".join(lines)


def python_stacks() -> Iterator[str]:
    """Where each thread of this process is."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"thread {names.get(ident, ident)}"
        yield from ("".join(traceback.format_stack(frame))).splitlines()


def native_stacks() -> list[str]:
    """Where the threads that librdkafka has started are, if gdb is here. It stops this process, which can therefore
    neither read its output meanwhile nor end it."""
    if shutil.which("gdb") is None or shutil.which("timeout") is None:
        return ["no gdb"]
    command = ["timeout", "-s", "KILL", str(GDB_S), "gdb", "--batch", "--nx", "-p", str(os.getpid())]
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        subprocess.run(
            [*command, "-ex", "thread apply all bt 14"], stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        )
        out.seek(0)
        return [line.rstrip() for line in out if line.startswith(("#", "Thread "))]


def connections(broker: SecuredBroker) -> list[str]:
    """The connections to the broker's ports: what one side has not taken yet, the other may be waiting for."""
    ports = {f"{port:04X}" for port in broker.ports.values()}
    found = []
    for line in Path(f"/proc/{broker.pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, queues, *_ = line.split()
        if {local.rpartition(":")[2], remote.rpartition(":")[2]} & ports:
            sent, received = (int(each, 16) for each in queues.split(":"))
            found.append(f"{_port(local)} to {_port(remote)}: state {state}, {sent} to send, {received} to receive")
    return found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def dump(broker: Broker) -> list[str]:
    """The lines of the broker's dump (SIGUSR1)."""
    before = len(broker.log_text())
    os.kill(broker.pid, signal.SIGUSR1)
    wait_until(lambda: "dump complete" in broker.log_text()[before:], DUMP_S, "the dump")
    return broker.log_text()[before:].splitlines()


def owed(brokers: Iterable[Broker]) -> list[str]:
    """The requests that kwire brokers leave unanswered: those in two dumps, `OWED_S` apart. A line each."""
    brokers = list(brokers)
    before = [_requests(broker) for broker in brokers]
    time.sleep(OWED_S)
    after = [_requests(broker) for broker in brokers]
    return [each for early, late in zip(before, after, strict=True) for each in sorted(early & late)]


def _requests(broker: Broker) -> set[str]:
    found = set()
    for told in map(_facts, dump(broker)):
        if told.get("event") == "request":
            connection, number = told["connection"], told["correlation_id"]
            found.add(f"{broker.bootstrap} owes a response: {told['api']} {told['version']}, {connection}, {number}")
    return found


def _told(broker: SecuredBroker) -> Iterable[str]:
    return [line for line in dump(broker) if _facts(line).get("event") in TOLD]


def _facts(line: str) -> dict[str, Any]:
    """What a line of the broker's log tells; nothing if it is another program's."""
    try:
        facts = json.loads(line)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}

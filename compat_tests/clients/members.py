"""Members of consumer groups as processes (`compat_tests.clients.member`, Java's `GroupMember`) and what tests do with
them: start, observe, stop and kill them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from compat_tests.clients.member import group_properties
from harness.java_runner import java_class_path
from harness.kafka_jars import java_command
from harness.paths import ROOT
from harness.processes.brokers import wait_until
from harness.waiting import PATIENCE_S

SESSION_TIMEOUT_MS = 8000
"""A member that a busy machine holds up for so long is out; and a killed one is noticed only then."""
HEARTBEAT_MS = 200

_JAVA_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


class Member:
    """One consumer process. ``assignment``: the latest one; None before the first and after leaving."""

    def __init__(self, client: str, bootstrap: str, group: str, topics: list[str], assignor: str, **more: Any) -> None:
        options: dict[str, Any] = {"bootstrap": bootstrap, "group": group, "topics": topics, "assignor": assignor}
        options |= {"session_timeout_ms": SESSION_TIMEOUT_MS, "heartbeat_ms": HEARTBEAT_MS, **more}
        self.client = client
        self.events: list[dict[str, Any]] = []
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            _command(client, options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=ROOT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def assignment(self) -> list[tuple[str, int]] | None:
        """The partitions of its latest assignment."""
        for event in reversed(self.events):
            if event["event"] in ("closed", "fenced"):
                return None
            if event["event"] == "assignment":
                return [(topic, partition) for topic, partition in event["partitions"]]
        return None

    @property
    def records(self) -> list[tuple[int, int, str]]:
        """(partition, offset, value) of each record that it has read."""
        got = [event for event in self.events if event["event"] == "record"]
        return [(event["partition"], event["offset"], event["value"]) for event in got]

    def count(self, event: str) -> int:
        """How many events of this name it has printed."""
        return sum(1 for one in self.events if one["event"] == event)

    def tell(self, command: str) -> None:
        """Send a command: "commit" or "leave"."""
        assert self._process.stdin is not None
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()

    def commit(self) -> None:
        """Commit the offsets of the records it has read, and wait for the commit."""
        before = self.count("committed")
        self.tell("commit")
        wait_until(lambda: self.count("committed") > before, 20, f"{self.client} commits; {self.errors()}")

    def leave(self) -> None:
        """Close the consumer, which leaves the group, and wait for the process to end."""
        self.tell("leave")
        self._process.wait(PATIENCE_S)
        self._reader.join(10)

    def kill(self) -> None:
        """SIGKILL: the group notices only when the session times out."""
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        self.events.append({"event": "closed"})

    def history(self) -> list[str]:
        """The events about its membership."""
        return [str(event) for event in self.events if event["event"] != "record"]

    def errors(self) -> str:
        """The last part of its standard error."""
        self._stderr.seek(0)
        return self._stderr.read()[-1500:].decode(errors="replace")

    def close(self) -> None:
        """End the process in any state."""
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.append(json.loads(line))


def _command(client: str, options: dict[str, Any]) -> list[str]:
    if client != "java":
        return [sys.executable, "-m", "compat_tests.clients.member", client, json.dumps(options)]
    strategy = _JAVA_ASSIGNORS.get(options["assignor"])
    config = {
        **group_properties(options, f"org.apache.kafka.clients.consumer.{strategy}"),
        "fetch.max.wait.ms": 50,
        "metadata.max.age.ms": 500,
    }
    request = json.dumps({"config": config, "topics": options["topics"]})
    return java_command("-cp", java_class_path(), "GroupMember", request, heap="128m")


def settled(members: Iterable[Member], topic: str, partitions: int) -> Callable[[], bool]:
    """A condition: the members together hold every partition of the topic exactly once, and each holds some."""

    def check() -> bool:
        held = [member.assignment for member in members]
        if any(one is None for one in held):
            return False
        together = sorted(partition for one in held for partition in one or ())
        fair = all(one for one in held) or len(held) > partitions
        return together == [(topic, index) for index in range(partitions)] and fair

    return check


def wait_settled(members: list[Member], topic: str, partitions: int, timeout_s: float = 30) -> None:
    """Wait until the group is stable with these members."""
    try:
        wait_until(settled(members, topic, partitions), timeout_s, "a stable group")
    except TimeoutError as error:
        state = "\n".join(f"{one.client}: {one.assignment} {one.history()} {one.errors()}" for one in members)
        raise AssertionError(f"{error}\n{state}") from None


def sizes(members: Iterable[Member]) -> list[int]:
    """How many partitions each member holds, largest first; this does not depend on random member ids."""
    return sorted((len(member.assignment or ()) for member in members), reverse=True)


Join = Callable[..., Member]
"""``join(client, group, topic, assignor, **options) -> Member``"""


@contextlib.contextmanager
def joining(bootstrap: str, assignor: str, **defaults: Any) -> Iterator[Join]:
    """Yield a `Join` with a default assignor and default options; all its members end afterwards."""
    members: list[Member] = []

    def join(client: str, group: str, topic: str, assignor: str = assignor, **options: Any) -> Member:
        member = Member(client, bootstrap, group, [topic], assignor, **{**defaults, **options})
        members.append(member)
        return member

    yield join
    for member in members:
        member.close()

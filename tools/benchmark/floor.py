"""The floor: a server in C that only makes the system calls which a broker cannot avoid (`floor.c`), as a target.

It serves the workloads of the load generator (`Workload.on_floor`), from which the table says how far both brokers are
from it. What lives elsewhere: compiling (`tools.benchmark.generator`).
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.processes.brokers import Broker, BrokerFailed
from tools.benchmark.generator import compiled
from tools.benchmark.targets import Target, Topic

FLOOR = "floor"
SOURCE = Path(__file__).with_name("floor.c")


class FloorServer(Broker):
    """The server as a process. Its commands go through its standard input."""

    kind = FLOOR

    def start(self) -> None:
        """Start the process. Raises `BrokerFailed`."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("wb") as log:
            self._process = process = subprocess.Popen(
                [str(compiled(SOURCE)), str(self.data_dir)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.home,
            )
        assert process.stdout
        words = process.stdout.readline().split()
        if len(words) != 2:
            raise BrokerFailed(f"the floor did not start: {self.log_text().strip()}")
        self.port = int(words[1])

    def obey(self, command: str) -> str:
        """Send a command; its response. Raises `BrokerFailed`."""
        process = self._process
        assert process is not None and process.stdin and process.stdout
        process.stdin.write(f"{command}\n".encode())
        process.stdin.flush()
        line = process.stdout.readline().decode().strip()
        if not line:
            raise BrokerFailed(self.log_text().strip() or "the floor has ended")
        return line

    def kill(self) -> None:
        """End the process, and close what leads to it."""
        process = self._process
        super().kill()
        for pipe in (process.stdin, process.stdout) if process is not None else ():
            if pipe is not None:
                pipe.close()


class FloorTarget(Target):
    """The floor under measurement."""

    def __init__(self, home: Path) -> None:
        self.server = FloorServer(home)
        super().__init__(self.server)

    def create_topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> Topic:
        """A new topic; it has no configuration."""
        return FloorTopic(self.server, self, int(self.server.obey(f"topic {partitions}")), partitions)

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Delete topics with their files."""
        for each in topics:
            each.delete()

    def producer_id(self) -> tuple[int, int]:
        """A producer's id and epoch, which the floor does not look at."""
        return 1, 0


class FloorTopic(Topic):
    """A topic of the floor."""

    def __init__(self, server: FloorServer, target: Target, number: int, partitions: int) -> None:
        super().__init__(target, f"bench-{number}", struct.pack(">i", number) + bytes([1]) * 12, partitions)
        self._server = server
        self._number = number

    def end_offsets(self) -> list[int] | None:
        """The end offset of every partition."""
        return [int(word) for word in self._server.obey(f"ends {self._number}").split()]

    def delete(self) -> None:
        """Delete it with its files."""
        self._server.obey(f"delete {self._number}")

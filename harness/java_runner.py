"""Kafka's command-line tools and Java clients, run in one JVM for all tests (`harness/java/ToolRunner.java`).

``java.tool("TopicCommand", "--bootstrap-server", ..., "--list").out``: `TOOLS` has the short names of tools.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harness.kafka_jars import compile_java, java_command, kafka_classpath

SOURCES = Path(__file__).parent / "java"

TOOLS = {
    "AclCommand": "org.apache.kafka.tools.AclCommand",
    "ClientMetricsCommand": "org.apache.kafka.tools.ClientMetricsCommand",
    "ClusterTool": "org.apache.kafka.tools.ClusterTool",
    "ConfigCommand": "kafka.admin.ConfigCommand",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "ConsoleProducer": "org.apache.kafka.tools.ConsoleProducer",
    "ConsoleShareConsumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "DelegationTokenCommand": "org.apache.kafka.tools.DelegationTokenCommand",
    "DeleteRecordsCommand": "org.apache.kafka.tools.DeleteRecordsCommand",
    "DumpLogSegments": "org.apache.kafka.tools.DumpLogSegments",
    "FeatureCommand": "org.apache.kafka.tools.FeatureCommand",
    "GetOffsetShell": "org.apache.kafka.tools.GetOffsetShell",
    "GroupsCommand": "org.apache.kafka.tools.GroupsCommand",
    "LeaderElectionCommand": "org.apache.kafka.tools.LeaderElectionCommand",
    "LogDirsCommand": "org.apache.kafka.tools.LogDirsCommand",
    "ProducerPerformance": "org.apache.kafka.tools.ProducerPerformance",
    "ReassignPartitionsCommand": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "ShareGroupCommand": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "StreamsGroupCommand": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "TopicCommand": "org.apache.kafka.tools.TopicCommand",
    "TransactionalMessageCopier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "TransactionsCommand": "org.apache.kafka.tools.TransactionsCommand",
    "VerifiableShareConsumer": "org.apache.kafka.tools.VerifiableShareConsumer",
    "BrokerApiVersionsCommand": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool: exit status, standard output, standard error."""

    status: int
    out: str
    err: str

    def check(self) -> ToolResult:
        """This result, or an AssertionError with both outputs when the tool failed."""
        assert self.status == 0, f"status {self.status}\n{self.out}\n{self.err}"
        return self


def classes_dir() -> Path:
    """The compiled classes of `harness/java`."""
    return compile_java(SOURCES.glob("*.java"))


def java_class_path() -> str:
    """Kafka's jars and the tests' own classes."""
    return f"{kafka_classpath()}:{classes_dir()}"


class JavaRunner:
    """The JVM. The first call starts it; a call that does not return in time has it started again."""

    def __init__(
        self, properties: Mapping[str, str] | None = None, class_path: Callable[[], str] = java_class_path
    ) -> None:
        """``properties``: of the JVM; ``class_path``: for programs that need more, with `java_class_path` first."""
        self._class_path = class_path
        self._properties = [f"-D{name}={value}" for name, value in (properties or {}).items()]
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def tool(self, name: str, *arguments: str, stdin: str = "", timeout_s: float = 300.0) -> ToolResult:
        """Run a tool's main method; `name` is one of `TOOLS` or a class."""
        process = self._process
        if process is None or process.poll() is not None:
            process = self._start()
        request = {"main": TOOLS.get(name, name), "args": list(arguments), "stdin": stdin}
        assert process.stdin is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        return ToolResult(**json.loads(self._answer(process, timeout_s, name)))

    def client(self, operation: str, request: dict[str, Any], timeout_s: float = 300.0) -> Any:
        """Run one operation of `JavaClient` and return its result."""
        result = self.tool("JavaClient", operation, stdin=json.dumps(request), timeout_s=timeout_s).check()
        return json.loads(result.out)

    def close(self) -> None:
        """End the JVM."""
        process, self._process = self._process, None
        stderr, self._stderr = self._stderr, None
        if stderr is not None:
            stderr.close()
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        self.close()
        command = java_command("-cp", self._class_path(), "ToolRunner", options=self._properties)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the JVM
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, start_new_session=True
        )
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], timeout_s: float, name: str) -> bytes:
        assert process.stdout is not None
        deadline = time.monotonic() + timeout_s
        line = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.close()
                    raise TimeoutError(f"{name} did not end within {timeout_s:g} s")
                part = os.read(process.stdout.fileno(), 1 << 20)
                if not part:
                    assert self._stderr is not None
                    self._stderr.seek(0)
                    raise RuntimeError(f"the JVM ended: {self._stderr.read()[-2000:].decode(errors='replace')}")
                line += part
        return bytes(line)

"""Runs the commands of a guide as they are pasted into a shell."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from compat_tests.documents import guides
from harness.waiting import PATIENCE_S

TOOLS = {
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-delegation-tokens.sh": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
}


def blocks_of(text: str) -> list[str]:
    """The blocks of commands in a guide."""
    return re.findall(r"```sh\n(.*?)```", text, re.S)


class Shell:
    """Runs the guide's blocks in a directory; one that starts brokers first stops those that run."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._brokers = guides.Brokers(directory / "brokers.log")
        programs = directory / "programs"
        programs.mkdir()
        guides.programs(programs, TOOLS)
        self._environment = {**guides.environment(programs), **environment}

    @property
    def log(self) -> Path:
        """What the brokers have written to standard error."""
        return self._brokers.log

    def run(self, block: str) -> str:
        """What the commands print. AssertionError if one fails."""
        if block.startswith("kwire start"):
            self.stop()
            lines = block.splitlines()
            return "".join(self._brokers.start(line.split(), self._directory, self._environment) for line in lines)
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=10 * PATIENCE_S,  # several JVMs start
            check=False,
        )
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        return done.stdout

    def stop(self) -> None:
        """Stop the brokers that run."""
        self._brokers.stop()

"""Runs the commands of a guide as they are pasted into a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.kafka_jars import kafka_classpath
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
        self.log = directory / "brokers.log"
        """What the brokers have written to standard error."""
        self._brokers: list[subprocess.Popen[str]] = []
        programs = directory / "programs"
        programs.mkdir()
        _script(programs / "kwire", f'exec "{sys.executable}" -m kwire "$@"')
        _script(programs / "python", f'exec "{sys.executable}" "$@"')
        for name, main in TOOLS.items():
            _script(programs / name, f'exec java -Xmx256m -cp "{kafka_classpath()}" {main} "$@"')
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._environment.update(environment)

    def run(self, block: str) -> str:
        """What the commands print. AssertionError if one fails."""
        if block.startswith("kwire start"):
            self.stop()
            return "".join(self._start(line) for line in block.splitlines())
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

    def _start(self, command: str) -> str:
        with open(self.log, "ab") as log:
            broker = subprocess.Popen(
                command.split(),
                cwd=self._directory,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._brokers.append(broker)
        assert broker.stdout is not None
        line = broker.stdout.readline()
        assert line.startswith("kwire ready"), command
        return line

    def stop(self) -> None:
        """Stop the brokers that run."""
        while self._brokers:
            broker = self._brokers.pop()
            broker.terminate()
            broker.communicate(timeout=PATIENCE_S)


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)

"""docs/TLS_AND_SASL.md is correct: its commands, pasted in order into an empty directory, do what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from compat_tests.needs import need
from harness.kafka_jars import kafka_classpath
from harness.paths import ROOT
from harness.processes.kerberos import REALM, Kerberos, missing
from harness.processes.ports import free_port
from harness.waiting import PATIENCE_S

pytestmark = pytest.mark.java

PORTS = ("9093", "9094", "9095", "9096", "9191", "9192")
TOOLS = {
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-delegation-tokens.sh": "org.apache.kafka.tools.DelegationTokenCommand",
}
SHOWN = (
    "alice SCRAM-SHA-512",
    "is a Kafka broker",
    "b'hello'",
    "0 records are left",
    "offset 0",
    "hello from the console",
    "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-512=iterations=4096",
    "User:alice",
    "1 brokers:",
    "under-replicated 0   offline 0",
)
"""Texts that the commands print, among others."""


class Shell:
    """Runs the guide's blocks in a directory; one that starts brokers first stops those that run."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
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
        broker = subprocess.Popen(
            command.split(), cwd=self._directory, env=self._environment, stdout=subprocess.PIPE, text=True
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


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[Kerberos]:
    need(missing())
    with Kerberos(tmp_path / "realm") as realm:
        yield realm


@pytest.fixture
def shell(tmp_path: Path, realm: Kerberos) -> Iterator[Shell]:
    """In a directory with the keytabs of the guide."""
    directory = tmp_path / "guide"
    directory.mkdir()
    for name in ("kafka", "alice"):
        realm.keytab(name).rename(directory / f"{name}.keytab")
    shell = Shell(directory, realm.environment)
    yield shell
    shell.stop()


def test_the_commands_of_the_guide_work_as_they_are_pasted(shell: Shell) -> None:
    ports = {port: free_port() for port in PORTS}  # a test cannot use fixed ones
    text = (ROOT / "docs" / "TLS_AND_SASL.md").read_text()
    first, second = ports["9191"], ports["9192"]
    text = text.replace("localhost:919$id", f"localhost:$(({first} + ({second} - {first}) * (id - 1)))")
    for port, free in ports.items():
        text = text.replace(f"localhost:{port}", f"localhost:{free}")
    text = text.replace("EXAMPLE.COM", REALM)
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    assert len(blocks) > 20
    printed = "".join(shell.run(block) for block in blocks)
    assert [each for each in SHOWN if each not in printed] == [], printed

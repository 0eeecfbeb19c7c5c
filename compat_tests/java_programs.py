"""Java programs that lie beside the tests: compiled against Kafka's jars (and cached), then run.

An oracle is such a program that answers questions with Kafka's own classes, a line for a line. What lives elsewhere:
the jars and the compiler (`harness.kafka_jars`), Kafka's tools and clients in one JVM (`harness.java_runner`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.kafka_jars import compile_java, java_command, kafka_classpath


def java_program(source: Path, *arguments: str, heap: str = "256m") -> list[str]:
    """The command line that runs the main class of a source file, whose name is the file's."""
    return java_command("-cp", f"{kafka_classpath()}:{compile_java([source])}", source.stem, *arguments, heap=heap)


def answers(source: Path, questions: Sequence[str]) -> list[str]:
    """An oracle's answers to questions that are all known beforehand."""
    done = subprocess.run(java_program(source), input="\n".join(questions), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


class Oracle:
    """A running oracle. ``ask`` sends one line and waits for the line that answers it."""

    def __init__(self, source: Path) -> None:
        self._process = subprocess.Popen(java_program(source), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> str:
        """Send a line; returns the line that answers it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\r\n")

    def close(self) -> None:
        """Close its input, which ends it."""
        self._process.communicate(timeout=60)

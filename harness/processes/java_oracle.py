"""A Java process that answers questions with Kafka's own classes, in batches of lines."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.kafka_jars import compile_java, java_command, kafka_classpath


class JavaOracle:
    """Runs a Java program that reads questions, a line each and an empty line after a batch, and then writes the
    answers, a line each.

    ``options`` are the Java machine's; ``java`` is another one than the default; ``jars``: a class path to use before
    Kafka's.
    """

    def __init__(
        self, source: Path, options: Sequence[str] = (), java: str = "java", jars: Callable[[], str] | None = None
    ) -> None:
        def classpath() -> str:
            return kafka_classpath() if jars is None else f"{jars()}:{kafka_classpath()}"

        path = f"{classpath()}:{compile_java([source], classpath)}"
        command = java_command("-cp", path, source.stem, options=options)
        if java != "java":
            command = [java, *(part for part in command[1:] if not part.startswith(("-Xshare", "-XX:SharedArchive")))]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, questions: Sequence[str]) -> list[str]:
        """The answers to questions."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("".join(question + "\n" for question in [*questions, ""]))
        stdin.flush()
        return [stdout.readline().rstrip("\n") for _ in questions]

    def __enter__(self) -> Self:
        """The oracle itself; leaving ends its process."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

"""The command `kwire` against the broker under test, in the tests' own process: a start takes longer than a command."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jsonschema import validate

from harness.processes.brokers import Broker, make_broker, wait_for, wait_until
from kwire.cli import main
from tools.command_schemas import FILE


class Output(NamedTuple):
    """What a command has printed, and its exit status."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        """The output, which is JSON."""
        assert (self.status, self.err) == (0, "")
        return json.loads(self.out)


def _check_schema(arguments: Sequence[str], output: Output) -> None:
    """What is printed as JSON is as `docs/command_line.schema.json` says."""
    if "-o" not in arguments or not output.out:
        return
    schemas = json.loads(FILE.read_text(encoding="utf-8"))["$defs"]
    name = next(each for each in (" ".join(arguments[:2]), arguments[0]) if each in schemas)
    form = arguments[arguments.index("-o") + 1]
    if form == "json":
        validate(json.loads(output.out), schemas[name])
    elif form == "jsonl":
        for line in output.out.splitlines():
            validate(json.loads(line), schemas[name].get("items", schemas[name]))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def words(output: Output) -> tuple[int, str, str]:
    """A failure without the broker's words, which differ: status, output and the error's name."""
    assert output.err.startswith("kwire: ") and output.err.count("\n") == 1, output
    return output.status, output.out, output.err[output.err.rindex("(") :]


class Kwire:
    """``kwire("topic", "list")``: run a command on a broker."""

    def __init__(self, bootstrap: str, home: Path) -> None:
        self._bootstrap = bootstrap
        self._home = home

    def __call__(self, *arguments: str, stdin: str | bytes = b"", bootstrap: str | None = None) -> Output:
        content = stdin.encode() if isinstance(stdin, str) else stdin
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2))
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in [name for name in os.environ if name.startswith("KWIRE_")]:
                patch.delenv(name)
            patch.setenv("HOME", str(self._home))
            patch.setenv("KWIRE_BOOTSTRAP_SERVER", bootstrap or self._bootstrap)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
            try:
                status: object = main(arguments)
            except SystemExit as end:  # wrong usage
                status = end.code
        assert isinstance(status, int)
        output = Output(status, _written(out), _written(err))
        _check_schema(arguments, output)
        return output

    def until(self, shown: str, *arguments: str) -> Output:
        """Run a command until its output has ``shown``: Apache Kafka shows a change a moment after it was made."""
        what = f"{shown} in the output of kwire {' '.join(arguments)}"
        return wait_for(lambda: self(*arguments), lambda output: shown in output.out, 20, what, 0.1)

    def until_gone(self, topic: str) -> None:
        """Wait until a deleted topic is not listed any more."""
        wait_until(lambda: topic not in self("topic", "list").out, 20, f"the end of topic {topic}", 0.1)


@pytest.fixture
def kwire(broker: Broker, tmp_path: Path) -> Kwire:
    """The command on the broker under test."""
    return Kwire(broker.bootstrap, tmp_path)


@pytest.fixture
def own_broker(broker_kind: str, tmp_path: Path) -> Iterator[Broker]:
    """A broker without anything in it, which a test may stop."""
    made = make_broker(broker_kind, tmp_path / "broker")
    made.start()
    yield made
    made.kill()

"""Records and Ctrl-C, closed pipes and brokers that go away: one line, the right status, and nothing reported as
written is missing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from harness.waiting import PATIENCE_S
from tests.cli.conftest import Command, Process


def _hear_ctrl_c() -> None:
    """What a shell starts in the background ignores SIGINT, and so does what that starts, as these commands."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Records:
    """``kwire produce`` and ``kwire consume`` beside a broker that they can lose."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.broker: Process = command.start("--listen", "127.0.0.1:0", "--data-dir", "data")
        self._bootstrap = self.broker.bootstrap
        self.done("topic", "create", "t")

    def start_broker(self) -> None:
        """Start the broker again, at the same address."""
        self.broker = self._command.start("--listen", self._bootstrap, "--data-dir", "data")

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A command that is left running."""
        process = subprocess.Popen(
            [sys.executable, "-m", "kwire", *arguments],
            cwd=self._command.directory,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 (it does nothing that another thread could hold up)
        )
        self._command.processes.append(process)  # type: ignore[arg-type]
        return process

    def environment(self) -> dict[str, str]:
        """That of a command beside the broker."""
        return self._command.environment(KWIRE_BOOTSTRAP_SERVER=self._bootstrap)

    def done(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """What a command has printed that ran to its end."""
        process = self.begin(*arguments)
        out, err = process.communicate(stdin, timeout=PATIENCE_S)
        assert (process.returncode, err) == (0, b"")
        return out

    def values(self) -> list[bytes]:
        """The records of the topic."""
        return self.done("consume", "t", "--until-end").splitlines()


@pytest.fixture
def records(kwire_command: Command) -> Iterator[Records]:
    made = Records(kwire_command)
    yield made
    for process in kwire_command.processes:
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()
    made.broker.stop()


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The status of a command, and its one line about a failure."""
    status = process.wait(PATIENCE_S)
    assert process.stderr is not None
    line = process.stderr.read().decode()
    assert line.count("\n") <= 1, line
    return status, line


def read_lines(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def test_ctrl_c_ends_consume_after_whole_records(records: Records) -> None:
    records.done("produce", "t", stdin=b"a\nb\n")
    process = records.begin("consume", "t")
    assert read_lines(process, 2) == [b"a\n", b"b\n"]
    records.done("produce", "t", stdin=b"c")
    assert read_lines(process, 1) == [b"c\n"]
    process.send_signal(signal.SIGINT)
    assert ended(process) == (130, "")
    assert process.stdout is not None and process.stdout.read() == b""


def test_a_member_that_is_terminated_commits_and_leaves_its_group(records: Records) -> None:
    records.done("produce", "t", stdin=b"a\nb\n")
    process = records.begin("consume", "t", "-g", "g", "-o", "json")
    assert process.stdout is not None
    out = b""
    while out.count(b"offset") < 2:
        chunk = os.read(process.stdout.fileno(), 4096)
        assert chunk, "the command has ended"
        out += chunk
    process.terminate()
    assert ended(process) == (128 + signal.SIGTERM, "")
    written = json.loads(out + process.stdout.read())
    assert [each["value"] for each in written] == ["a", "b"]
    [group] = json.loads(records.done("group", "list", "-o", "json"))
    assert group["state"] == "Empty"
    [partition] = json.loads(records.done("group", "lag", "g", "-o", "json"))
    assert partition["committed"] == 2


def test_ctrl_c_in_the_middle_of_a_batch_says_what_is_written(records: Records) -> None:
    process = records.begin("produce", "t", "--linger", "60")
    assert process.stdin is not None
    lines = b"".join(b"%d %s\n" % (index, b"x" * 200) for index in range(20_000))
    process.stdin.write(lines + b"half a rec")  # four batches and a part of one
    process.stdin.flush()
    following = records.begin("consume", "t", "-n", "1")
    read_lines(following, 1)  # some are written
    process.send_signal(signal.SIGINT)
    status, line = ended(process)
    match = re.fullmatch(r"kwire: interrupted; (\d+) records written to t\n", line)
    assert status == 130 and match is not None, line
    assert int(match[1]) > 0
    assert records.values() == lines.splitlines()[: int(match[1])]


def test_a_full_disk_is_one_line_and_a_closed_output_no_failure(records: Records) -> None:
    records.done("produce", "t", stdin=b"line\n" * 100_000)
    for command in ("consume t --until-end", "topic list"):
        for redirection, expected in (
            (">/dev/full", (1, b"kwire: standard output: No space left on device\n")),
            (">&-", (0, b"")),
        ):
            words = f"{sys.executable} -m kwire {command} {redirection}"
            done = subprocess.run(
                words, shell=True, check=False, env=records.environment(), capture_output=True, timeout=PATIENCE_S
            )
            assert (done.returncode, done.stderr) == expected, words


def test_standard_input_cannot_be_repeated(records: Records) -> None:
    process = records.begin("produce", "t", "--repeat", "2")
    assert ended(process) == (2, "kwire: --repeat needs files: standard input can be read once\n")


def test_a_closed_pipe_is_no_failure(records: Records) -> None:
    records.done("produce", "t", stdin=b"line\n" * 100_000)
    process = records.begin("consume", "t")
    assert read_lines(process, 1) == [b"line\n"]
    assert process.stdout is not None
    process.stdout.close()
    assert ended(process) == (0, "")


def test_what_was_written_before_the_broker_went_away_is_there(records: Records) -> None:
    process = records.begin("produce", "t", "--timeout", "10")  # they must start within it, on a busy machine too
    consumer = records.begin("consume", "t", "--timeout", "10")
    assert process.stdin is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    assert read_lines(consumer, 1) == [b"first\n"]
    records.broker.process.kill()
    process.stdin.write(b"second\n")
    process.stdin.flush()
    status, line = ended(process)
    assert status == 1 and line.startswith("kwire: 127.0.0.1:") and line.endswith("; 1 record written to t\n"), line
    status, line = ended(consumer)
    assert status == 1 and line.startswith("kwire: 127.0.0.1:"), line
    records.start_broker()
    assert records.values() == [b"first"]


def test_both_go_on_when_the_broker_comes_back(records: Records) -> None:
    process = records.begin("produce", "t")
    consumer = records.begin("consume", "t", "-g", "g", "-n", "2")
    assert process.stdin is not None
    process.stdin.write(b"first\n")
    process.stdin.flush()
    assert read_lines(consumer, 1) == [b"first\n"]
    records.broker.process.kill()
    process.stdin.write(b"second\n")
    process.stdin.flush()
    records.start_broker()
    process.stdin.close()
    assert read_lines(consumer, 1) == [b"second\n"]
    assert ended(process) == ended(consumer) == (0, "")
    assert read_lines(process, 1) == [b"2 records written to t\n"]
    assert records.values() == [b"first", b"second"]
    assert records.done("consume", "t", "-g", "g", "--until-end") == b""

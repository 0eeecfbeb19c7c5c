"""What people meet in their first minutes: files and options as Kafka's scripts take them, and errors that help."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from pathlib import Path

import pytest

from harness.raw_client import RawClient
from kwire.base.doors import Doors
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.cli.conftest import Command, Process

ANY_PORT = ("--listen", "127.0.0.1:0")


def test_a_file_is_named_as_for_kafkas_script(kwire_command: Command, tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("node.id=9\nlistener=x\nlog.retention.hour=5\nmy.plugin.name=y\n")
    process = kwire_command.start("server.properties", *ANY_PORT)
    _, err = process.stop()
    assert "node.id=9" in (tmp_path / "kwire-data" / "meta.properties").read_text()
    assert (
        "properties that Kafka does not know: listener (is listeners meant?), "
        "log.retention.hour (is log.retention.hours meant?), my.plugin.name" in err
    )


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["start", "a.properties", "--config", "b.properties"], 1, "--config=b.properties: there is one file"),
        (["start", "a.properties"], 1, "kwire: a.properties: No such file or directory\n"),
        (["start", *ANY_PORT, "--data-dir", "file"], 1, "file cannot be used: it is a file, not a directory"),
        (["start", *ANY_PORT, "--data-dir", "file/below"], 1, "file/below cannot be used: Not a directory"),
        (["start", *ANY_PORT, "--data-dir", "/proc/none"], 1, "/proc/none cannot be used: "),
        (["start", "--confg", "x"], 2, "kwire: unrecognized arguments: --confg (see kwire start --help)\n"),
        (["ping", "nowhere"], 1, "'nowhere' is not HOST:PORT"),
        (["ping", "127.0.0.1:1"], 1, "kwire: 127.0.0.1:1: Connection refused\n"),
    ],
)
def test_what_is_wrong_is_one_clear_line(
    kwire_command: Command, tmp_path: Path, arguments: list[str], status: int, words: str
) -> None:
    (tmp_path / "file").touch()
    result = kwire_command.run(*arguments)
    assert (result.returncode, result.stdout) == (status, "")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("garbage !!\n", "cluster.id and node.id not found"),
        ("", "cluster.id and node.id not found"),
        ("version=1\ncluster.id=abc\n", "node.id not found"),
        ("version=1\nnode.id=1\n", "cluster.id not found"),
        ("version=x\ncluster.id=abc\nnode.id=1\n", "invalid literal"),
        ("version=2\ncluster.id=abc\nnode.id=1\n", "version 2 is newer"),
    ],
)
def test_a_meta_properties_that_no_broker_has_written_is_refused(
    kwire_command: Command, tmp_path: Path, text: str, words: str
) -> None:
    """Kafka refuses these as well; a directory with such a file is damaged, or somebody else's."""
    (tmp_path / "kwire-data").mkdir()
    (tmp_path / "kwire-data" / "meta.properties").write_text(text)
    result = kwire_command.run("start", *ANY_PORT)
    assert result.returncode == 1
    assert "meta.properties: " in result.stderr and words in result.stderr
    assert (tmp_path / "kwire-data" / "meta.properties").read_text() == text


@pytest.mark.parametrize(("listen", "host"), [("localhost:0", "localhost"), (":0", "localhost"), ("0", "localhost")])
def test_the_host_is_told_as_it_was_given(kwire_command: Command, listen: str, host: str) -> None:
    process = kwire_command.start("--listen", listen)
    assert process.host == host
    process.stop()


def test_the_port_in_use_is_named(kwire_command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = kwire_command.run("start", "--listen", f"127.0.0.1:{port}")
    assert result.returncode == 1
    assert result.stderr == f"kwire: listeners=PLAINTEXT://127.0.0.1:{port}: cannot listen: Address already in use\n"


def test_a_topic_that_is_created_is_logged(kwire_command: Command) -> None:
    process = kwire_command.start(*ANY_PORT)
    asyncio.run(create(process, "orders", 3))
    _, err = process.stop()
    (line,) = [json.loads(line) for line in err.splitlines() if "topic created" in line and "kwire.audit" not in line]
    assert (line["level"], line["topic"], line["partitions"]) == ("INFO", "orders", 3)
    assert len(line["topic_id"]) == 22


async def create(process: Process, name: str, partitions: int) -> None:
    async with await RawClient.connect(Doors(), process.host, process.port) as client:
        for validate_only in (True, False):
            topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
            answer = await client.call(CreateTopicsRequest(topics=[topic], validate_only=validate_only), 5)
            assert not answer.topics[0].error_code


def test_lines_that_others_wait_for_follow_the_ready_line(kwire_command: Command) -> None:
    lines = ("--announce", "[KafkaServer id={node.id}] started", "--announce", "there")
    process = kwire_command.start(*ANY_PORT, "--set", "node.id=4", *lines)
    assert process.process.stdout is not None
    told = [process.process.stdout.readline() for _ in range(2)]
    assert told == ["[KafkaServer id=4] started\n", "there\n"]
    process.stop()


def test_ping_tells_a_broker_from_what_is_none(kwire_command: Command) -> None:
    process = kwire_command.start(*ANY_PORT)
    answer = kwire_command.run("ping", process.bootstrap, "--wait", "60")
    assert answer.returncode == 0
    assert answer.stdout.startswith(f"{process.bootstrap} is a Kafka broker with ")
    process.stop()
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = "{}:{}".format(*other.getsockname())

        def answer_nonsense() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer_nonsense)
        thread.start()
        refused = kwire_command.run("ping", address)
        thread.join()
    assert (refused.returncode, refused.stderr) == (1, f"kwire: {address}: the server there is not a Kafka broker\n")


@pytest.mark.parametrize("command", [["cluster", "status"], ["ping"]])
def test_a_reader_that_has_seen_enough_is_no_trouble(kwire_command: Command, command: list[str]) -> None:
    process = kwire_command.start(*ANY_PORT)
    told = kwire_command.popen("-m", "kwire", *command, process.bootstrap)
    assert told.stdout is not None
    assert told.stderr is not None
    told.stdout.close()  # before anything is printed
    assert (told.wait(30), told.stderr.read()) == (0, "")
    process.stop()

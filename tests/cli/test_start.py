"""``kwire start`` as scripts see it: one line on standard output, exit statuses, signals, sources of properties."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from harness.raw_client import RawClient
from harness.waiting import PATIENCE_S
from kwire import __version__
from kwire.base.doors import Doors
from kwire.cli import main
from kwire.cli.start import DESCRIPTORS
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codec.messages.metadata_request import MetadataRequest
from tests.cli.conftest import Command, Process

ANY_PORT = ("--listen", "127.0.0.1:0")


def metadata(process: Process) -> object:
    async def ask() -> object:
        async with await RawClient.connect(Doors(), process.host, process.port) as client:
            return await client.call(MetadataRequest(topics=[]), 12)

    return asyncio.run(ask())


def test_ready_line_is_all_there_is_on_standard_output(kwire_command: Command) -> None:
    process = kwire_command.start(*ANY_PORT, "--data-dir", "data")
    answer = metadata(process)
    assert [broker.port for broker in answer.brokers] == [process.port]  # type: ignore[attr-defined]
    out, err = process.stop()
    assert out == ""
    for line in err.splitlines():
        json.loads(line)
    assert (kwire_command.directory / "data" / "meta.properties").exists()
    assert (kwire_command.directory / "data" / ".kafka_cleanshutdown").exists()


def test_data_lives_in_kwire_data_unless_told_otherwise(kwire_command: Command) -> None:
    kwire_command.start(*ANY_PORT).stop()
    assert (kwire_command.directory / "kwire-data" / "meta.properties").exists()


def test_properties_come_from_command_line_environment_and_file_in_this_order(kwire_command: Command) -> None:
    (kwire_command.directory / "server.properties").write_text(
        "node.id=5\nlog.dirs=from-file\nnum.partitions=3\nlisteners=PLAINTEXT://127.0.0.1:0\n"
    )
    process = kwire_command.start(
        "--config", "server.properties", "--set", "log.dirs=from-line", KAFKA_LOG_DIRS="from-env", KAFKA_NODE_ID="6"
    )
    answer = metadata(process)
    process.stop()
    assert answer.brokers[0].node_id == 6  # type: ignore[attr-defined]
    assert (kwire_command.directory / "from-line").is_dir()
    assert not (kwire_command.directory / "from-file").exists() and not (kwire_command.directory / "from-env").exists()


def test_the_cluster_id_of_the_environment_founds_a_cluster_and_guards_it(kwire_command: Command) -> None:
    kwire_command.start(*ANY_PORT, CLUSTER_ID="MkU3OEVBNTcwNTJENDM2Qg").stop()
    meta = (kwire_command.directory / "kwire-data" / "meta.properties").read_text()
    assert "cluster.id=MkU3OEVBNTcwNTJENDM2Qg" in meta
    refused = kwire_command.run("start", *ANY_PORT, CLUSTER_ID="AAAAAAAAAAAAAAAAAAAAAA")
    assert refused.returncode == 1
    assert "MkU3OEVBNTcwNTJENDM2Qg" in refused.stderr and refused.stderr.count("\n") == 1


def test_a_directory_keeps_its_node_id(kwire_command: Command) -> None:
    kwire_command.start(*ANY_PORT, "--set", "node.id=7").stop()
    process = kwire_command.start(*ANY_PORT)
    assert metadata(process).brokers[0].node_id == 7  # type: ignore[attr-defined]
    process.stop()
    refused = kwire_command.run("start", *ANY_PORT, "--set", "node.id=8")
    assert refused.returncode == 1
    assert "node.id=8" in refused.stderr and "7" in refused.stderr and refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["start", "--set", "num.partitions=none"], 1, ["num.partitions", "none", "between 1 and 2147483647"]),
        (["start", "--set", "listeners=SSL://localhost:0"], 1, ["ssl.keystore.location", "listener SSL"]),
        (["start", "--listen", "127.0.0.1:0", "--config", "missing.properties"], 1, ["missing.properties"]),
        (["start", "--set", "novalue"], 2, ["novalue", "NAME=VALUE"]),
        (["start", "--listen", "nowhere"], 2, ["nowhere", "HOST:PORT"]),
        (["start", "--unknown"], 2, ["--unknown"]),
        (["nonsense"], 2, ["nonsense"]),
        ([], 2, ["start"]),
        (["adopt", "missing"], 1, ["missing"]),
    ],
)
def test_what_is_wrong_is_said_on_standard_error(
    kwire_command: Command, arguments: list[str], status: int, words: list[str]
) -> None:
    result = kwire_command.run(*arguments)
    assert result.returncode == status
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert all(word in result.stderr for word in words), result.stderr
    if status == 1:
        assert result.stderr.count("\n") == 1


def test_closed_standard_streams_are_not_taken_for_sockets_and_segments(kwire_command: Command, tmp_path: Path) -> None:
    closing = "import os, sys; os.closerange(0, 3); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    process = kwire_command.popen("-c", closing, "-m", "kwire", "start", *ANY_PORT, "--set", "unknown.name=1")
    deadline = time.monotonic() + PATIENCE_S
    while not (tmp_path / "kwire-data" / "meta.properties").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    for descriptor in range(3):
        assert os.readlink(f"/proc/{process.pid}/fd/{descriptor}") == os.devnull
    process.terminate()
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the size of the table is Linux's")
def test_the_kernel_has_room_for_many_connections_from_the_start(kwire_command: Command) -> None:
    # To make room later makes every client wait: see kwire.cli.start._grow_descriptor_table.
    process = kwire_command.start(*ANY_PORT)
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    limits = Path(f"/proc/{process.process.pid}/limits").read_text()
    limit = re.search(r"Max open files\s+(\d+)", limits)
    size = re.search(r"FDSize:\s+(\d+)", status)
    assert limit is not None and size is not None
    assert int(size[1]) >= min(int(limit[1]), DESCRIPTORS)


def test_clients_are_served_even_if_nobody_reads_the_ready_line(kwire_command: Command) -> None:
    full = "import os, sys; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); "
    command = "from kwire.cli import main; sys.exit(main(sys.argv[1:]))"
    process = kwire_command.popen("-c", full + command, "start", *ANY_PORT)
    assert process.stderr is not None
    assert json.loads(process.stderr.readline())["event"] == "standard output takes no ready line"
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, "Traceback" in err) == (0, "", False)


def test_version(kwire_command: Command) -> None:
    result = kwire_command.run("--version")
    assert (result.returncode, result.stdout) == (0, f"kwire {__version__}\n")


@pytest.mark.parametrize("listen", ["[::1]:0", "::1:0"])
def test_ipv6(kwire_command: Command, listen: str) -> None:
    process = kwire_command.start("--listen", listen)
    assert process.host == "[::1]"
    process.host = "::1"
    assert metadata(process).brokers[0].host == "::1"  # type: ignore[attr-defined]
    process.stop()


def test_asyncio_does_where_uvloop_is_missing(kwire_command: Command) -> None:
    code = "import sys; sys.modules['uvloop'] = None; from kwire.cli import main; sys.exit(main(sys.argv[1:]))"
    process = kwire_command.start_python("-c", code, "start", *ANY_PORT)
    assert metadata(process).brokers  # type: ignore[attr-defined]
    process.stop()


def test_a_second_broker_on_the_same_directory_or_port_is_refused(kwire_command: Command) -> None:
    first = kwire_command.start(*ANY_PORT)
    second = kwire_command.run("start", *ANY_PORT)
    assert second.returncode == 1 and "kwire-data" in second.stderr
    third = kwire_command.run("start", "--listen", first.bootstrap, "--data-dir", "other")
    assert third.returncode == 1 and str(first.port) in third.stderr
    first.stop()


def test_sigterm_answers_the_members_of_groups(kwire_command: Command) -> None:
    process = kwire_command.start(*ANY_PORT, "--set", "group.initial.rebalance.delay.ms=60000")

    async def join() -> tuple[int, int]:
        async with await RawClient.connect(Doors(), process.host, process.port) as client:
            await coordinator_is_there(client)
            protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
            request = JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=protocols,
            )
            refused = await client.call(request, 9)
            request.member_id = refused.member_id
            pending = client.post(request, 9)
            await client_is_parked(process)
            process.process.terminate()
            return refused.error_code, (await pending).error_code

    refused, told = asyncio.run(join())
    assert refused == 79  # MEMBER_ID_REQUIRED
    assert told in (15, 16)  # COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
    assert process.process.wait(PATIENCE_S) == 0


async def coordinator_is_there(client: RawClient) -> None:
    """The first look-up creates the topic of the groups; ask until it says where."""
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    while (await client.call(request, 4)).coordinators[0].error_code:  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def client_is_parked(process: Process) -> None:
    """Wait until another connection sees the member: then its request has been taken."""
    from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest

    async with await RawClient.connect(Doors(), process.host, process.port) as client:
        while True:
            described = await client.call(DescribeGroupsRequest(groups=["g"]), 5)
            if described.groups[0].group_state == "PreparingRebalance":
                return
            await asyncio.sleep(0.01)


async def until_full(fd: int) -> None:
    """Wait until what a socket has received no longer grows."""
    received, same = b"", 0
    async with asyncio.timeout(PATIENCE_S):
        while same < 25:
            await asyncio.sleep(0.02)
            found = fcntl.ioctl(fd, termios.FIONREAD, bytes(4))
            same = same + 1 if any(found) and found == received else 0
            received = found


def test_a_second_signal_ends_at_once(kwire_command: Command) -> None:
    long = "from kwire.server import lifecycle; lifecycle.DRAIN_S = 600.0; "  # this test may stand still for a while
    code = "import sys; from kwire.cli import main; sys.exit(main(sys.argv[1:]))"
    process = kwire_command.start_python("-c", long + code, "start", *ANY_PORT)

    async def hold() -> int:
        """A client that asks for much and reads nothing keeps a stopping broker waiting."""
        async with await RawClient.connect(Doors(), process.host, process.port) as client:
            body = struct.pack(">hhih", 18, 0, 1, -1)
            asyncio.get_running_loop().remove_reader(client._socket.fileno())
            for _ in range(20_000):
                client.send_bytes((struct.pack(">i", len(body)) + body) * 10)
            await until_full(client._socket.fileno())
            process.send(signal.SIGINT)
            stream = process.process.stderr
            assert stream is not None
            while json.loads(await asyncio.to_thread(stream.readline))["event"] != "stopping":
                pass
            await asyncio.sleep(0.3)
            assert process.process.poll() is None
            process.send(signal.SIGTERM)
            return await asyncio.to_thread(process.process.wait, PATIENCE_S)

    # By the handler, or by the signal's default action in the instant between the loop's end and the process's.
    assert asyncio.run(hold()) in (128 + signal.SIGTERM, -signal.SIGTERM)


def test_sigusr1_writes_down_what_goes_on(kwire_command: Command) -> None:
    process = kwire_command.start(*ANY_PORT)

    async def look() -> None:
        async with await RawClient.connect(Doors(), process.host, process.port) as client:
            await client.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
            process.send(signal.SIGUSR1)
            stream = process.process.stderr
            assert stream is not None
            lines: list[dict[str, Any]] = []
            while not lines or lines[-1]["event"] != "dump complete":
                lines.append(json.loads(await asyncio.to_thread(stream.readline)))
        events = {line["event"] for line in lines}
        assert {"task", "connection", "metric"} <= events
        (connection,) = [line for line in lines if line["event"] == "connection"]
        assert connection["software"] == "test 1"

    asyncio.run(look())
    process.stop()


def test_importing_kwire_is_cheap() -> None:
    code = "import sys, kwire; print([name for name in sys.modules if name.startswith('kwire.') or name == 'asyncio'])"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout == "[]\n"


def test_the_version_is_the_packages() -> None:
    """The version is written down once, in `kwire/__init__.py`; the build reads it from there."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    project = tomllib.loads(text)
    assert project["project"]["dynamic"] == ["version"] and "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "kwire/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_windows_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(["start"]) == 1
    assert "Windows" in capsys.readouterr().err

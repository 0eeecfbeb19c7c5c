"""``kwire user``: users who exist before the first broker starts."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from harness.wire_client import WireClient
from kwire.codec.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from tests.cli.conftest import Command


def add(command: Command, name: str, *arguments: str, stdin: str = "secret\n") -> subprocess.CompletedProcess[str]:
    """``kwire user add`` with a password on standard input."""
    return subprocess.run(
        [sys.executable, "-m", "kwire", "user", "add", name, "--data-dir", "data", *arguments],
        cwd=command.directory,
        env=command.environment(),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def store_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("kwire-store*")))


def test_a_user_that_was_added_before_the_first_start_is_in_the_cluster(kwire_command: Command) -> None:
    added = add(kwire_command, "alice", stdin="planted-secret\n")
    assert (added.returncode, added.stdout.splitlines(), added.stderr) == (
        0,
        [
            "kwire added user=alice mechanism=SCRAM-SHA-256",
            "kwire added user=alice mechanism=SCRAM-SHA-512",
        ],
        "",
    )
    assert add(kwire_command, "bob", "--mechanism", "SCRAM-SHA-512", "--iterations", "9000").returncode == 0
    data = kwire_command.directory / "data"
    assert stat.S_IMODE((data / "kwire-store.sqlite").stat().st_mode) == 0o600
    assert b"planted-secret" not in store_bytes(data)
    process = kwire_command.start("--listen", "127.0.0.1:0", "--data-dir", "data")
    with WireClient(process.bootstrap) as client:
        results = client.call(DescribeUserScramCredentialsRequest(users=None), 0).results
    users = {each.user: [(info.mechanism, info.iterations) for info in each.credential_infos] for each in results}
    assert users == {"alice": [(1, 4096), (2, 4096)], "bob": [(2, 9000)]}
    process.stop()


def test_users_are_listed_changed_and_deleted(kwire_command: Command) -> None:
    add(kwire_command, "alice")
    before = store_bytes(kwire_command.directory / "data")
    add(kwire_command, "alice", "--mechanism", "SCRAM-SHA-256", "--password", "other")
    assert store_bytes(kwire_command.directory / "data") != before
    listed = kwire_command.run("user", "list", "--data-dir", "data")
    assert listed.stdout == "alice SCRAM-SHA-256 iterations=4096\nalice SCRAM-SHA-512 iterations=4096\n"
    deleted = kwire_command.run("user", "delete", "alice", "--data-dir", "data", "--mechanism", "SCRAM-SHA-256")
    assert deleted.stdout == "kwire deleted user=alice mechanism=SCRAM-SHA-256\n"
    assert kwire_command.run("user", "delete", "alice", "--data-dir", "data").returncode == 0
    again = kwire_command.run("user", "delete", "alice", "--data-dir", "data")
    assert (again.returncode, again.stderr) == (1, "kwire: the user 'alice' has no such credential\n")
    assert kwire_command.run("user", "list", "--data-dir", "data").stdout == ""


def test_a_directory_that_a_broker_uses_is_refused_in_one_line(kwire_command: Command) -> None:
    process = kwire_command.start("--listen", "127.0.0.1:0", "--data-dir", "data")
    for arguments in (("add", "alice", "--password", "x"), ("delete", "alice"), ("list",)):
        refused = kwire_command.run("user", *arguments, "--data-dir", "data")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("kwire: another process uses the data directory data")
        assert "name a broker with --bootstrap-server" in refused.stderr
        assert refused.stderr.count("\n") == 1
    process.stop()


def test_a_password_comes_from_a_file_or_standard_input(kwire_command: Command) -> None:
    (kwire_command.directory / "password").write_bytes(b"from a file\r\n")
    assert add(kwire_command, "a", "--password-file", "password", stdin="").returncode == 0
    assert add(kwire_command, "b", "--password-file", "-").returncode == 0
    missing = add(kwire_command, "c", "--password-file", "nowhere")
    assert (missing.returncode, missing.stderr) == (1, "kwire: nowhere: No such file or directory\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "reason"),
    [
        (("alice",), "", "the password is empty"),
        (("alice",), "\n", "the password is empty"),
        (("",), "x", "Username must not be empty"),
        (("x" * 2000,), "x", "Username is too long"),
        (("alice", "--iterations", "4095"), "x", "Too few iterations"),
        (("alice", "--iterations", "16385"), "x", "Too many iterations"),
        (("alice", "--set", "num.partitions=x"), "x", "num.partitions"),
    ],
)
def test_what_cannot_be_a_user_is_refused_in_one_line(
    kwire_command: Command, arguments: tuple[str, ...], stdin: str, reason: str
) -> None:
    refused = add(kwire_command, *arguments, stdin=stdin)
    assert refused.returncode == 1
    assert reason in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_directory_without_a_store_has_no_users_to_list(kwire_command: Command) -> None:
    refused = kwire_command.run("user", "list", "--data-dir", "nowhere")
    assert (refused.returncode, refused.stderr) == (1, "kwire: nowhere has no metadata store\n")
    assert not (kwire_command.directory / "nowhere").exists()


def test_no_listeners_are_needed_to_add_users_in_zookeeper(kwire_command: Command) -> None:
    nowhere = ("--set", "zookeeper.connect=localhost:1", "--set", "zookeeper.connection.timeout.ms=100")
    refused = add(kwire_command, "alice", *nowhere)
    assert refused.returncode == 1
    assert "localhost:1" in refused.stderr
    assert "listeners" not in refused.stderr


def test_a_store_of_several_brokers_is_changed_while_they_run(kwire_command: Command) -> None:
    shared = ("--set", "kwire.metadata.dir=shared")
    assert add(kwire_command, "alice", *shared).returncode == 0
    process = kwire_command.start("--listen", "127.0.0.1:0", "--data-dir", "data", *shared)
    assert add(kwire_command, "bob", *shared).returncode == 0
    listed = kwire_command.run("user", "list", "--data-dir", "data", *shared)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["alice", "alice", "bob", "bob"]
    process.stop()

"""``kwire quota``: quotas that exist before the first broker starts."""

from __future__ import annotations

import json

import pytest

from harness.wire_client import WireClient
from kwire.codec.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from tests.cli.conftest import Command

STORE = ("--data-dir", "data")
RATE = "producer_byte_rate"


def done(command: Command, *arguments: str) -> list[str]:
    finished = command.run("quota", *arguments, *STORE)
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout.splitlines()


def rows(command: Command, *arguments: str) -> list[list[str]]:
    """The rows of the table, without its heading."""
    return [line.split() for line in done(command, "list", *arguments)[1:]]


def test_quotas_that_were_added_before_the_first_start_are_the_clusters(kwire_command: Command) -> None:
    done(kwire_command, "add", "--user", "alice", f"{RATE}=1048576")
    process = kwire_command.start("--listen", "127.0.0.1:0", *STORE)
    with WireClient(process.bootstrap) as client:
        (entry,) = client.call(DescribeClientQuotasRequest(), 1).entries
    process.stop()
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("user", "alice")]
    assert [(each.key, each.value) for each in entry.values] == [(RATE, 1048576.0)]


def test_what_was_added_is_shown(kwire_command: Command) -> None:
    lines = done(kwire_command, "add", "--default-user", "--client-id", "a b", f"{RATE}=1e6", "request_percentage=0.5")
    assert lines == [
        "kwire added user=(default) client-id=a b producer_byte_rate=1000000",
        "kwire added user=(default) client-id=a b request_percentage=0.5",
    ]


def test_a_table_and_json_show_the_limits_until_they_are_removed(kwire_command: Command) -> None:
    done(kwire_command, "add", "--user", "alice", f"{RATE}=5", "request_percentage=50")
    done(kwire_command, "add", "--user", "alice", f"{RATE}=7")
    done(kwire_command, "add", "--user", "alice", "--default-client-id", f"{RATE}=8")
    done(kwire_command, "add", "--ip", "127.0.0.1", "connection_creation_rate=9")
    alice = [["alice", "-", "-", RATE, "7"], ["alice", "-", "-", "request_percentage", "50"]]
    both = ["alice", "(default)", "-", RATE, "8"]
    address = ["-", "-", "127.0.0.1", "connection_creation_rate", "9"]
    assert rows(kwire_command) == [address, *alice, both]
    assert rows(kwire_command, "--user", "alice") == [*alice, both]
    assert rows(kwire_command, "--default-client-id") == [both]
    output = json.loads("\n".join(done(kwire_command, "list", "--user", "alice", "--json")))
    assert output == [
        {"user": "alice", "quotas": {RATE: 7.0, "request_percentage": 50.0}},
        {"client-id": None, "user": "alice", "quotas": {RATE: 8.0}},
    ]
    assert done(kwire_command, "remove", "--user", "alice", RATE) == [f"kwire removed user=alice {RATE}=7"]
    assert done(kwire_command, "remove", "--user", "alice", RATE) == []
    assert rows(kwire_command, "--user", "alice") == [alice[1], both]
    assert done(kwire_command, "remove", "--user", "alice") == ["kwire removed user=alice request_percentage=50"]
    assert rows(kwire_command) == [address, both]
    assert done(kwire_command, "remove", "--ip", "127.0.0.1") != []
    assert done(kwire_command, "remove", "--user", "alice", "--default-client-id") != []
    assert done(kwire_command, "list") == []


@pytest.mark.parametrize(
    ("arguments", "text", "status"),
    [
        (("add", f"{RATE}=1"), "say whose quota it is: --user, --client-id, --ip", 2),
        (("remove",), "say whose quota it is", 2),
        (("add", "--user", "", f"{RATE}=1"), "Empty user not supported", 1),
        (("add", "--user", "a", f"{RATE}=0"), f"Quota {RATE} must be greater than 0", 1),
        (("add", "--user", "a", f"{RATE}=1.5"), f"{RATE} cannot be a fractional value.", 1),
        (("add", "--user", "a", "speed=1"), "Invalid configuration key speed", 1),
        (("add", "--user", "a", "connection_creation_rate=1"), "Invalid configuration key connection_creation_rate", 1),
        (("add", "--ip", "localhost", "connection_creation_rate=1"), "localhost is not a valid IP", 1),
        (("add", "--ip", "::1", "--default-user", f"{RATE}=1"), "Invalid quota entity combination", 1),
        (("remove", "--user", "a", "speed"), "there is no quota 'speed': producer_byte_rate, consumer_byte_rate,", 2),
        (("list",), "data has no metadata store", 1),
    ],
)
def test_mistakes_are_one_line(kwire_command: Command, arguments: tuple[str, ...], text: str, status: int) -> None:
    refused = kwire_command.run("quota", *arguments, *STORE)
    assert refused.returncode == status
    assert text in refused.stderr
    assert refused.stderr.startswith("kwire: ")
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize("text", [RATE, f"{RATE}=", f"{RATE}=fast", f"{RATE}=nan", f"{RATE}=inf"])
def test_a_limit_is_a_number(kwire_command: Command, text: str) -> None:
    refused = kwire_command.run("quota", "add", "--user", "a", text, *STORE)
    assert refused.returncode == 2
    assert f"'{text}' is not QUOTA=LIMIT, such as producer_byte_rate=1048576" in refused.stderr


def test_a_running_broker_keeps_its_store(kwire_command: Command) -> None:
    process = kwire_command.start("--listen", "127.0.0.1:0", *STORE)
    refused = kwire_command.run("quota", "add", "--user", "a", f"{RATE}=1", *STORE)
    process.stop()
    assert refused.returncode == 1
    assert "to change a running cluster, name a broker with --bootstrap-server" in refused.stderr

"""``kwire acl``: access control entries that exist before the first broker starts."""

from __future__ import annotations

import json

import pytest

from harness.wire_client import WireClient
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.cli.conftest import Command

STORE = ("--data-dir", "data")
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def add(command: Command, *arguments: str) -> list[str]:
    added = command.run("acl", "add", *arguments, *STORE)
    assert (added.returncode, added.stderr) == (0, "")
    return added.stdout.splitlines()


def listed(command: Command, *arguments: str) -> list[list[str]]:
    """The rows of the table, without its heading."""
    output = command.run("acl", "list", *arguments, *STORE)
    assert output.returncode == 0, output.stderr
    return [line.split() for line in output.stdout.splitlines()[1:]]


def test_entries_that_were_added_before_the_first_start_decide(kwire_command: Command) -> None:
    add(kwire_command, "User:ANONYMOUS", "--operation", "describe", "--topic", "orders")
    process = kwire_command.start("--listen", "127.0.0.1:0", *STORE, "--set", AUTHORIZER)
    with WireClient(process.bootstrap) as client:
        topics = [MetadataRequestTopic(name=name) for name in ("orders", "others")]
        answer = client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
    process.stop()
    assert {each.name: each.error_code for each in answer.topics} == {"orders": 3, "others": 29}


def test_what_was_added_is_shown(kwire_command: Command) -> None:
    lines = add(kwire_command, "User:a", "--operation", "read", "--operation", "alter-configs", "--topic", "t")
    assert lines == [
        "kwire added principal=User:a host=* permission=allow operation=read resource=topic pattern=literal name=t",
        "kwire added principal=User:a host=* permission=allow operation=alter-configs resource=topic pattern=literal"
        " name=t",
    ]


def test_a_table_and_json_show_the_entries_until_they_are_removed(kwire_command: Command) -> None:
    add(kwire_command, "User:a", "--operation", "read", "--topic", "t", "--group", "g")
    add(kwire_command, "User:b", "--operation", "all", "--topic", "t", "--prefixed", "--deny", "--host", "::1")
    assert add(kwire_command, "User:a", "--operation", "read", "--topic", "t") == []
    rows = listed(kwire_command)
    assert rows == [
        ["User:a", "*", "allow", "read", "topic", "literal", "t"],
        ["User:b", "0:0:0:0:0:0:0:1", "deny", "all", "topic", "prefixed", "t"],
        ["User:a", "*", "allow", "read", "group", "literal", "g"],
    ]
    assert listed(kwire_command, "User:b") == rows[1:2]
    assert listed(kwire_command, "--topic", "t", "--prefixed") == rows[1:2]
    assert listed(kwire_command, "--group", "g") == rows[2:]
    assert listed(kwire_command, "--deny") == rows[1:2]
    output = json.loads(kwire_command.run("acl", "list", "--json", *STORE).stdout)
    assert [list(each.values()) for each in output] == rows
    assert list(output[0]) == ["principal", "host", "permission", "operation", "resource", "pattern", "name"]
    removed = kwire_command.run("acl", "remove", "User:a", "--topic", "t", *STORE)
    assert removed.stdout.startswith("kwire removed principal=User:a ")
    assert listed(kwire_command) == rows[1:]
    assert kwire_command.run("acl", "remove", "--all", *STORE).returncode == 0
    assert listed(kwire_command) == []


@pytest.mark.parametrize(
    ("arguments", "text", "status"),
    [
        (("add", "alice", "--operation", "read", "--topic", "t"), "'alice' is not a principal such as User:alice", 2),
        (("add", "User:a", "--topic", "t"), "name at least one resource (--topic, --group, --cluster, ...) and one", 2),
        (("add", "User:a", "--operation", "read"), "name at least one resource", 2),
        (("add", "User:a", "--operation", "fly", "--topic", "t"), "there is no operation 'fly': all, read, write,", 2),
        (("add", "User:a", "--operation", "any", "--topic", "t"), "there is no operation 'any'", 2),
        (("add", "User:a", "--operation", "create-tokens", "--topic", "t"), "no operation create-tokens on a topic", 2),
        (("add", "User:a", "--operation", "read", "--topic", ""), "Invalid empty resource name", 1),
        (("add", "User:a", "--operation", "read", "--topic", "t", "--host", "h"), "'h' is no address", 2),
        (("remove",), "name the entries to remove, or give --all", 2),
        (("list", "--topic", "t"), "data has no metadata store", 1),
    ],
)
def test_mistakes_are_one_line(kwire_command: Command, arguments: tuple[str, ...], text: str, status: int) -> None:
    refused = kwire_command.run("acl", *arguments, *STORE)
    assert refused.returncode == status
    assert text in refused.stderr
    assert refused.stderr.startswith("kwire: ")
    assert refused.stderr.count("\n") == 1


def test_a_running_broker_keeps_its_store(kwire_command: Command) -> None:
    process = kwire_command.start("--listen", "127.0.0.1:0", *STORE)
    refused = kwire_command.run("acl", "add", "User:a", "--operation", "read", "--topic", "t", *STORE)
    process.stop()
    assert refused.returncode == 1
    assert "to change a running cluster, name a broker with --bootstrap-server" in refused.stderr

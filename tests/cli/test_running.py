"""Commands on a running cluster: addresses that do not answer, and options that contradict each other."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Command


def refused(command: Command, *arguments: str) -> str:
    """The one line that the command says about its failure."""
    done = command.run(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
    return done.stderr.removeprefix("kwire: ").strip()


@pytest.fixture
def silent() -> Iterator[str]:
    """An address whose listener never answers; the connection is accepted by the kernel."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_cluster_without_an_authorizer_says_so(kwire_command: Command) -> None:
    process = kwire_command.start("--listen", "127.0.0.1:0", "--data-dir", "data")
    said = refused(kwire_command, "acl", "list", "--bootstrap-server", process.bootstrap)
    process.stop()
    assert said == "access control entries: No Authorizer is configured on the broker (SECURITY_DISABLED)"


def test_the_first_address_that_answers_is_taken(kwire_command: Command) -> None:
    process = kwire_command.start("--listen", "127.0.0.1:0", "--data-dir", "data")
    both = f"127.0.0.1:1, {process.bootstrap}"
    listed = kwire_command.run("user", "list", "--bootstrap-server", both)
    process.stop()
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, "", "")


def test_an_address_without_an_answer_is_one_line(kwire_command: Command, silent: str) -> None:
    nobody = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "0.5")  # it is asked again until then
    assert refused(kwire_command, "acl", "list", *nobody) == "127.0.0.1:1: Connection refused"
    waiting = ("--bootstrap-server", silent, "--timeout", "0.2")
    assert refused(kwire_command, "user", "list", *waiting) == f"{silent}: no answer within 0.2 s"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--bootstrap-server", "nowhere:x"), "nowhere:x"),
        (("--bootstrap-server", "a:1", "--data-dir", "data"), "--bootstrap-server names a running cluster"),
        (("--bootstrap-server", "a:1", "--command-config", "missing"), "missing: No such file or directory"),
        (("--command-config", "/dev/null"), "name it with --bootstrap-server"),
        (("-X", "client.id=me"), "name it with --bootstrap-server"),
    ],
)
def test_contradictions_and_mistakes_are_one_line(
    kwire_command: Command, arguments: tuple[str, ...], text: str
) -> None:
    for command in ("acl", "user", "quota"):
        assert text in refused(kwire_command, command, "list", *arguments)


def test_a_cluster_may_be_named_by_the_environment_and_a_store_by_an_option(
    kwire_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = kwire_command.start("--listen", "127.0.0.1:0", "--data-dir", "data")
    monkeypatch.setenv("KWIRE_BOOTSTRAP_SERVER", process.bootstrap)
    for command in (("user", "add", "alice", "--password", "secret"), ("ping",), ("cluster",)):
        done = kwire_command.run(*command)
        assert (done.returncode, done.stderr) == (0, ""), command
    assert kwire_command.run("user", "list").stdout.startswith("alice SCRAM-SHA-256")
    assert kwire_command.run("user", "list", "--data-dir", "other").stdout == ""
    process.stop()


@pytest.mark.parametrize("command", [("topic", "list"), ("acl", "list"), ("group", "lag", "g"), ("cluster", "status")])
def test_an_unknown_option_is_one_line_that_names_the_help_of_the_action(
    kwire_command: Command, command: tuple[str, ...]
) -> None:
    done = kwire_command.run(*command, "--no-such-option")
    name = "cluster" if command[0] == "cluster" else " ".join(command[:2])
    line = f"kwire: unrecognized arguments: --no-such-option (see kwire {name} --help)\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)

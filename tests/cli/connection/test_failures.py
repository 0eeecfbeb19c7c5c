"""Whatever goes wrong on the way to a cluster is one line, and the right status."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from kwire.cli import main
from kwire.testing.process import KwireProcess
from kwire.testing.secured import SecuredProcess

COMMANDS = [["topic", "list"], ["group", "list"], ["consume", "t", "--until-end"], ["config", "get", "topic/t"]]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that fails."""
    assert main([*arguments]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("kwire: ") and output.err.count("\n") == 1
    return output.err.removeprefix("kwire: ").rstrip("\n")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_broker_that_is_not_there(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    line = failed(capsys, *command, "-b", "127.0.0.1:1", "--timeout", "0.3")
    assert line == "127.0.0.1:1: Connection refused"


def test_a_host_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    line = failed(capsys, "topic", "list", "-b", "no-such-host.invalid:9092", "--timeout", "0.3")
    assert line.startswith("no-such-host.invalid:9092: ")


def test_an_address_without_a_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert "localhost" in failed(capsys, "topic", "list", "-b", "localhost")


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that answers nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_server_that_does_not_answer(silent: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = failed(capsys, "topic", "list", "-b", silent, "--timeout", "0.5")
    assert line == f"{silent}: no answer within 0.5 s"


def test_a_server_of_another_kind(capsys: pytest.CaptureFixture[str]) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        line = failed(capsys, "topic", "list", "-b", address, "--timeout", "0.5")
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert line.startswith(f"{address}: ")


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredProcess]:
    """A broker with TLS and users."""
    process = SecuredProcess()
    with process:
        yield process
    process.remove_certificates()


def login(secured: SecuredProcess, **changed: str) -> list[str]:
    """Options with librdkafka's names."""
    user, password = next(iter(secured.users.items()))
    properties = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secured.ca_path),
        "sasl.mechanisms": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        **{name.replace("_", "."): value for name, value in changed.items()},
    }
    words = [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]
    return ["-b", secured.bootstrap_servers, *words]


def test_the_right_password_is_let_in(secured: SecuredProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "create", "t", *login(secured)]) == 0
    assert main(["topic", "list", "-o", "jsonl", *login(secured)]) == 0
    assert '"name": "t"' in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_refused_login(command: list[str], secured: SecuredProcess, capsys: pytest.CaptureFixture[str]) -> None:
    line = failed(capsys, *command, *login(secured, sasl_password="planted-wrong-password"))
    assert "login failed" in line and "planted" not in line


def test_a_certificate_that_nobody_has_signed(
    secured: SecuredProcess, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    from kwire.testing.certificates import Authority

    other = Authority(tmp_path_factory.mktemp("other"))
    line = failed(capsys, "topic", "list", *login(secured, ssl_ca_location=str(other.path)))
    assert "certificate" in line.lower()


def test_plaintext_where_tls_is_spoken(secured: SecuredProcess, capsys: pytest.CaptureFixture[str]) -> None:
    line = failed(capsys, "topic", "list", "-b", secured.bootstrap_servers, "--timeout", "0.5")
    assert line.startswith(f"{secured.bootstrap_servers}: ")


def test_tls_where_plaintext_is_spoken(secured: SecuredProcess, capsys: pytest.CaptureFixture[str]) -> None:
    with KwireProcess() as broker:
        words = ["-b", broker.bootstrap_servers, "--timeout", "0.5"]
        line = failed(capsys, "topic", "list", *login(secured)[2:], *words)
    assert line.startswith(f"{broker.bootstrap_servers}: ") or broker.bootstrap_servers == ""


@pytest.mark.parametrize(
    "words",
    [["topic", "list", "--no-such-option"], ["topic", "fold"], ["topic"], ["-X"], ["no-such-command"]],
    ids=" ".join,
)
def test_wrong_usage_has_its_own_status(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.startswith("kwire: ") and output.err.count("\n") == 1

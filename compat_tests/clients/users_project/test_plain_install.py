"""Plain ``pip install kwire``, without extras and without any client: a broker with TLS, logins and ACLs, and commands.

A virtual environment gets the wheel and nothing else. Its ``kwire`` starts a broker whose listener has TLS and the
mechanisms PLAIN and SCRAM, and does what administrators and users do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from harness.downloads import downloaded

COMMAND_S = 60
LOGIN = "org.apache.kafka.common.security.{module} required {options};"
EXTRAS = {"starlette", "uvicorn", "prometheus-client", "kazoo", "gssapi", "opentelemetry-sdk"}


class Site(NamedTuple):
    """An installed kwire, and the broker that it has started."""

    kwire: Path
    home: Path
    bootstrap: str

    def run(self, *words: str, user: str = "admin", given: str = "") -> subprocess.CompletedProcess[str]:
        """A command with a user's login, whatever its result."""
        file = self.home / f"{user}.properties"
        command = [str(self.kwire), *words, "--bootstrap-server", self.bootstrap, "--command-config", str(file)]
        return subprocess.run(
            command, capture_output=True, text=True, input=given, timeout=COMMAND_S, env=environment(), check=False
        )

    def done(self, *words: str, user: str = "admin", given: str = "") -> str:
        """What a command writes that succeeds."""
        ended = self.run(*words, user=user, given=given)
        assert ended.returncode == 0, (words, ended.stderr)
        return ended.stdout


def environment() -> dict[str, str]:
    left_out = ("PYTEST_", "PYTHON", "VIRTUAL_ENV", "KAFKA_", "KWIRE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


@pytest.fixture(scope="module")
def kwire(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment without extras."""
    venv = tmp_path_factory.mktemp("plain") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    downloaded("pip install", [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", str(distributions[1])])
    return venv / "bin" / "kwire"


def client(home: Path, user: str, mechanism: str, module: str) -> None:
    """Write a user's client.properties."""
    login = LOGIN.format(module=module, options=f'username="{user}" password="{user}-secret"')
    lines = [
        "security.protocol=SASL_SSL",
        f"sasl.mechanism={mechanism}",
        f"sasl.jaas.config={login}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={home / 'ca.pem'}",
    ]
    (home / f"{user}.properties").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def site(kwire: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("site")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(home / "ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(home / "broker.pem")
    plain = LOGIN.format(module="plain.PlainLoginModule", options='user_admin="admin-secret"')
    properties = {
        "listeners": "SASL_SSL://localhost:0",
        "log.dirs": str(home / "data"),
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain.replace(
            "user_admin", 'username="admin" password="admin-secret" user_admin'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home / "ca.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    (home / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    client(home, "admin", "PLAIN", "plain.PlainLoginModule")
    client(home, "anna", "SCRAM-SHA-512", "scram.ScramLoginModule")
    with (home / "log").open("w") as log:
        started = subprocess.Popen(
            [str(kwire), "start", str(home / "server.properties")],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
        )
    with started:
        assert started.stdout is not None
        ready = started.stdout.readline()
        assert ready.startswith("kwire ready "), (home / "log").read_text()
        yield Site(kwire, home, ready.split("bootstrap=")[1].split()[0])
        started.send_signal(signal.SIGTERM)
        assert started.wait(COMMAND_S) == 0


def operations(*names: str) -> list[str]:
    """The options of ``kwire acl`` that name operations."""
    return [word for name in names for word in ("--operation", name)]


def test_no_extra_is_installed(kwire: Path) -> None:
    python = kwire.with_name("python")
    listed = subprocess.run(
        [str(python), "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, timeout=60, check=True
    )
    found = {line.partition("==")[0].lower() for line in listed.stdout.split()}
    assert "kwire" in found
    assert found & EXTRAS == set()


def test_topics_users_acls_quotas_messages_and_groups(site: Site) -> None:
    site.done("topic", "create", "orders", "--partitions", "2")
    assert "orders" in site.done("topic", "list")
    ended = site.run("topic", "list", user="anna")
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1

    site.done("user", "add", "anna", "--password-file", "-", given="anna-secret\n")
    assert "anna" in site.done("user", "list")
    refused = site.run("produce", "orders", user="anna", given="a b\n")
    assert refused.returncode == 1
    site.done("acl", "add", "User:anna", *operations("read", "write", "describe"), "--topic", "orders")
    site.done("acl", "add", "User:anna", *operations("read", "describe"), "--group", "billing")
    assert "anna" in site.done("acl", "list")
    site.done("quota", "add", "--user", "anna", "producer_byte_rate=100000000")
    assert "anna" in site.done("quota", "list")

    site.done("produce", "orders", "-k", " ", user="anna", given="a 1\nb 2\n")
    read = site.done("consume", "orders", "--from", "earliest", "--until-end", "-f", "%k=%v\\n", user="anna")
    assert sorted(read.split()) == ["a=1", "b=2"]
    site.done("group", "seek", "billing", "--topic", "orders", "--to", "earliest", "--execute", user="anna")
    assert "orders" in site.done("group", "lag", "billing", user="anna")
    assert "billing" in site.done("group", "list")


@pytest.mark.parametrize("extra", ["console"])
def test_a_command_of_an_extra_says_what_to_install(extra: str, site: Site) -> None:
    ended = subprocess.run([str(site.kwire), extra], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"pip install 'kwire[{extra}]'" in ended.stderr
    assert ended.stderr.count("\n") == 1

"""docs/TLS_AND_SASL.md is correct: its commands, pasted in order into an empty directory, do what it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.clients.security.shell import Shell, blocks_of
from compat_tests.needs import need
from harness.paths import ROOT
from harness.processes.kerberos import REALM, Kerberos, missing
from harness.processes.ports import free_port

pytestmark = pytest.mark.java

PORTS = ("9093", "9094", "9095", "9096", "9191", "9192")
SHOWN = (
    "alice SCRAM-SHA-512",
    "is a Kafka broker",
    "b'hello'",
    "0 records are left",
    "offset 0",
    "hello from the console",
    "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-512=iterations=4096",
    "User:alice",
    "1 brokers:",
    "under-replicated 0   offline 0",
)
"""Texts that the commands print, among others."""


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[Kerberos]:
    need(missing())
    with Kerberos(tmp_path / "realm") as realm:
        yield realm


@pytest.fixture
def shell(tmp_path: Path, realm: Kerberos) -> Iterator[Shell]:
    """In a directory with the keytabs of the guide."""
    directory = tmp_path / "guide"
    directory.mkdir()
    for name in ("kafka", "alice"):
        realm.keytab(name).rename(directory / f"{name}.keytab")
    shell = Shell(directory, realm.environment)
    yield shell
    shell.stop()


def test_the_commands_of_the_guide_work_as_they_are_pasted(shell: Shell) -> None:
    ports = {port: free_port() for port in PORTS}  # a test cannot use fixed ones
    text = (ROOT / "docs" / "TLS_AND_SASL.md").read_text()
    first, second = ports["9191"], ports["9192"]
    text = text.replace("localhost:919$id", f"localhost:$(({first} + ({second} - {first}) * (id - 1)))")
    for port, free in ports.items():
        text = text.replace(f"localhost:{port}", f"localhost:{free}")
    text = text.replace("EXAMPLE.COM", REALM)
    blocks = blocks_of(text)
    assert len(blocks) > 20
    printed = "".join(shell.run(block) for block in blocks)
    assert [each for each in SHOWN if each not in printed] == [], printed

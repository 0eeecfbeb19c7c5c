"""Clients in Go and Node.js log in on secured listeners, or are told why not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from compat_tests.clients.languages import test_go, test_node
from compat_tests.clients.languages.toolchains import RUN_TIMEOUT_S, built, need_tool
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.secured import MECHANISMS, USERS, SecuredBroker

LISTENERS = ["SASL_PLAINTEXT", "SASL_SSL"]
CLIENTS = {  # and what SASL they have by themselves
    "franz": MECHANISMS,
    "sarama": ("PLAIN",),
    "segmentio": ("PLAIN",),
    "kafkajs": MECHANISMS,
}
LOGINS = [
    (client, listener, mechanism)
    for client, mechanisms in CLIENTS.items()
    for listener, mechanism in [("SSL", ""), *((each, name) for each in LISTENERS for name in mechanisms)]
]


def said_by(client: str, broker: SecuredBroker, listener: str, topic: str, *login: str) -> str:
    """What the client's program prints."""
    ca = str(broker.certificates.ca) if listener.endswith("SSL") else ""
    bootstrap = broker.address(listener)
    folder: Path | None = None
    if client == "kafkajs":
        need_tool("node", "npm")
        folder = built("node", test_node.build)
        command = ["node", "login.js", bootstrap, topic, *login, ca]
    else:
        test_go.need_go()
        command = [str(built("go", test_go.build) / "clients"), bootstrap, topic, client, *login, ca]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-3000:]}"
    return done.stdout.strip()


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("client", "listener", "mechanism"), LOGINS)
def test_who_may_produces_and_consumes(
    secured: SecuredBroker, new_name: Names, client: str, listener: str, mechanism: str
) -> None:
    login = (mechanism, "alice", USERS["alice"]) if mechanism else ("", "", "")
    assert said_by(client, secured, listener, new_name("topic"), *login) == "ok login"


@pytest.mark.parametrize(
    ("client", "mechanism"),
    [(client, mechanisms[-1]) for client, mechanisms in CLIENTS.items()],
)
def test_a_wrong_password_is_refused_in_the_same_way(
    secured: SecuredBroker, new_name: Names, observe: Observations, client: str, mechanism: str
) -> None:
    said = said_by(client, secured, "SASL_SSL", new_name("topic"), mechanism, "alice", "wrong")
    assert said.startswith("refused ")
    observe("error", said.replace(secured.address("SASL_SSL"), "the broker"))

"""Passwords and keys in the options of ``format("kwire")`` are in nothing that Spark writes or shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.clients.pyspark.secrets import job
from compat_tests.clients.security.options import options_of
from compat_tests.clients.security.test_logins import security_for
from harness.paths import ROOT
from harness.processes.secured import USERS, SecuredBroker

pytestmark = pytest.mark.java

WRONG = "wrong-and-planted"
TORN = "torn-and-planted"


def test_planted_secrets_are_in_no_plan_log_event_page_or_checkpoint(secured: SecuredBroker, tmp_path: Path) -> None:
    """Of queries that succeed, with a password and a private key, and of those that fail: with a wrong password, and
    with a login that cannot be parsed."""
    if secured.kind != "kwire":
        pytest.skip("what Spark shows does not depend on the broker")
    topic = "planted-orders"  # Spark shows it everywhere, unlike a name in which there is "secret"
    identity = secured.certificates.client
    key = identity.key.read_text()
    login = options_of("java", security_for(secured, "SASL_SSL", "PLAIN", "alice", USERS["alice"]))
    pem = {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": identity.chain.read_text()}
    client = {f"kafka.{name}": value for name, value in {**login, **pem, "ssl.keystore.key": key}.items()}
    jaas = client["kafka.sasl.jaas.config"]
    wrong = jaas.replace(USERS["alice"], WRONG)
    torn = jaas.replace(USERS["alice"], TORN).replace('";', "")
    given = json.dumps([{**client, "kafka.sasl.jaas.config": each} for each in (jaas, wrong, torn)])

    ran = run(given, secured.address("SASL_SSL"), topic, tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    (tmp_path / "printed").write_text(ran.stdout)
    (tmp_path / "log").write_text(ran.stderr)

    planted = [USERS["alice"], WRONG, TORN, *(line for line in key.splitlines() if not line.startswith("-"))]
    assert len(planted) >= 5, "and at least two lines of the key"
    for place in ("printed", "log", "events", "pages", "checkpoint"):
        texts = [each.read_bytes() for each in files_of(tmp_path / place)]
        shown = "BatchScan kwire" if place == "pages" else topic  # PySpark 4.3's pages show no options of streams
        assert any(shown.encode() in text for text in texts), f"nothing of the queries is in {place}"
        found = [secret for secret in planted if any(secret.encode() in text for text in texts)]
        assert found == [], f"in {place}"


def run(given: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program, with its input."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", job.__name__, *map(str, arguments)]
    folder = Path(str(arguments[-1]))
    return subprocess.run(
        command, cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=500, check=False
    )


def files_of(path: Path) -> list[Path]:
    """The file, or all files of the folder."""
    return [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]

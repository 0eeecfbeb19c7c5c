"""`kwire user` on ZooKeeper: the first user exists before the first broker, and brokers that run learn of changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.processes.brokers import KwireBroker, wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest


def kwire_user(*arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "kwire", "user", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=True).stdout


def test_users_are_added_before_the_first_start_and_while_a_broker_runs(connect: str, tmp_path: Path) -> None:
    settings = {"zookeeper.connect": connect}
    file = tmp_path / "server.properties"
    file.write_text(f"zookeeper.connect={connect}\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    kwire_user("add", "alice", "--config", str(file), stdin="secret\n")
    broker = KwireBroker(tmp_path / "broker", settings)
    broker.start()
    try:
        kwire_user("add", "bob", "--mechanism", "SCRAM-SHA-256", "--config", str(file), stdin="secret\n")
        kwire_user("delete", "alice", "--mechanism", "SCRAM-SHA-256", "--config", str(file))
        assert kwire_user("list", "--config", str(file)).splitlines() == [
            "alice SCRAM-SHA-512 iterations=4096",
            "bob SCRAM-SHA-256 iterations=4096",
        ]

        def described() -> dict[str, list[int]]:
            with WireClient(broker.bootstrap) as client:
                results = client.call(DescribeUserScramCredentialsRequest(users=None), 0).results
            return {each.user: [info.mechanism for info in each.credential_infos] for each in results}

        wait_until(lambda: described() == {"alice": [2], "bob": [1]}, 10, "the users in the broker's image")
    finally:
        broker.kill()

"""A broker that starts on an empty directory imports only what it needs before the first request."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, sys
from kwire.server.broker import Broker

async def main(directory):
    async with Broker(log_dir=directory, listeners="PLAINTEXT://127.0.0.1:0"):
        print(*sys.modules)

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    directory: Path = tmp_path_factory.mktemp("data")
    command = [sys.executable, "-c", SCRIPT, str(directory)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "kwire.handlers.data.produce.handler",
        "kwire.handlers.refusals",
        "kwire.handlers.forwarding",
        "kwire.handlers.telemetry.clients",
        "kwire.server.telemetry.exporter",
        "kwire.coordinator.groups.shard",
        "kwire.coordinator.groups.consumer.protocol",
        "kwire.cluster.store.zookeeper.store",
        "structlog",
        "cryptography",
        "jwt",
        "kwire.security.oauth.settings",
        "kwire.security.kerberos",
        "kwire.net.newcomers",
        "kwire.net.tls",
        "kwire.quotas",
        "kwire.metrics",
        "kwire.server.metrics_endpoint",
        "prometheus_client",
        "opentelemetry",
        "kwire.console",
        "kwire.spark",
        "starlette",
        "uvicorn",
    ],
)
def test_not_imported_before_it_is_needed(imported: set[str], module: str) -> None:
    assert "kwire.server.broker" in imported
    assert module not in imported


def test_no_message_of_an_api_is_imported_before_the_first_request(imported: set[str]) -> None:
    own = {"write_txn_markers_request", "request_header"}  # sent by this broker, and read for every request
    messages = {name.rpartition(".")[2] for name in imported if name.startswith("kwire.codec.messages.")}
    assert {name for name in messages if name.endswith(("_request", "_response"))} <= own

"""Clients that complete their TLS handshake and send no request: they count, and idle, as all others do."""

from __future__ import annotations

import ssl
from pathlib import Path

from compat_tests.comparisons.security.stranger import CLOSED, Stranger
from compat_tests.servers import running
from harness.processes.secured import SecuredBroker, make_secured
from kwire.codec.messages.api_versions_request import ApiVersionsRequest

SILENT = 4
SETTINGS = {"max.connections.per.ip": str(SILENT), "connections.max.idle.ms": "1000"}
ATTEMPTS = 10
VERSIONS = ApiVersionsRequest(client_software_name="stranger", client_software_version="1")


def test_silent_clients_take_the_places_of_their_address_until_they_have_idled(
    broker_kind: str, tmp_path: Path
) -> None:
    broker = make_secured(broker_kind, tmp_path, SETTINGS)
    with running(broker, broker.kill):
        assert any(is_one_more_refused(broker) for _ in range(ATTEMPTS))
        with Stranger.at(broker, "SSL") as speaking:
            assert speaking.call(VERSIONS, 3) is not CLOSED


def is_one_more_refused(broker: SecuredBroker) -> bool:
    """Whether there is no place beside silent clients. They have all idled when it returns; on a very busy machine the
    first one may have idled too early."""
    silent = [Stranger.at(broker, "SSL") for _ in range(SILENT)]
    try:
        silent.append(Stranger.at(broker, "SSL"))
    except (ssl.SSLError, ConnectionError):
        pass
    for one in silent:
        with one:
            assert one.is_closed()
    return len(silent) == SILENT

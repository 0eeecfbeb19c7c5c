"""Where franz-go's tests connect: three brokers without security, or with TLS and a listener for SCRAM.

The tests have no setting for a login of all clients: with TLS, `KGO_TEST_TLS` names the authority that all trust, and
the tests of SCRAM have a listener of their own (`KGO_TEST_SCRAM_SEEDS`, without TLS) and a user (`KGO_TEST_SCRAM`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from harness.processes.certificates import Certificates
from harness.processes.clusters import KAFKA, Cluster, started
from harness.processes.ports import free_port
from harness.processes.secured import USERS, add_scram_users, security_settings

USER: Final = "alice"
_LISTENERS: Final = ("SSL", "SASL_PLAINTEXT")


@contextlib.contextmanager
def plaintext(kind: str, home: Path, settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """A running cluster without security; the environment variables that tell the tests of it."""
    with started(kind, home, settings) as cluster:
        yield {"KGO_SEEDS": cluster.bootstrap}


@contextlib.contextmanager
def secured(kind: str, home: Path, settings: Mapping[str, str], digest: int) -> Iterator[dict[str, str]]:
    """A running cluster with TLS; the environment variables that tell the tests of it. ``digest``: 256 or 512, the
    tests' SCRAM mechanism."""
    certificates = Certificates.make(home / "certificates")
    cluster = Cluster(kind, home, {**settings, **security_settings(certificates)})
    ports = [{name: free_port() for name in _LISTENERS} for _ in cluster.nodes]
    for node, own in zip(cluster.nodes.values(), ports, strict=True):
        listeners = [f"PLAINTEXT://{node.bootstrap}", *(f"{name}://{node.host}:{port}" for name, port in own.items())]
        node.settings |= {
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": _protocols(kind),
        }
    seeds = {name: ",".join(f"127.0.0.1:{own[name]}" for own in ports) for name in _LISTENERS}
    try:
        cluster.start()
        add_scram_users(cluster.bootstrap.partition(",")[0])
        yield {
            "KGO_SEEDS": seeds["SSL"],
            "KGO_TEST_TLS": f"ca:{certificates.ca}",
            "KGO_TEST_SCRAM_SEEDS": seeds["SASL_PLAINTEXT"],
            "KGO_TEST_SCRAM": f"{USER}:{USERS[USER]}:{digest}",
        }
    finally:
        cluster.end()


def _protocols(kind: str) -> str:
    names = ("PLAINTEXT", *_LISTENERS)
    return ",".join([*(f"{name}:{name}" for name in names), *(["CONTROLLER:PLAINTEXT"] if kind == KAFKA else [])])

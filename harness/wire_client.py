"""`WireClient`: kwire's blocking test client as tests, campaigns and tools use it, under a client id of their own.

``with WireClient(broker.bootstrap) as client: response = client.call(MetadataRequest(topics=None), 13)``. What
lives elsewhere: the asynchronous client (`harness.raw_client`), and the comparison of the codec with the Java classes.
"""

from __future__ import annotations

from harness.waiting import PATIENCE_S
from kwire.testing.blocking_client import BlockingClient


class WireClient(BlockingClient):
    """One connection. Responses come in the order of the requests."""

    def __init__(self, bootstrap_server: str, client_id: str = "wire", timeout_s: float = PATIENCE_S) -> None:
        super().__init__(bootstrap_server, client_id, timeout_s)

"""What is known of the client of a connection.

What lives elsewhere: how clients log in (`kwire.server.authentication`).
"""

from __future__ import annotations

from kwire.handlers.context import INSECURE, ConnectionSecurity, Decisions
from kwire.net.addresses import client_host_text
from kwire.security.principals import Principal


class Client:
    """What is known of the client of a connection."""

    __slots__ = (
        "decisions",
        "endpoint",
        "host_text",
        "id",
        "id_bytes",
        "principal",
        "security",
        "software_name",
        "software_version",
    )

    def __init__(self, principal: Principal, host: str, endpoint: tuple[str, int]) -> None:
        self.principal = principal
        self.decisions = Decisions()
        self.security = INSECURE
        self.host_text = client_host_text(host)
        self.endpoint = endpoint
        self.id_bytes: bytes | None = None
        self.id: str | None = None
        self.software_name = "unknown"
        self.software_version = "unknown"

    def identify(self, principal: Principal, security: ConnectionSecurity) -> None:
        """Set who the client is. What was decided for another principal is forgotten."""
        self.principal = principal
        self.security = security
        self.decisions = Decisions()

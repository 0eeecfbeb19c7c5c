"""What is known of the client of a connection.

What lives elsewhere: how clients log in (`kwire.server.authentication`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.handlers.context import INSECURE, ConnectionSecurity, Decisions
from kwire.net.addresses import client_host_text
from kwire.security.principals import Principal

if TYPE_CHECKING:
    from kwire.server.requests.routes import Route


class Client:
    """What is known of the client of a connection.

    The header of its last request is kept, because most requests of a connection have the same one: ``start`` is its
    first four bytes (API key and version) as a number, None if it is not kept; ``rest_of_header`` what follows the
    correlation id, up to the ``body``; ``route`` is that of the request."""

    __slots__ = (
        "body",
        "decisions",
        "endpoint",
        "host_text",
        "id",
        "principal",
        "rest_of_header",
        "route",
        "security",
        "software_name",
        "software_version",
        "start",
    )

    def __init__(self, principal: Principal, host: str, endpoint: tuple[str, int]) -> None:
        self.principal = principal
        self.decisions = Decisions()
        self.security = INSECURE
        self.host_text = client_host_text(host)
        self.endpoint = endpoint
        self.id: str | None = None
        self.start: int | None = None
        self.rest_of_header = b""
        self.body = 0
        self.route: Route  # with `start`
        self.software_name = "unknown"
        self.software_version = "unknown"

    def identify(self, principal: Principal, security: ConnectionSecurity) -> None:
        """Set who the client is. What was decided for another principal is forgotten."""
        self.principal = principal
        self.security = security
        self.decisions = Decisions()

"""A request with everything that is needed to respond to it.

What lives elsewhere: what handlers may use of it (`kwire.handlers.context`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwire.codec.protocol import decode
from kwire.handlers.api import REQUEST_BUDGET
from kwire.handlers.context import RequestContext

if TYPE_CHECKING:
    from kwire.handlers.context import Services
    from kwire.net.connection import Connection, Slot
    from kwire.server.requests.clients import Client
    from kwire.server.requests.routes import Route


class Exchange(RequestContext):
    """A request's context as handlers see it, and what the dispatcher needs to send the response."""

    __slots__ = (
        "_request",
        "connection",
        "encoded",
        "is_refused",
        "request_size",
        "route",
        "slot",
        "started",
        "waited",
    )

    def __init__(
        self, services: Services, connection: Connection, route: Route, correlation_id: int, started: float
    ) -> None:
        client: Client = connection.context
        self.services = services
        self.api_key = route.key
        self.api_version = route.version
        self.correlation_id = correlation_id
        self.client_id = client.id
        self.client_host = client.host_text
        self.listener = connection.listener
        self.principal = client.principal
        self.decisions = client.decisions
        self.security = client.security
        self.endpoint = client.endpoint
        self.connection_id = connection.id
        self.software_name = client.software_name
        self.software_version = client.software_version
        self.throttle_time_ms = 0
        self.charged = None
        self.wake_early = None
        self.exclusive = False
        self.connection = connection
        self.route = route
        self._request: Any = None
        self.encoded: tuple[memoryview, int] | None = None  # the frame and where its body begins, until it is decoded
        self.request_size = 0
        self.slot: Slot | None = None
        self.started = started
        self.waited = 0.0  # seconds in purgatory
        self.is_refused = False  # an operation on the cluster was denied

    @property
    def request(self) -> Any:
        """The request; what a fast path has understood is only decoded if somebody wants to see it. CodecError."""
        if self.encoded is not None:
            frame, position = self.encoded
            self.request, _ = decode(self.route.request_class, self.api_version, frame, position, REQUEST_BUDGET)
        return self._request

    @request.setter
    def request(self, request: Any) -> None:
        self._request, self.encoded = request, None

    def busy_s(self) -> float:
        """The seconds spent on this request; as in Kafka, what is done after it has waited does not count."""
        waited = self.waited
        if waited < 0:  # it waits since then
            return -waited - self.started
        return self.services.doors.clock.perf_counter() - self.started - waited

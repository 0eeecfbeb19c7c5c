"""How a handler module declares its API: one `Api` per module, beside the function that handles its requests.

ApiVersions, the dispatcher and COMPAT.md are derived from these declarations, so an advertised range cannot drift from
the code that serves it. What lives elsewhere: what a handler is given (`context`), the table of all APIs (`registry`),
and how a frame becomes a request (`kwire.server.dispatch`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kwire.base.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kwire.base.futures import NowOrLater
    from kwire.codec.protocol import ApiKey
    from kwire.handlers.context import Decisions, RequestContext, Services
    from kwire.security.acls.operations import Operation

Handle = Callable[[Any, "RequestContext"], "NowOrLater[Any | None]"]
"""(request, context) -> the response, or an awaitable of it; None is no response (Produce with acks=0)."""

Operations = Callable[[Any, "RequestContext"], "Sequence[Operation]"]
"""(request, context) -> the operations that must be allowed before the handler is called."""

ErrorResponse = Callable[[Any, int, ErrorCode, str | None], Any]
"""(request, version, error code, message) -> a well-formed response in which everything requested failed."""

FastPath = Callable[[memoryview, int, int, int, "Services", "Decisions"], Any]
"""(frame, position of the body, version, correlation id, services, what was decided for the client) -> the parts of the
response's frame and their size; or a function of the context that returns what a handler may return; or an append that
is still to be done (`kwire.handlers.data.produce.fast_path.Append`); or None, with nothing done: the request needs the
handler, which gets it decoded."""


class CloseConnection(Exception):
    """Raised by a handler that can only close the connection (a failed append with acks=0). The text goes to the log.
    Responses to earlier requests of the connection are sent before it is closed."""


def top_level_error(response_class: type[Any], code: ErrorCode, message: str | None = None) -> Any:
    """A response with a top-level ``error_code`` (and ``error_message`` if it has one), all else at its default."""
    fields: dict[str, Any] = {"error_code": int(code)}
    if "error_message" in response_class.__slots__ and message is not None:
        fields["error_message"] = message
    return response_class(**fields)


def _top_level_error(request: Any, version: int, code: ErrorCode, message: str | None) -> Any:
    from kwire.codec.protocol import response_class

    return top_level_error(response_class(request.API_KEY), code, message)


AS_SERVED: Final = (-1, -1)

REQUEST_BUDGET: Final = 200_000
"""Elements in one request: enough for tens of thousands of partitions. The codec could decode five times as many, but
the handlers' work for each of them would delay all other clients for ten seconds and more."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One API as kwire serves it. Derive another one with `dataclasses.replace`."""

    key: ApiKey
    _: dataclasses.KW_ONLY
    served: tuple[int, int]
    """The lowest and the highest version that is handled."""
    handle: Handle
    advertised: tuple[int, int] | None = AS_SERVED
    """The range in ApiVersions: the served one if left out; None hides the API."""
    operations: Operations | None = None
    """What the principal must be allowed to do; None if the handler authorises each resource by itself."""
    error_response: ErrorResponse = _top_level_error
    """Makes the response to a request whose handler failed; by default one with a top-level ``error_code``."""
    pipelined: bool = False
    """Whether the connection's next request of this API may start while one is pending. Only Produce keeps its meaning
    then."""
    cancel_on_disconnect: bool = False
    """Whether a pending response is cancelled when the connection closes (Fetch). Others run to their end, as in
    Kafka."""
    fast_path: Callable[[int], FastPath | None] | None = None
    """The function that may handle requests of a version without decoding them, by the version; None if there is
    none."""
    sliced: bool = False
    """Whether large requests are decoded in slices (`kwire.handlers.large_requests`); not with a fast path."""
    together: Callable[[list[Any]], list[Any]] | None = None
    """Does what the fast path returns for several requests, in their order (`data.produce.fast_path.together`): the
    results, each the bytes of a response or a function of the context. None if the fast path does everything itself."""
    by_controller: bool = False
    """Whether only the controller handles it: the registry has other brokers forward the request (`forwarding`)."""
    forwards_parts: bool = False
    """Whether the handler itself forwards a part of the request to the controller."""

    @property
    def is_forwardable(self) -> bool:
        """Whether other brokers forward such requests."""
        return self.by_controller or self.forwards_parts

    def __post_init__(self) -> None:
        if self.advertised == AS_SERVED:
            object.__setattr__(self, "advertised", self.served)

    def __repr__(self) -> str:
        return f"Api({self.key.name}, served={self.served}, advertised={self.advertised})"


def error_of(error: BaseException) -> tuple[ErrorCode, str | None]:
    """The error code and message that a response has for an exception. An unexpected one is UNKNOWN_SERVER_ERROR; its
    text goes to the log only."""
    if isinstance(error, KafkaError):
        return error.code, error.message
    return ErrorCode.UNKNOWN_SERVER_ERROR, None

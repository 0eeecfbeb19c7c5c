"""How a handler module declares its API: one `Api` per module, beside the function that answers it.

ApiVersions, the dispatcher and COMPAT.md derive from these declarations, so a served range cannot drift from the code
that serves it. What lives elsewhere: what a handler is given (`context`), the table of all modules (`registry`), and
how a frame becomes a request (`kwire.server.dispatch`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from kwire.base.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kwire.codec.protocol import ApiKey
    from kwire.handlers.context import Operation, RequestContext, Services

Handle = Callable[[Any, "RequestContext"], Any | Awaitable[Any] | None]
"""(request, context) -> response | awaitable of a response | None for "no answer" (Produce with acks=0)."""

Operations = Callable[[Any, "RequestContext"], "Sequence[Operation]"]
"""(request, context) -> what the principal must be allowed to do for the request as a whole to be considered."""

ErrorResponse = Callable[[Any, int, ErrorCode, str | None], Any]
"""(request, version, error code, message) -> a well-formed response in which everything asked for failed so."""


Quick = Callable[[memoryview, int, int, int, "Services"], Any]
"""(frame, position of the body, version, correlation id, services) -> the bytes of the answer's whole frame, or a
function of the context that gives what a handler may return, or None, nothing done: the request is not of the kind that
is answered without being decoded."""


class CloseConnection(Exception):
    """Raised by a handler whose only answer is to close the connection (acks=0 and a failed append, say). The text
    is for the log; the dispatcher answers what came before, then closes."""


class Api:
    """One API as kwire serves it.

    ``served``: lowest and highest version that is answered. ``advertised``: what ApiVersions tells; the same when
    left out, and ``None`` hides the API. ``pipelined``: the next request of the same kind may start while this one is
    pending (Produce only: nothing else keeps its meaning). ``cancel_on_disconnect``: a pending answer is cancelled
    when its connection is gone (Fetch: nobody waits any more); all others run to their end, as in Kafka. ``quick``: the
    first version for which the request is offered to a function first that may answer it without decoding.
    ``by_controller``: only the controller decides; other brokers carry the request there (`forwarding`).
    """

    __slots__ = ("advertised", "by_controller", "cancel_on_disconnect", "error_response", "handle", "key",
                 "operations", "pipelined", "quick", "served")  # fmt: skip

    def __init__(
        self,
        key: ApiKey,
        *,
        served: tuple[int, int],
        handle: Handle,
        advertised: tuple[int, int] | EllipsisType | None = ...,
        operations: Operations | None = None,
        error_response: ErrorResponse | None = None,
        pipelined: bool = False,
        cancel_on_disconnect: bool = False,
        quick: tuple[int, Quick] | None = None,
        by_controller: bool = False,
    ) -> None:
        self.key = key
        self.served = served
        self.advertised = served if isinstance(advertised, EllipsisType) else advertised
        self.handle = handle
        self.operations = operations
        self.error_response = error_response or self._top_level_error
        self.pipelined = pipelined
        self.cancel_on_disconnect = cancel_on_disconnect
        self.quick = quick
        self.by_controller = by_controller

    def _top_level_error(self, request: Any, version: int, code: ErrorCode, message: str | None) -> Any:
        """The default `error_response`, for the many responses that have one ``error_code`` for all."""
        from kwire.codec.protocol import response_class

        return top_level_error(response_class(self.key), code, message)

    def __repr__(self) -> str:
        return f"Api({self.key.name}, served={self.served}, advertised={self.advertised})"


def top_level_error(response_class: type[Any], code: ErrorCode, message: str | None = None) -> Any:
    """A response with a top-level ``error_code`` (and perhaps ``error_message``), all else at its default."""
    fields: dict[str, Any] = {"error_code": int(code)}
    if "error_message" in response_class.__slots__ and message is not None:
        fields["error_message"] = message
    return response_class(**fields)


def error_of(error: BaseException) -> tuple[ErrorCode, str | None]:
    """The code and the text that a client is told of a failure; what nobody foresaw is UNKNOWN_SERVER_ERROR,
    without its text: that belongs into the log."""
    if isinstance(error, KafkaError):
        return error.code, error.message
    return ErrorCode.UNKNOWN_SERVER_ERROR, None

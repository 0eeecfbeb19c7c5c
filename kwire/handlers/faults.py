"""The error responses with which a test makes requests fail (`kwire.server.control`), with the error where the clients
of the API look for it.

A broker that no test controls does not import this module. What lives elsewhere: which requests fail
(`kwire.server.control`), and the ordinary error responses of the APIs (their own modules, `refusals`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import then
from kwire.codec.message import Struct
from kwire.codec.messages.fetch_request import FetchRequest
from kwire.codec.messages.fetch_response import FetchResponse
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from kwire.codec.protocol import ApiKey, decode, encode, response_class
from kwire.handlers.api import Api, CloseConnection
from kwire.handlers.context import RequestContext
from kwire.handlers.data.fetch.fetched_partition import FetchedPartition
from kwire.handlers.data.fetch.partitions import Fetch, is_follower_allowed
from kwire.handlers.data.fetch.sessions import FetchContext, follower_of

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition

MESSAGE: Final = "A test requested this failure."
_SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


def failed(api: Api, request: Any, context: RequestContext, code: ErrorCode) -> Any:
    """The response, or an awaitable of it, to a request that fails with an error; nothing of the request is done.

    Raises `CloseConnection` if no response can carry the error: NETWORK_EXCEPTION (a client reports it itself if the
    connection ends before the response), a Produce request with acks=0, and versions whose response has no error code.
    """
    if code is ErrorCode.NETWORK_EXCEPTION or getattr(request, "acks", None) == 0:
        raise CloseConnection(MESSAGE)
    if api.key == ApiKey.FETCH and code not in _SESSION_ERRORS:
        return _checked(api, context, code, _failed_fetch(request, context, code))
    if api.key == ApiKey.METADATA:
        return _failed_metadata(api, request, context, code)
    return _checked(api, context, code, api.error_response(request, context.api_version, code, MESSAGE))


def _checked(api: Api, context: RequestContext, code: ErrorCode, response: Any) -> Any:
    """The response, if its bytes carry the error in this version."""
    version = context.api_version
    decoded, _ = decode(response_class(api.key), version, encode(response, version))
    if not _carries(decoded, code):
        raise CloseConnection(f"{MESSAGE} {api.key.name} version {version} has no place for {code.name}.")
    return response


def _carries(struct: Struct, code: ErrorCode) -> bool:
    """Whether any field of a message has an error code."""
    for name in struct.__slots__:
        value = getattr(struct, name)
        if name.endswith("error_code"):
            if value == code:
                return True
        elif any(isinstance(item, Struct) and _carries(item, code) for item in _items(value)):
            return True
    return False


def _items(value: Any) -> Any:
    return value if isinstance(value, list) else (value,)


class _FailingFetch(Fetch):
    """A Fetch that finds none of its partitions. Its session continues, so that the client requests them again."""

    __slots__ = ("_code",)

    def __init__(
        self, request: FetchRequest, context: RequestContext, fetch_context: FetchContext, code: ErrorCode
    ) -> None:
        follower = follower_of(request)
        super().__init__(request, context, fetch_context, follower, is_refused=False)  # the error is the same for all
        self._code = code

    def _find(self, fetched: FetchedPartition) -> Partition:
        raise KafkaError(self._code)


def _failed_fetch(request: FetchRequest, context: RequestContext, code: ErrorCode) -> FetchResponse:
    """The error for every partition of the request or of its session."""
    is_refused = follower_of(request) >= 0 and not is_follower_allowed(context)
    fetch_context = context.services.fetch_sessions.context(request, context.api_version, is_refused=is_refused)
    failing = _FailingFetch(request, context, fetch_context, code)
    failing.read_all()
    return failing.response()


def _failed_metadata(api: Api, request: MetadataRequest, context: RequestContext, code: ErrorCode) -> Any:
    """The actual brokers, and the error for every topic: clients ignore a response without brokers."""

    def fail(response: MetadataResponse) -> Any:
        context.charged = None  # the bytes of the actual response
        return _checked(api, context, code, _with_error(response, code))

    return then(api.handle(request, context), fail)


def _with_error(response: MetadataResponse, code: ErrorCode) -> MetadataResponse:
    """A copy with an error: the topics of a response are shared with all other responses."""
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal)
        for topic in response.topics
    ]
    return MetadataResponse(
        throttle_time_ms=response.throttle_time_ms,
        brokers=response.brokers,
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        topics=topics,
        cluster_authorized_operations=response.cluster_authorized_operations,
        error_code=ErrorCode.NONE if topics else code,
    )

"""The answers with which a test makes requests fail (`kwire.server.control`): an error where this API's clients look
for it.

Nothing of this is loaded in a broker that no test controls. What lives elsewhere: which request fails
(`kwire.server.control`), the ordinary error responses of the APIs (their own modules, `refusals`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.message import Struct
from kwire.codec.messages.fetch_request import FetchRequest
from kwire.codec.messages.fetch_response import FetchResponse
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from kwire.codec.protocol import ApiKey, decode, encode, response_class
from kwire.handlers.api import Api, CloseConnection
from kwire.handlers.context import RequestContext
from kwire.handlers.data.fetch import handler as fetch
from kwire.handlers.data.fetch.sessions import FetchedPartition, FetchSessions

MESSAGE: Final = "A test asked for this failure."
_SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


def failed(api: Api, request: Any, context: RequestContext, code: ErrorCode) -> Any:
    """The answer, or an awaitable of it, to a request that fails with one error; nothing of the request is done.

    Raises `CloseConnection` where there is nothing else to tell a client: NETWORK_EXCEPTION (which clients call a
    connection that ended before the answer), a Produce request that wants no answer, and versions whose response has
    no place for an error.
    """
    if code is ErrorCode.NETWORK_EXCEPTION or getattr(request, "acks", None) == 0:
        raise CloseConnection(MESSAGE)
    if api.key == ApiKey.FETCH and code not in _SESSION_ERRORS:
        return _checked(api, context, code, _failed_fetch(request, context, code))
    if api.key == ApiKey.METADATA:
        return _failed_metadata(api, request, context, code)
    return _checked(api, context, code, api.error_response(request, context.api_version, code, MESSAGE))


def _checked(api: Api, context: RequestContext, code: ErrorCode, answer: Any) -> Any:
    """The answer if its bytes carry the error in this version."""
    version = context.api_version
    told, _ = decode(response_class(api.key), version, encode(answer, version))
    if not _carries(told, code):
        raise CloseConnection(f"{MESSAGE} {api.key.name} version {version} has no place for {code.name}.")
    return answer


def _carries(struct: Struct, code: ErrorCode) -> bool:
    """Whether an error code stands anywhere in a message."""
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


class _FailingFetch(fetch._Fetch):
    """A Fetch that finds none of its partitions. The session goes on: only so does the client ask for them again."""

    __slots__ = ("code",)
    code: ErrorCode

    def _find(self, asked: FetchedPartition) -> Any:
        raise KafkaError(self.code)


def _failed_fetch(request: FetchRequest, context: RequestContext, code: ErrorCode) -> FetchResponse:
    """The error for every partition of the request or of its session."""
    fetch_context = context.services.kept(FetchSessions).context(request, context.api_version)
    failing = _FailingFetch(request, context, fetch_context)
    failing.code = code
    failing.read_all()
    return failing.response()


def _failed_metadata(api: Api, request: MetadataRequest, context: RequestContext, code: ErrorCode) -> Any:
    """The brokers as they are, and the error for every topic: clients ignore an answer that names no broker."""
    answer = api.handle(request, context)
    if isinstance(answer, Awaitable):
        return _failed_later(api, context, answer, code)
    assert isinstance(answer, MetadataResponse)
    return _checked(api, context, code, _with_error(answer, code))


async def _failed_later(
    api: Api, context: RequestContext, answer: Awaitable[MetadataResponse], code: ErrorCode
) -> MetadataResponse:
    response: MetadataResponse = _checked(api, context, code, _with_error(await answer, code))
    return response


def _with_error(answer: MetadataResponse, code: ErrorCode) -> MetadataResponse:
    """A copy: the topics of an answer are shared with all others."""
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal)
        for topic in answer.topics
    ]
    return MetadataResponse(
        throttle_time_ms=answer.throttle_time_ms,
        brokers=answer.brokers,
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id,
        topics=topics,
        cluster_authorized_operations=answer.cluster_authorized_operations,
        error_code=ErrorCode.NONE if topics else code,
    )

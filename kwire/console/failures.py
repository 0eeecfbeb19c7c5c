"""Why a request of the page is refused: an HTTP status, a code for programs and one line for people."""

from __future__ import annotations

from typing import Final

from kwire.base.errors import ErrorCode
from kwire.cli.connection.errors import CommandError, NoAnswer, Unreachable


class Refusal(Exception):
    """A request is answered with an error. ``message``: one line."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def body(self) -> dict[str, dict[str, str]]:
        """The JSON of the response."""
        return {"error": {"code": self.code, "message": self.message}}


def bad_request(message: str) -> Refusal:
    """A parameter that is wrong."""
    return Refusal(400, "bad_request", message)


def unknown(what: str, message: str) -> Refusal:
    """Something that is not there; ``what``: ``topic``, ``group`` and so on."""
    return Refusal(404, f"unknown_{what}", message)


_FORBIDDEN: Final = (403, "forbidden")
_CONFLICT: Final = (409, "conflict")
_UNREACHABLE: Final = (502, "cluster_unreachable")
_BY_CODE: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (404, "unknown_topic"),
    ErrorCode.UNKNOWN_TOPIC_ID: (404, "unknown_topic"),
    ErrorCode.GROUP_ID_NOT_FOUND: (404, "unknown_group"),
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: (404, "unknown_transaction"),
    ErrorCode.TOPIC_ALREADY_EXISTS: _CONFLICT,
    ErrorCode.NON_EMPTY_GROUP: _CONFLICT,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: _CONFLICT,
    ErrorCode.UNKNOWN_MEMBER_ID: _CONFLICT,
    ErrorCode.REASSIGNMENT_IN_PROGRESS: _CONFLICT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _FORBIDDEN,
    ErrorCode.UNSUPPORTED_VERSION: (501, "unsupported"),
    ErrorCode.SECURITY_DISABLED: (501, "unsupported"),
    ErrorCode.REQUEST_TIMED_OUT: (504, "timeout"),
    ErrorCode.BROKER_NOT_AVAILABLE: _UNREACHABLE,
    ErrorCode.NETWORK_EXCEPTION: _UNREACHABLE,
    ErrorCode.LEADER_NOT_AVAILABLE: (503, "no_leader"),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (503, "no_coordinator"),
}


def refusal_of(error: CommandError) -> Refusal:
    """What a failure of a command is called in HTTP."""
    if isinstance(error, Unreachable):
        status, code = _UNREACHABLE
    elif isinstance(error, NoAnswer):
        status, code = 504, "timeout"
    else:
        status, code = _BY_CODE.get(ErrorCode(error.code) if error.code else ErrorCode.NONE, (400, "bad_request"))
    return Refusal(status, code, str(error))

"""What every shard takes and returns: instants, callers, records, and the result of one operation.

A shard never writes, never waits and never reads a clock. An operation takes the current `Instant` and fills a
`Result`: records to append, responses to requests parked earlier, and the response to the present request. Replicated
state changes only when its records are applied, by the same function in operation and when the log is loaded. `settle`
is the only place that defines the order of these steps. `runtime.runtime` appends the records and waits until they are
committed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from kwire.base.errors import ErrorCode, KafkaError

A = TypeVar("A")

Waiter = Any
"""An opaque handle of a parked request. The shard stores it and returns it in `Result.replies`."""


class Instant(NamedTuple):
    """The current time in milliseconds: ``timer_ms`` on the monotonic clock (for timers), ``wall_ms`` on the wall clock
    (for the timestamps in records)."""

    timer_ms: int
    wall_ms: int


class Caller(NamedTuple):
    """The sender of a request: client id, host, and the API version of the request. ``describable``: of some topics,
    those that the sender may describe; None if that is all of them."""

    client_id: str
    client_host: str
    api_version: int
    describable: Callable[[Iterable[str]], Collection[str]] | None = None


class CoordinatorRecord(NamedTuple):
    """Key and value of one record of a coordinator's log. A record without a value is a tombstone."""

    key: bytes
    value: bytes | None


Continuation = Callable[["Result[Any]", Instant], None]
"""Runs after the records of an operation were applied; may add further records to the same result."""

FailedAppend = Callable[["Result[Any]", Instant, ErrorCode], None]
"""Runs instead if the records could not be appended, with the error for the client."""


class Result(Generic[A]):
    """The outcome of one operation.

    ``response``: the response to the request, None while the request is parked. ``replies``: pairs of waiter and
    response for requests parked earlier. Both are sent once the records are committed. ``applied`` runs right after the
    records were applied, ``failed`` instead if they could not be appended.
    """

    __slots__ = ("applied", "failed", "records", "replies", "response")

    def __init__(self, response: A | None = None) -> None:
        self.response: A | None = response
        self.records: list[CoordinatorRecord] = []
        self.replies: list[tuple[Waiter, Any]] = []
        self.applied: Continuation | None = None
        self.failed: FailedAppend | None = None


def settle(
    result: Result[A],
    now: Instant,
    append: Callable[[list[CoordinatorRecord]], int],
    apply: Callable[[CoordinatorRecord, int], object],
) -> None:
    """Append the records of an operation, apply them, and repeat until no records are left.

    ``append`` returns the offset of the first record. If it raises KafkaError, no record is applied and
    ``result.failed`` handles the error; without ``result.failed`` the error propagates.
    """
    while result.records:
        records, applied, failed = result.records, result.applied, result.failed
        result.records, result.applied, result.failed = [], None, None
        try:
            offset = append(records)
        except KafkaError as error:
            if failed is None:
                raise
            failed(result, now, append_error(error.code))
            continue
        for position, record in enumerate(records):
            apply(record, offset + position)
        if applied is not None:
            applied(result, now)


_COORDINATOR_NOT_AVAILABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_NOT_COORDINATOR = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.FENCED_LEADER_EPOCH}
)
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE})


def append_error(code: ErrorCode) -> ErrorCode:
    """The error for the client when an append to the coordinator's log has failed with ``code``."""
    if code in _COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    if code in _TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return code

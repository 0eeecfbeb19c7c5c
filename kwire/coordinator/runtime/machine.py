"""What every coordinator machine speaks: instants, callers, records, and the result of one operation.

A machine never writes, waits or looks at a clock. An operation gets the `Instant` and fills a `Result`: records to
append, replies to requests that were parked earlier, and the answer to the one that came. State that the records
describe changes only when they are applied, with the same function live and at load. `settle` is the one place that
knows the order of these steps. Who appends and who waits for the commit is `shard_runtime`'s business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from kwire.base.errors import ErrorCode, KafkaError

A = TypeVar("A")

Waiter = Any
"""Stands for a parked request: the machine keeps it and names it in `Result.replies`, and never looks into it."""


class Instant(NamedTuple):
    """One moment on both clocks. ``timer_ms`` never jumps (sessions, rebalances); ``wall_ms`` is what records carry."""

    timer_ms: int
    wall_ms: int


class Caller(NamedTuple):
    """Who sent a request: what of its header and connection a coordinator remembers or decides by."""

    client_id: str
    client_host: str
    api_version: int


class CoordinatorRecord(NamedTuple):
    """Key and value of one record of a coordinator's log; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


class GroupFigures:
    """What has happened so far, for the metrics."""

    __slots__ = ("completed_rebalances", "offset_commits", "offset_deletions", "offset_expirations")

    def __init__(self) -> None:
        self.completed_rebalances = 0
        self.offset_commits = 0
        self.offset_deletions = 0
        self.offset_expirations = 0


Continuation = Callable[["Result[Any]", Instant], None]
"""What an operation does once its records are applied; it may leave further records in the same result."""

FailedAppend = Callable[["Result[Any]", Instant, ErrorCode], None]


class Result(Generic[A]):
    """What one operation wants to happen.

    ``answer``: the response, None while it is parked. ``replies``: (waiter, response) of parked requests. Both leave
    when the records are committed. ``applied`` runs right after the records were applied, ``failed`` instead of it
    when they could not be appended.
    """

    __slots__ = ("answer", "applied", "failed", "records", "replies")

    def __init__(self, answer: A | None = None) -> None:
        self.answer: A | None = answer
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
    """Append what an operation yielded, apply it, and go on until nothing is left to write.

    `append` returns the offset of the first record. It raises KafkaError when the log refuses; then nothing of it is
    applied and ``result.failed`` decides. An operation without ``failed`` lets the error through.
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
    """What a client of the coordinator is told when the coordinator's own log refused with ``code``."""
    if code in _COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in _NOT_COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    if code in _TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return code

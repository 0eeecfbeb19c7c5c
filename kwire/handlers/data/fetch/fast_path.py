"""The fast path of Fetch for its ordinary request: a consumer that reads one partition, whether it finds data or waits.

Such a request, without a session or in a session of that partition, costs half of what the general way does: no message
objects are made (`fetch.ordinary` has its form). An offset outside the log is answered here, too, if there is no
session: with a response that is made once. Any other request goes to `fetch.handler`, with nothing done: followers,
several partitions, new sessions, other errors, aborted transactions, other replicas, quotas. A waiting request goes
there, too, if it is not completed by data.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from functools import partial as later
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.file_range import FileRange
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.codec.protocol import encode
from kwire.handlers.data.fetch import ordinary
from kwire.handlers.data.fetch.ordinary import FIRST_BY_ID, FIRST_WITH_ANY_REPLICA, Asked
from kwire.handlers.data.fetch.partitions import Fetch
from kwire.handlers.data.fetch.sessions import FINAL_EPOCH, NO_SESSION, FetchContext, requested_partitions
from kwire.log.common.append_info import NO_DATA, FetchedData
from kwire.security.acls.operations import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.cluster.replication.partition import Partition
    from kwire.handlers.context import Decisions, RequestContext, Services
    from kwire.handlers.data.fetch.sessions import FetchSession

_READ: Final = AclOperation.READ
_TOPIC: Final = ResourceType.TOPIC
_CONSUMER: Final = -1

REFUSALS_KEPT: Final = 256
"""Responses to offsets outside the log that are kept: one for each partition and version."""

Frame = tuple[list[Any], int]
"""The parts of a response's frame, and their size."""


def respond(
    frame: memoryview, position: int, version: int, correlation_id: int, services: Services, decisions: Decisions
) -> Frame | Callable[[RequestContext], asyncio.Future[Frame | FetchResponse] | FetchResponse] | None:
    """Read what an ordinary request wants: see `kwire.handlers.api.FastPath`. None also if it has not been decided yet
    that the client may read the topic."""
    try:
        asked = ordinary.request(frame, position, version)
    except (struct_error, IndexError):
        return None
    if asked is None or services.quotas.active or services.config.replica_selector_class:
        return None
    session: FetchSession | None = None
    if asked.session_epoch != FINAL_EPOCH:
        session = services.fetch_sessions.ordinary(asked.session_id, asked.session_epoch, version >= FIRST_BY_ID)
        asked = None if session is None else _in_session(asked, session)
    if asked is None or asked.topic is None or (session is None and asked.session_id != NO_SESSION):
        return None
    try:
        partition = _partition(asked.topic, asked.partition, version, services)
        if not _is_allowed(decisions, partition, services):
            return None
        found = _read(asked, version, partition, services)
    except _OutsideLog:
        return later(_refuse_offset, asked, version, partition) if session is None else None
    except (KafkaError, UnicodeDecodeError, _NotOrdinary):
        return None
    if found is None:
        return later(_Waiting.response_of, asked, version, partition, session)
    if session is not None:
        _note_request(session, asked)
        services.fetch_sessions.used(session)
    return _answered(asked, version, correlation_id, partition, session, found)


class _NotOrdinary(Exception):
    """The request is one for the handler."""


class _OutsideLog(_NotOrdinary):
    """The log does not have the offset."""


def _in_session(asked: Asked, session: FetchSession) -> Asked | None:
    """The request with what the session knows of it; None if it changes the session's partition."""
    (((topic, index), fetched),) = session.partitions.items()
    name = topic if isinstance(topic, bytes) else topic.encode()
    if asked.topic is not None:
        return asked if asked.topic == name and asked.partition == index else None
    known = fetched.requested
    if known.last_fetched_epoch >= 0:
        return None
    return asked._replace(
        topic=name,
        partition=index,
        leader_epoch=known.current_leader_epoch,
        offset=known.fetch_offset,
        log_start=known.log_start_offset,
        partition_max_bytes=known.partition_max_bytes,
    )


def _partition(topic: bytes, index: int, version: int, services: Services) -> Partition:
    """The partition by its topic's id or name. KafkaError, UnicodeDecodeError."""
    if version >= FIRST_BY_ID:
        return services.replicas.partition_by_id(topic, index)
    return services.replicas.partition(str(topic, "utf-8"), index)


def _read(asked: Asked, version: int, partition: Partition, services: Services) -> FetchedData | None:
    """What to respond with; None if the request has to wait. KafkaError, _NotOrdinary."""
    any_replica = version >= FIRST_WITH_ANY_REPLICA
    (partition.require_replica if any_replica else partition.require_leader)(asked.leader_epoch)
    log = partition.log
    committed_only = asked.committed_only
    limit = log.last_stable_offset if committed_only else log.high_watermark
    if not log.log_start_offset <= asked.offset <= limit:
        raise _NotOrdinary if log.log_start_offset <= asked.offset <= log.log_end_offset else _OutsideLog
    bytes_max: int = services.config.fetch_max_bytes
    found = NO_DATA
    if asked.offset < limit:
        most = min(asked.partition_max_bytes, asked.max_bytes, bytes_max)
        found = partition.read(asked.offset, max(most, 0), committed_only=committed_only, from_follower=any_replica)
    if found.size < min(asked.min_bytes, bytes_max) and asked.max_wait_ms > 0:
        _release(found)
        return None
    if not found.size or (committed_only and log.aborted_transactions(asked.offset, limit)):
        _release(found)
        raise _NotOrdinary
    return found


def _release(found: FetchedData) -> None:
    if isinstance(found.records, FileRange):
        found.records.release()


def _is_allowed(decisions: Decisions, partition: Partition, services: Services) -> bool:
    """Whether it has been decided that the client may read the topic."""
    authorizer = services.authorizer
    return authorizer.allows_all or authorizer.has_allowed(decisions, (_READ, _TOPIC, partition.topic))


def _note_request(session: FetchSession, asked: Asked) -> None:
    """Note in the session what is requested of its partition."""
    (fetched,) = session.partitions.values()
    known = fetched.requested
    known.current_leader_epoch = asked.leader_epoch
    known.fetch_offset = asked.offset
    known.last_fetched_epoch = -1
    known.log_start_offset = asked.log_start
    known.partition_max_bytes = asked.partition_max_bytes


def _answered(
    asked: Asked,
    version: int,
    correlation_id: int,
    partition: Partition,
    session: FetchSession | None,
    found: FetchedData,
) -> Frame:
    """The frame with what was read, which is counted, and noted in the session."""
    log, metrics = partition.log, partition.metrics
    if session is not None:
        for fetched in session.partitions.values():
            fetched.sent_high_watermark = log.high_watermark
            fetched.log_start_offset = log.log_start_offset
    metrics.total_fetch_requests += 1
    metrics.bytes_out += found.size
    return ordinary.response(asked, version, correlation_id, log, found)


def _refuse_offset(asked: Asked, version: int, partition: Partition, context: RequestContext) -> FetchResponse:
    """The response to a request without a session for an offset outside the log."""
    assert asked.topic is not None
    partition.metrics.total_fetch_requests += 1
    partition.metrics.failed_fetch_requests += 1
    response, body = _outside_log(asked.topic, asked.partition, version)
    context.charged = [body]
    return response


@lru_cache(maxsize=REFUSALS_KEPT)
def _outside_log(topic: bytes, index: int, version: int) -> tuple[FetchResponse, bytes]:
    """A response that is the same for every such request, not to be changed, and its body."""
    code = ErrorCode.OFFSET_OUT_OF_RANGE
    part = PartitionData(
        partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=None, records=b""
    )
    by_id = version >= FIRST_BY_ID
    of_topic = FetchableTopicResponse(topic_id=topic) if by_id else FetchableTopicResponse(topic=str(topic, "utf-8"))
    of_topic.partitions = [part]
    response = FetchResponse(responses=[of_topic])
    return response, encode(response, version)


class _Waiting:
    """An ordinary fetch that waits until there is enough, or ``max_wait_ms`` has passed. ``response`` is a bare future,
    so a waiting consumer costs no task. Cancelling it (the connection has closed) stops the watching."""

    __slots__ = ("_asked", "_changed", "_context", "_loop", "_partition", "_session", "_timer", "_version", "response")

    def __init__(
        self, asked: Asked, version: int, partition: Partition, session: FetchSession | None, context: RequestContext
    ) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._asked = asked
        self._version = version
        self._partition = partition
        self._session = session
        self._context = context
        self._changed = False
        self.response: asyncio.Future[Frame | FetchResponse] = loop.create_future()
        self._timer = loop.call_later(asked.max_wait_ms / 1000, self._time_out)
        partition.on_change(self._note)
        self.response.add_done_callback(self._stop)

    @classmethod
    def response_of(
        cls, asked: Asked, version: int, partition: Partition, session: FetchSession | None, context: RequestContext
    ) -> asyncio.Future[Frame | FetchResponse]:
        """Begin to wait."""
        if session is not None:
            _note_request(session, asked)
            context.services.fetch_sessions.used(session)
        return cls(asked, version, partition, session, context).response

    def _note(self) -> None:
        """The partition has changed. All that wait for it read in the next turn of the event loop."""
        if not self._changed:
            self._changed = True
            self._loop.call_soon(self._read_again)

    def _read_again(self) -> None:
        if self.response.done():
            return
        self._changed = False
        services = self._context.services
        if self._is_still_ordinary(services):
            try:
                found = _read(self._asked, self._version, self._partition, services)
            except (KafkaError, _NotOrdinary):
                pass
            else:
                if found is not None:
                    self._respond_quickly(found)
                return
        fetch = self._general()
        fetch.read_all()
        if fetch.is_enough():
            self._respond(fetch.response())
        else:
            fetch.release()

    def _is_still_ordinary(self, services: Services) -> bool:
        """Whether the client may still read the partition without limits, and it is the same one: its topic may have
        been deleted and made anew."""
        partition = self._partition
        return (
            not services.quotas.active
            and services.replicas.get(partition.topic, partition.index) is partition
            and _is_allowed(self._context.decisions, partition, services)
        )

    def _respond_quickly(self, found: FetchedData) -> None:
        number = self._context.correlation_id
        self._respond(_answered(self._asked, self._version, number, self._partition, self._session, found))

    def _time_out(self) -> None:
        if not self.response.done():
            fetch = self._general()
            fetch.read_all()
            self._respond(fetch.response())

    def _general(self) -> Fetch:
        """The same request as the handler sees it."""
        asked, by_id = self._asked, self._version >= FIRST_BY_ID
        assert asked.topic is not None
        topic = FetchTopic(topic_id=asked.topic) if by_id else FetchTopic(topic=str(asked.topic, "utf-8"))
        part = FetchPartition(
            partition=asked.partition,
            current_leader_epoch=asked.leader_epoch,
            fetch_offset=asked.offset,
            log_start_offset=asked.log_start,
            partition_max_bytes=asked.partition_max_bytes,
        )
        topic.partitions = [part]
        request = FetchRequest(
            max_wait_ms=asked.max_wait_ms,
            min_bytes=asked.min_bytes,
            max_bytes=asked.max_bytes,
            isolation_level=asked.isolation_level,
            session_id=asked.session_id,
            session_epoch=asked.session_epoch,
            topics=[topic],
        )
        if self._session is None:
            fetch_context = FetchContext(requested_partitions(request, by_id))
        else:
            fetch_context = FetchContext(self._session.partitions, self._session.id, incremental=True)
        return Fetch(request, self._context, fetch_context, _CONSUMER, is_refused=False)

    def _respond(self, response: Frame | FetchResponse) -> None:
        self.response.set_result(response)
        self._stop(self.response)  # at once, not with the callback, so that the next append does not call this any more

    def _stop(self, _: asyncio.Future[Frame | FetchResponse]) -> None:
        self._timer.cancel()
        self._partition.off_change(self._note)

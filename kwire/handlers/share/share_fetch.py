"""ShareFetch (API key 78): acquire records for a member of a share group, and acknowledge earlier ones (KIP-932).

Behaviour:

- The request opens, continues or ends the member's share session (`share.sessions`). If there are too many sessions,
  SHARE_SESSION_LIMIT_REACHED comes after ``max_wait_ms``, so that clients do not try again at once.
- Acknowledgements in the request are applied first (`share.acknowledging`), then records are acquired
  (`share.fetching`); the response comes when both are done.
- A response contains the partitions with records or errors, those added to the session by this request, and those that
  acknowledged something.
- With ``is_renew_ack``, nothing is fetched, and the limits must be 0 (KIP-1222).
- If this broker no longer leads a partition, the response names the new leader (KIP-951).
- Batches are sent as ranges of the log's files. The first and the last one may have records that the member has not
  acquired: clients drop these.

Versions: 2 ``share_acquire_mode`` (KIP-1206) and ``is_renew_ack`` (KIP-1222).
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.share_fetch_request import AcknowledgementBatch, ShareFetchRequest
from kwire.codec.messages.share_fetch_response import (
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, top_level_error
from kwire.handlers.authorization import is_topic_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.data.current_leader import endpoints
from kwire.handlers.data.fetch.consumer_quota import charge, client_bytes_max
from kwire.handlers.data.fetch.fetched_partition import records_size
from kwire.handlers.partitions import has_partition
from kwire.handlers.share.acknowledging import Pending, Result, acknowledge, settle, topics_of
from kwire.handlers.share.fetching import ShareRead, failed_partition, release
from kwire.handlers.share.requests import session_key
from kwire.handlers.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey, SessionKey, ShareSession
from kwire.security.acls.operations import AclOperation


class _Accepted(NamedTuple):
    """A request whose session is in order. ``epoch`` is the one that the session expects next."""

    request: ShareFetchRequest
    context: RequestContext
    key: SessionKey
    session: ShareSession
    epoch: int

    @property
    def is_incremental(self) -> bool:
        """Whether it continues a session, so that its response may leave partitions out."""
        return self.request.share_session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH)


async def handle(request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    """Acknowledge, acquire, and answer when both are done."""
    try:
        key = session_key(request.group_id, request.member_id, context)
        _check_renewal(request)
        session = _session(request, key, context)
    except KafkaError as error:
        if error.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            await asyncio.sleep(max(request.max_wait_ms, 0) / 1000)
        return top_level_error(ShareFetchResponse, error.code)  # type: ignore[no-any-return]
    accepted = _Accepted(request, context, key, session, session.epoch)
    pending = acknowledge(_batches(request), *key, context, is_renew_ack=request.is_renew_ack)
    fetched = await _fetch(accepted)
    return _response(accepted, fetched, await _settled(pending, context))


def _check_renewal(request: ShareFetchRequest) -> None:
    if not request.is_renew_ack:
        return
    limits = {
        "maxBytes": request.max_bytes,
        "minBytes": request.min_bytes,
        "maxRecords": request.max_records,
        "maxWaitMs": request.max_wait_ms,
    }
    wrong = [name for name, value in limits.items() if value != 0]
    if wrong:
        text = "".join(f"{name} must be set to 0, " for name in wrong)
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text}if isRenewAck is true.")


def _session(request: ShareFetchRequest, key: SessionKey, context: RequestContext) -> ShareSession:
    """The session that the request opens, continues or ends. KafkaError."""
    sessions = context.services.shares.partitions.sessions
    epoch = request.share_session_epoch
    if epoch == FINAL_EPOCH:
        return sessions.find(key)
    by_id = context.services.image.topics_by_id
    named = {
        (topic.topic_id, partition.partition_index): by_id[topic.topic_id].name if topic.topic_id in by_id else None
        for topic in request.topics
        for partition in topic.partitions
    }
    if epoch == INITIAL_EPOCH:
        if any(_batches(request).values()):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return sessions.open(key, named, context.connection_id)
    session = sessions.expect(key, epoch)
    forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    session.update(named, forgotten)
    session.advance()
    return session


def _batches(request: ShareFetchRequest) -> dict[PartitionKey, list[AcknowledgementBatch]]:
    return {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


async def _settled(pending: dict[PartitionKey, Pending], context: RequestContext) -> dict[PartitionKey, Result]:
    return await settle(pending, context) if pending else {}


async def _fetch(accepted: _Accepted) -> dict[PartitionKey, PartitionData]:
    """Read the session's partitions; none in the last request of a session, or in one that renews."""
    request, context, key, session, _ = accepted
    if request.is_renew_ack or request.share_session_epoch == FINAL_EPOCH:
        return {}
    failed: dict[PartitionKey, PartitionData] = {}
    readable: list[PartitionKey] = []
    for partition, known in session.partitions.items():
        code = _refusal(partition, known.topic, context)
        if code is ErrorCode.NONE:
            readable.append(partition)
        else:
            failed[partition] = failed_partition(partition, code, context)
    metrics = context.services.shares.partitions.metrics
    if not readable:
        return failed
    metrics.fetched(topics_of(readable, context))
    max_bytes = min(request.max_bytes, context.services.config.fetch_max_bytes)
    if context.services.quotas.active:
        max_bytes = min(max_bytes, client_bytes_max(context))
    read = ShareRead(request, key, readable, context, max_bytes)
    found = await read.response
    if broken := [key for key, data in found.items() if data.error_code]:
        metrics.fetch_failed(topics_of(broken, context))
    return failed | found


def _refusal(key: PartitionKey, topic: str | None, context: RequestContext) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not is_topic_allowed(context, AclOperation.READ, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    image = context.services.image
    if key[0] not in image.topics_by_id or not has_partition(image, topic, key[1]):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _response(
    accepted: _Accepted, fetched: dict[PartitionKey, PartitionData], acknowledged: dict[PartitionKey, Result]
) -> ShareFetchResponse:
    request, context, key, session, epoch = accepted
    shares = context.services.shares.partitions
    response = ShareFetchResponse(acquisition_lock_timeout_ms=shares.settings(key.group_id).limits.lock_duration_ms)
    if context.services.quotas.active:
        preview = ShareFetchResponse(responses=_by_topic(fetched))
        response.throttle_time_ms = charge(context, lambda: preview)
    if response.throttle_time_ms or (accepted.is_incremental and session.epoch != epoch):
        release(fetched.values())
        fetched = {}
        if session.epoch != epoch:
            response.error_code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
    context.charged = None if context.charged is None else []
    for partition in list(fetched):
        data = fetched[partition]
        is_included = session.includes(partition, records_size(data.records), data.error_code)
        if accepted.is_incremental and not is_included:
            del fetched[partition]
    _add_results(fetched, acknowledged)
    response.responses = _by_topic(fetched)
    leaders = {data.current_leader.leader_id: None for data in fetched.values() if data.current_leader.leader_epoch}
    if leaders:
        response.node_endpoints = endpoints(context, leaders, NodeEndpoint)
    if request.share_session_epoch == FINAL_EPOCH and shares.sessions.remove(key) is session:
        shares.release(session)
    return response


def _add_results(fetched: dict[PartitionKey, PartitionData], acknowledged: dict[PartitionKey, Result]) -> None:
    for key, error in acknowledged.items():
        data = fetched.get(key)
        if data is None:
            data = fetched[key] = PartitionData(partition_index=key[1], records=b"")
        if error is not None:
            data.acknowledge_error_code, data.acknowledge_error_message = error.code, error.message


def _by_topic(partitions: dict[PartitionKey, PartitionData]) -> list[ShareFetchableTopicResponse]:
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for (topic_id, _), data in partitions.items():
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
        topic.partitions.append(data)
    return list(topics.values())


API = Api(ApiKey.SHARE_FETCH, served=(1, 2), handle=handle, cancel_on_disconnect=True)

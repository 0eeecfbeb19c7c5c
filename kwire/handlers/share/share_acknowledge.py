"""ShareAcknowledge (API key 79): acknowledge records of a share group without fetching more (KIP-932).

Behaviour: the session must exist and expect this epoch (`share.sessions`); epoch -1 ends it after the acknowledgements,
and what the member still holds is released. A partition's result is sent once its state is written; if that fails, the
records are held as before. If this broker no longer leads a partition, the response names the new leader (KIP-951).

Versions: 2 renewals (KIP-1222) and the acquisition lock timeout.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.share_acknowledge_request import AcknowledgementBatch, ShareAcknowledgeRequest
from kwire.codec.messages.share_acknowledge_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, top_level_error
from kwire.handlers.context import RequestContext
from kwire.handlers.data.current_leader import LEADER_CHANGED, current_leader, endpoints
from kwire.handlers.share.acknowledging import Result, acknowledge, settle
from kwire.handlers.share.requests import session_key
from kwire.handlers.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey


async def handle(request: ShareAcknowledgeRequest, context: RequestContext) -> ShareAcknowledgeResponse:
    """Apply the acknowledgements, and answer when they are written."""
    try:
        key = session_key(request.group_id, request.member_id, context)
        if request.share_session_epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        shares = context.services.shares.partitions
        session = shares.sessions.expect(key, request.share_session_epoch)
    except KafkaError as error:
        return top_level_error(ShareAcknowledgeResponse, error.code)  # type: ignore[no-any-return]
    if request.share_session_epoch != FINAL_EPOCH:
        session.advance()
    batches: dict[PartitionKey, list[AcknowledgementBatch]] = {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }
    pending = acknowledge(batches, *key, context, is_renew_ack=request.is_renew_ack)
    results = await settle(pending, context)
    if request.share_session_epoch == FINAL_EPOCH and shares.sessions.remove(key) is session:
        shares.release(session)
    lock_ms = shares.settings(key.group_id).limits.lock_duration_ms
    return _response(results, context, lock_ms)


def _response(results: dict[PartitionKey, Result], context: RequestContext, lock_ms: int) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders: dict[int, None] = {}
    for (topic_id, index), error in results.items():
        data = PartitionData(partition_index=index)
        if error is not None:
            data.error_code, data.error_message = error.code, error.message
            if error.code in LEADER_CHANGED:
                data.current_leader = current_leader(context, topic_id, index, error.code, LeaderIdAndEpoch)
                leaders[data.current_leader.leader_id] = None
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id=topic_id)
        topic.partitions.append(data)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms,
        responses=list(topics.values()),
        node_endpoints=endpoints(context, leaders, NodeEndpoint) if leaders else [],
    )


API = Api(ApiKey.SHARE_ACKNOWLEDGE, served=(1, 2), handle=handle)

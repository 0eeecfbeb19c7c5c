"""The internal topics of an application of Kafka Streams: created in the background, in the name of the client.

The heartbeat does not wait for them. Its response has the status MISSING_INTERNAL_TOPICS until the topics are there,
with the reason if they cannot be created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.base.logging import get_logger
from kwire.codec.messages.create_topics_request import CreateTopicsRequest
from kwire.codec.messages.streams_group_heartbeat_response import Status as StatusField
from kwire.codec.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kwire.codec.protocol import ApiKey
from kwire.coordinator.groups.streams.topology.configured import Status
from kwire.handlers.authorization import CREATE_IN_CLUSTER, allowed_topics, is_allowed
from kwire.handlers.context import Purpose, RequestContext
from kwire.handlers.forwarding import creatable, forwarded
from kwire.handlers.topics.create_topics import handle as create_topics
from kwire.security.acls.operations import AclOperation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.coordinator.groups.streams.protocol import StreamsHeartbeat
    from kwire.coordinator.groups.streams.topology.configured import InternalTopic

CREATE_TOPICS_VERSION: Final = 7
REASONS_MAX: Final = 3
"""How many reasons a status names; it says how many more there are."""

_logger = get_logger("kwire.handlers.groups.streams")


def create_missing(context: RequestContext, heartbeat: StreamsHeartbeat) -> None:
    """Create the topics that a heartbeat has found missing, if the client may, or tell it why they are missing."""
    topics, response = heartbeat.missing_topics, heartbeat.response
    names = [topic.name for topic in topics]
    denied = []
    if not is_allowed(context, CREATE_IN_CLUSTER, Purpose.CHOICE):
        allowed = allowed_topics(context, AclOperation.CREATE, names)
        denied = [name for name in names if name not in allowed]
    if denied:
        _add_detail(response, f"Unauthorized to CREATE on topics {', '.join(denied)}.")
        return
    services = context.services
    creations, now_ms = services.groups.topic_creations, _now_ms(context)
    wanted = creations.begin(topics, now_ms)
    if wanted:
        work = _create(context, wanted, heartbeat.creation_pause_ms)
        services.groups.run_in_background(work, "create internal topics")
    reasons = creations.reasons(topics, now_ms)
    if reasons:
        shown = ", ".join(f"{name} ({reason})" for name, reason in list(reasons.items())[:REASONS_MAX])
        more = f" and {len(reasons) - REASONS_MAX} more" if len(reasons) > REASONS_MAX else ""
        _add_detail(response, f"Creation failed: {shown}{more}.")


def _add_detail(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    statuses = response.status = response.status or []
    for status in statuses:
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail = f"{status.status_detail}; {detail}"
            return
    statuses.append(StatusField(status_code=Status.MISSING_INTERNAL_TOPICS, status_detail=detail))


async def _create(context: RequestContext, topics: Sequence[InternalTopic], pause_ms: int) -> None:
    """Create topics, wherever the controller is. Failures are remembered for ``pause_ms``."""
    reasons: dict[str, str] = {}
    try:
        request = CreateTopicsRequest(
            topics=[creatable(topic) for topic in topics], timeout_ms=context.services.config.request_timeout_ms
        )
        response = await resolved(forwarded(create_topics)(request, _for_creation(context)))
        for topic in response.topics:
            if topic.error_code:
                reasons[topic.name] = topic.error_message or ErrorCode(topic.error_code).name
    except KafkaError as error:
        reasons = dict.fromkeys((topic.name for topic in topics), error.message or error.code.name)
    finally:
        context.services.groups.topic_creations.end(topics, reasons, _now_ms(context) + pause_ms)
    for name, reason in reasons.items():
        _logger.warning("internal topic cannot be created", topic=name, reason=reason)


def _for_creation(context: RequestContext) -> RequestContext:
    """The circumstances of a CreateTopics request of the same client."""
    return RequestContext(
        context.services,
        api_key=ApiKey.CREATE_TOPICS,
        api_version=CREATE_TOPICS_VERSION,
        correlation_id=context.correlation_id,
        client_id=context.client_id,
        client_host=context.client_host,
        listener=context.listener,
        principal=context.principal,
        security=context.security,
        endpoint=context.endpoint,
        connection_id=context.connection_id,
    )


def _now_ms(context: RequestContext) -> int:
    return int(context.services.doors.clock.monotonic() * 1000)

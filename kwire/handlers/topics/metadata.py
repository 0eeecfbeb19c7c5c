"""Metadata (API key 3): brokers, controller, and topics with their partitions' leaders.

Behaviour:

- Topics: null stands for all, an empty list for none (version 0: an empty list for all); otherwise by name or by id. If
  one entry has an id, entries without one are ignored. Each topic is in the response once.
- A missing topic is created with the broker's defaults if both the client and `auto.create.topics.enable` allow it.
  Kafka responds UNKNOWN_TOPIC_OR_PARTITION, creates the topic, and the client retries; here the response has the new
  topic. UNKNOWN_TOPIC_OR_PARTITION if it cannot be created.
- INVALID_TOPIC_EXCEPTION for an impossible name; UNKNOWN_TOPIC_ID; TOPIC_AUTHORIZATION_FAILED if the topic may not be
  described (of all topics, it is left out).
- An id before version 12, or neither name nor id: INVALID_REQUEST for every topic, and no brokers.
- Topics are encoded once for each version, until the cluster's image changes (`topics.encoded_metadata`). The first
  time, very many partitions are encoded in slices, between which other clients get their turn; with authorised
  operations, and in version 0, each time.
- Version 0 has only the replicas whose brokers are running, and REPLICA_NOT_AVAILABLE for a partition that has others.
- Brokers have the address of the listener that the client is connected to. If no broker is registered (all sessions
  have expired at once), the response has this one alone: after a response without brokers, librdkafka would forget all
  known addresses.

Versions: 1 controller, racks, internal flag; 2 cluster id; 4 the client may forbid auto-creation; 5 offline replicas; 7
leader epochs (KIP-320); 8 authorised operations (KIP-430); 9 flexible; 10 topic ids in the response (KIP-516); 11 no
cluster operations any more (KIP-700); 12 topic ids in the request; 13 top-level error (KIP-1102).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, TypeVar

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater, in_turns, is_later, resolved, then
from kwire.base.uuids import ZERO_UUID
from kwire.cluster.metadata.image import ClusterImage, TopicImage
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import (
    CREATE_IN_CLUSTER,
    SLICE_NAMES,
    allowed_topics_in_slices,
    is_allowed,
    is_topic_allowed,
)
from kwire.handlers.context import Purpose, RequestContext
from kwire.handlers.forwarding import auto_create
from kwire.handlers.slices import encode_in_slices, in_slices
from kwire.handlers.topic_metadata import (
    NOT_ASKED,
    absence_error,
    cluster_operations,
    controller_id,
    leader_error,
    offline_replicas,
    reachable_brokers,
    topic_operations,
)
from kwire.handlers.topics import encoded_metadata
from kwire.security.acls.operations import AclOperation

IDS_SINCE: Final = 12
_DESCRIBE: Final = AclOperation.DESCRIBE  # here, because a member of an enumeration is found slowly

SLICE_PARTITIONS: Final = 150
"""Partitions that are described and encoded before other clients get their turn: about half a millisecond."""

SLICE_TOPICS: Final = 100
"""Topics whose authorised operations are found before other clients get their turn: up to four milliseconds with very
many ACLs."""

T = TypeVar("T")

KEPT_MAX: Final = 64
KEPT_BYTES: Final = 16 * 1024
"""Responses about named topics that are kept until the image changes, and the bytes of each at most: clients ask for
the same ones again and again."""


def handle(request: MetadataRequest, context: RequestContext) -> NowOrLater[MetadataResponse]:
    """Respond from the image; wait only for topics that have to be created first."""
    topics = request.topics
    if topics is None or (not topics and context.api_version == 0):
        return _respond_with_all(request, context)
    if any(topic.topic_id != ZERO_UUID for topic in topics):
        if context.api_version < IDS_SINCE:
            return refuse(request, context.api_version, ErrorCode.INVALID_REQUEST, None)
        return _respond_by_id(request, context, [each.topic_id for each in topics if each.topic_id != ZERO_UUID])
    names = [topic.name for topic in topics if topic.name is not None]
    if len(names) < len(topics):
        return refuse(request, context.api_version, ErrorCode.INVALID_REQUEST, None)
    kept = _kept(request, context, names)
    if kept is not None:
        return kept
    if request.allow_auto_topic_creation and context.services.config.auto_create_topics_enable:
        missing = _missing(context, names)
        if is_later(missing) or missing:
            return then(missing, partial(_create_missing, request, context, names))
    return _respond_by_name(request, context, names)


def _respond_by_name(
    request: MetadataRequest, context: RequestContext, names: list[str], refused: Collection[str] = ()
) -> NowOrLater[MetadataResponse]:
    """Respond about named topics. ``refused``: those that the client may not create."""
    image = context.services.image
    if len(names) > SLICE_NAMES:
        allowed = allowed_topics_in_slices(context, _DESCRIBE, names)
        return then(allowed, partial(_respond_about, request, context, image, names, refused))
    return _respond_about(request, context, image, names, refused, None)


def _respond_about(
    request: MetadataRequest,
    context: RequestContext,
    image: ClusterImage,
    names: list[str],
    refused: Collection[str],
    allowed: Collection[str] | None,
) -> NowOrLater[MetadataResponse]:
    """Respond about named topics. ``allowed``: those that the client may describe, None if that is yet to be found."""
    wanted = list(dict.fromkeys(names))
    known = [image.topics[each] for each in wanted if each in image.topics]
    fresh = _for_slices(request, context, image, known)
    describe = partial(_by_names, context, image, refused, allowed)
    if len(wanted) - len(known) > SLICE_NAMES:
        return _respond_one_by_one(request, context, image, fresh or (), wanted, describe)
    named = partial(describe, wanted)
    respond = partial(_respond_with_named, request, context, image, names, named)
    return respond() if fresh is None else _respond_in_slices(request, context, image, fresh, named, respond)


def _respond_with_named(
    request: MetadataRequest,
    context: RequestContext,
    image: ClusterImage,
    names: list[str],
    named: Callable[[], list[MetadataResponseTopic]],
) -> MetadataResponse:
    response = _respond(request, context, image, named())
    if _is_encodable(request, context):
        body = _encode(context, image, response)
        if body is not None and len(body) <= KEPT_BYTES and all(not topic.error_code for topic in response.topics):
            kept = image.notes.setdefault(_kept, {})
            if len(kept) < KEPT_MAX and not request.include_cluster_authorized_operations:
                kept[_kept_as(context, names)] = response, body
    return response


def _kept(request: MetadataRequest, context: RequestContext, names: list[str]) -> MetadataResponse | None:
    """The response to an earlier request that was the same, if this client may describe these topics, too."""
    found = context.services.image.notes.get(_kept)
    if found is None or request.include_cluster_authorized_operations or not _is_encodable(request, context):
        return None
    kept: tuple[MetadataResponse, bytes] | None = found.get(_kept_as(context, names))
    if kept is None:
        return None
    for name in names:
        if not is_topic_allowed(context, _DESCRIBE, name):
            return None
    context.charged = [kept[1]]
    return kept[0]


def _kept_as(context: RequestContext, names: list[str]) -> tuple[object, ...]:
    return context.api_version, context.listener, context.endpoint, *names


def _for_slices(
    request: MetadataRequest, context: RequestContext, image: ClusterImage, topics: Collection[TopicImage]
) -> list[TopicImage] | None:
    """The topics that have to be described and encoded first; None if everything can be done in one turn. Topics that
    are encoded for this response alone count even if they are described already."""
    is_encodable = _is_encodable(request, context)
    encoded = encoded_metadata.topics_of(image, context.api_version) if is_encodable else None
    if encoded is None:
        fresh = [topic for topic in topics if (_described, topic.name) not in image.notes]
    else:
        fresh = [topic for topic in topics if not encoded.has(topic.name)]
    work = fresh if is_encodable else topics
    if sum(len(topic.partitions) for topic in work) > SLICE_PARTITIONS:
        return fresh
    return fresh if request.include_topic_authorized_operations and len(topics) > SLICE_TOPICS else None


async def _respond_in_slices(
    request: MetadataRequest,
    context: RequestContext,
    image: ClusterImage,
    fresh: list[TopicImage],
    topics: Callable[[], list[MetadataResponseTopic]],
    respond: Callable[[], MetadataResponse],
) -> MetadataResponse:
    """Respond from the image that ``fresh`` is of: about ``topics`` if they are encoded for this response alone,
    otherwise by ``respond``."""
    await _prepare_in_slices(request, context, image, fresh)
    return respond() if _is_encodable(request, context) else await _respond_alone(request, context, image, topics())


async def _respond_one_by_one(
    request: MetadataRequest,
    context: RequestContext,
    image: ClusterImage,
    fresh: Collection[TopicImage],
    wanted: Sequence[T],
    describe: Callable[[Sequence[T]], list[MetadataResponseTopic]],
) -> MetadataResponse:
    """Respond about very many names or ids, many of which may be absent: nothing is kept of those."""
    await _prepare_in_slices(request, context, image, fresh)
    topics = await resolved(in_slices(wanted, describe, SLICE_NAMES))
    return await _respond_alone(request, context, image, topics)


async def _respond_alone(
    request: MetadataRequest, context: RequestContext, image: ClusterImage, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    """Respond with topics that are encoded for this response alone."""
    response = _respond(request, context, image, topics, is_finished=False)
    finish = partial(_finished, request, context, image)
    response.topics = await resolved(in_slices(response.topics, finish, SLICE_TOPICS))
    return await encode_in_slices(context, response)


async def _prepare_in_slices(
    request: MetadataRequest, context: RequestContext, image: ClusterImage, fresh: Collection[TopicImage]
) -> None:
    """Describe and encode topics, with a turn for other clients after every `SLICE_PARTITIONS` that are described."""
    done = 0
    for topic in fresh:
        partitions: list[MetadataResponsePartition] = []
        while (_described, topic.name) not in image.notes:
            end = len(partitions) + SLICE_PARTITIONS - done
            more = _describe_partitions(image, topic, range(len(partitions), min(end, len(topic.partitions))))
            partitions += more
            done += len(more)
            if len(partitions) == len(topic.partitions):
                _note_described(image, topic, partitions)
            if done >= SLICE_PARTITIONS:
                done = 0
                await asyncio.sleep(0)
        encoded = encoded_metadata.topics_of(image, context.api_version) if _is_encodable(request, context) else None
        if encoded is not None and not encoded.has(topic.name):
            if len(topic.partitions) > SLICE_PARTITIONS:
                await encoded.add_in_slices(_described(image, topic))
            else:
                encoded.add(_described(image, topic))


def _is_encodable(request: MetadataRequest, context: RequestContext) -> bool:
    """Whether the topics in the response are those of all others: version 0 and authorised operations change them. With
    quotas, the response may say for how long the client is throttled."""
    return (
        context.api_version > 0
        and not request.include_topic_authorized_operations
        and not context.services.quotas.active
    )


def _encode(context: RequestContext, image: ClusterImage, response: MetadataResponse) -> bytes | None:
    """Take the bytes of the response's topics from those that are known; returns the body, None if there is none."""
    encoded = encoded_metadata.topics_of(image, context.api_version)
    if encoded is None:
        return None
    described = image.notes
    topics = [
        encoded.add(topic) if described.get((_described, topic.name)) is topic else encoded.encoded(topic)
        for topic in response.topics
    ]
    body = encoded.body(response, topics)
    context.charged = [body]
    return body


def _respond_with_all(request: MetadataRequest, context: RequestContext) -> NowOrLater[MetadataResponse]:
    """All topics that the client may describe."""
    image = context.services.image
    allowed = allowed_topics_in_slices(context, _DESCRIBE, image.topics, Purpose.CHOICE)
    return then(allowed, partial(_respond_with_allowed, request, context, image))


def _respond_with_allowed(
    request: MetadataRequest, context: RequestContext, image: ClusterImage, allowed: Collection[str]
) -> NowOrLater[MetadataResponse]:
    known = image.topics
    topics = known.values() if len(allowed) == len(known) else [known[name] for name in allowed]
    fresh = _for_slices(request, context, image, topics)
    described = partial(_all_described, image, topics)
    respond = partial(_respond_with_known, request, context, image, described)
    return respond() if fresh is None else _respond_in_slices(request, context, image, fresh, described, respond)


def _all_described(image: ClusterImage, topics: Collection[TopicImage]) -> list[MetadataResponseTopic]:
    return [_described(image, topic) for topic in topics]


def _respond_with_known(
    request: MetadataRequest,
    context: RequestContext,
    image: ClusterImage,
    described: Callable[[], list[MetadataResponseTopic]],
) -> MetadataResponse:
    """Respond with the bytes of all topics, or of those that the client may describe."""
    response = _respond(request, context, image, described())
    if not _is_encodable(request, context):
        return response
    bodies = encoded_metadata.whole(image)
    cluster_wanted = request.include_cluster_authorized_operations
    key = context.api_version, context.listener, context.endpoint
    if cluster_wanted or len(response.topics) < len(image.topics):
        _encode(context, image, response)
    elif (body := bodies.get(key)) is not None:
        context.charged = [body]
    else:
        made = _encode(context, image, response)
        if made is not None and len(bodies) < encoded_metadata.WHOLE_MAX:
            bodies[key] = made
    return response


def _missing(context: RequestContext, names: list[str]) -> NowOrLater[dict[str, None]]:
    """The topics that the client may describe and that do not exist."""
    known = context.services.image.topics
    absent = [name for name in dict.fromkeys(names) if name not in known]
    if not absent:
        return {}
    return then(in_slices(absent, _possible, SLICE_NAMES), partial(allowed_topics_in_slices, context, _DESCRIBE))


def _possible(names: Sequence[str]) -> list[str]:
    return [name for name in names if absence_error(name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def _create_missing(
    request: MetadataRequest, context: RequestContext, names: list[str], missing: dict[str, None]
) -> NowOrLater[MetadataResponse]:
    """Respond about named topics, of which some are missing, once those that the client may create are created."""
    if not missing:
        return _respond_by_name(request, context, names)
    return then(_creatable(context, missing), partial(_create, request, context, names, missing))


def _creatable(context: RequestContext, missing: dict[str, None]) -> NowOrLater[dict[str, None]]:
    """The topics that the client may create."""
    if is_allowed(context, CREATE_IN_CLUSTER, Purpose.CHOICE):
        return missing
    return allowed_topics_in_slices(context, AclOperation.CREATE, missing)


def _create(
    request: MetadataRequest,
    context: RequestContext,
    names: list[str],
    missing: dict[str, None],
    creatable: dict[str, None],
) -> NowOrLater[MetadataResponse]:
    refused = missing.keys() - creatable.keys()
    if not creatable:
        return _respond_by_name(request, context, names, refused)
    return _respond_after_creation(request, context, names, list(creatable), refused)


async def _respond_after_creation(
    request: MetadataRequest, context: RequestContext, names: list[str], created: list[str], refused: Collection[str]
) -> MetadataResponse:
    await auto_create(context, created, for_client=True)
    await _log_creation(context, created)
    return await resolved(_respond_by_name(request, context, names, refused))


async def _log_creation(context: RequestContext, created: list[str]) -> None:
    """Write the audit log's lines about the topics that there are now."""
    from kwire.handlers.audit.changes import lines, topics_created

    topics = context.services.image.topics
    await in_turns(lines(context, topics_created(name for name in created if name in topics)))


def _respond_by_id(request: MetadataRequest, context: RequestContext, ids: list[bytes]) -> NowOrLater[MetadataResponse]:
    image = context.services.image
    wanted = list(dict.fromkeys(ids))
    known = [image.topics_by_id[each] for each in wanted if each in image.topics_by_id]
    fresh = _for_slices(request, context, image, known)
    if fresh is not None or len(wanted) > SLICE_NAMES:
        return _respond_one_by_one(request, context, image, fresh or (), wanted, partial(_by_ids, context, image))
    return _respond(request, context, image, _by_ids(context, image, wanted))


def _respond(
    request: MetadataRequest,
    context: RequestContext,
    image: ClusterImage,
    topics: list[MetadataResponseTopic],
    *,
    is_finished: bool = True,
) -> MetadataResponse:
    """The response from an image. Not ``is_finished``: its topics are those of any request."""
    cluster_wanted = request.include_cluster_authorized_operations and context.api_version < 11
    return MetadataResponse(
        brokers=_brokers(image, context),
        cluster_id=image.cluster_id,
        controller_id=controller_id(image),
        topics=_finished(request, context, image, topics) if is_finished else topics,
        cluster_authorized_operations=cluster_operations(context) if cluster_wanted else NOT_ASKED,
    )


def _brokers(image: ClusterImage, context: RequestContext) -> list[MetadataResponseBroker]:
    brokers = [
        MetadataResponseBroker(node_id=broker.id, host=host, port=port, rack=broker.rack)
        for broker, host, port in reachable_brokers(image, context)
    ]
    if not brokers:
        host, port = context.endpoint
        rack = context.services.config.broker_rack
        brokers = [MetadataResponseBroker(node_id=context.services.broker_id, host=host, port=port, rack=rack)]
    return brokers


def _finished(
    request: MetadataRequest, context: RequestContext, image: ClusterImage, topics: Sequence[MetadataResponseTopic]
) -> list[MetadataResponseTopic]:
    """Topics as this request and its version want them."""
    if context.api_version == 0:
        topics = [_with_running_replicas(image, topic) for topic in topics]
    if request.include_topic_authorized_operations:
        topics = [_with_operations(context, topic) for topic in topics]
    return list(topics)


def _by_names(
    context: RequestContext,
    image: ClusterImage,
    refused: Collection[str],
    allowed: Collection[str] | None,
    names: Sequence[str],
) -> list[MetadataResponseTopic]:
    """Topics by name. ``refused``: those that the client may not create; ``allowed``: those that it may describe, None
    if that is yet to be found."""
    return [_by_name(context, image, name, refused, allowed) for name in names]


def _by_name(
    context: RequestContext, image: ClusterImage, name: str, refused: Collection[str], allowed: Collection[str] | None
) -> MetadataResponseTopic:
    if not is_topic_allowed(context, _DESCRIBE, name) if allowed is None else name not in allowed:
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = image.topics.get(name)
    if topic is None:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED if name in refused else absence_error(name)
        return MetadataResponseTopic(error_code=error, name=name)
    return _described(image, topic)


def _by_ids(context: RequestContext, image: ClusterImage, ids: Sequence[bytes]) -> list[MetadataResponseTopic]:
    return [_by_id(context, image, topic_id) for topic_id in ids]


def _by_id(context: RequestContext, image: ClusterImage, topic_id: bytes) -> MetadataResponseTopic:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not is_topic_allowed(context, _DESCRIBE, topic.name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=topic_id)
    return _described(image, topic)


def _described(image: ClusterImage, topic: TopicImage) -> MetadataResponseTopic:
    """A topic as every response has it, made once per image: not to be changed."""
    described: MetadataResponseTopic | None = image.notes.get((_described, topic.name))
    if described is None:
        described = _note_described(image, topic, _describe_partitions(image, topic, range(len(topic.partitions))))
    return described


def _note_described(
    image: ClusterImage, topic: TopicImage, partitions: list[MetadataResponsePartition]
) -> MetadataResponseTopic:
    described = image.notes[_described, topic.name] = MetadataResponseTopic(
        name=topic.name, topic_id=topic.id, is_internal=topic.internal, partitions=partitions
    )
    return described


def _describe_partitions(image: ClusterImage, topic: TopicImage, indexes: range) -> list[MetadataResponsePartition]:
    return [
        MetadataResponsePartition(
            error_code=leader_error(state, image.brokers),
            partition_index=index,
            leader_id=state.leader if state.leader in image.brokers else -1,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            offline_replicas=offline_replicas(state, image.brokers),
        )
        for index, state in zip(indexes, topic.partitions[indexes.start : indexes.stop], strict=True)
    ]


def _with_running_replicas(image: ClusterImage, topic: MetadataResponseTopic) -> MetadataResponseTopic:
    """A topic as version 0 has it: without the replicas on brokers that are not running."""
    return MetadataResponseTopic(
        error_code=topic.error_code,
        name=topic.name,
        partitions=[_with_running(image, partition) for partition in topic.partitions],
    )


def _with_running(image: ClusterImage, partition: MetadataResponsePartition) -> MetadataResponsePartition:
    replicas = [broker for broker in partition.replica_nodes if broker in image.brokers]
    isr = [broker for broker in partition.isr_nodes if broker in image.brokers]
    complete = len(replicas) == len(partition.replica_nodes) and len(isr) == len(partition.isr_nodes)
    return MetadataResponsePartition(
        error_code=partition.error_code or (ErrorCode.NONE if complete else ErrorCode.REPLICA_NOT_AVAILABLE),
        partition_index=partition.partition_index,
        leader_id=partition.leader_id,
        replica_nodes=replicas,
        isr_nodes=isr,
    )


def _with_operations(context: RequestContext, topic: MetadataResponseTopic) -> MetadataResponseTopic:
    if topic.name is None or topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return topic
    return MetadataResponseTopic(
        error_code=topic.error_code,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=topic.partitions,
        topic_authorized_operations=topic_operations(context, topic.name),
    )


def refuse(request: MetadataRequest, version: int, code: ErrorCode, message: str | None) -> MetadataResponse:
    """The same error for every topic; without named topics, a top-level error."""
    topics = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(error_code=ErrorCode.NONE if topics else code, topics=topics)


API = Api(ApiKey.METADATA, served=(0, 13), handle=handle, error_response=refuse)

"""FindCoordinator (API key 10): the broker that coordinates a group, a transactional id or a share partition.

Behaviour:

* Group id -> partition of ``__consumer_offsets``, by Java's hash of the id -> leader of that partition. The topic is
  created at the first request (``offsets.topic.num.partitions``, ``offsets.topic.replication.factor``).
* Transactional ids likewise: ``__transaction_state``, ``transaction.state.log.num.partitions`` and so on.
* COORDINATOR_NOT_AVAILABLE with node -1 while there is no leader. INVALID_REQUEST for an unknown key type.
* Share partitions (GROUP:TOPIC_ID:PARTITION, from the version on that has them) likewise: ``__share_group_state``,
  ``share.coordinator.state.topic.num.partitions`` and so on. Only brokers (CLUSTER_ACTION) may ask. INVALID_REQUEST for
  another form of the key.

Versions: 1 key types, error message (on success "NONE"); 3 flexible; 4 many keys of one type (KIP-699); 5
TRANSACTION_ABORTABLE (KIP-890: no effect here); 6 share keys (KIP-932).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater
from kwire.base.uuids import uuid_from_text
from kwire.cluster.metadata.image import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import (
    CLUSTER_ACTION,
    group_operation,
    is_allowed,
    require,
    transactional_id_operation,
)
from kwire.handlers.context import Purpose, RequestContext
from kwire.handlers.forwarding import auto_create
from kwire.security.acls.operations import AclOperation, Operation

_PARTITION: Final = re.compile(r"[+-]?[0-9]+")
"""What Java reads as a number."""
MESSAGE_SINCE: Final = 1
MANY_KEYS_SINCE: Final = 4
SHARE_KEYS_SINCE: Final = 6
_TEXTS: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "There is no coordinator at present.",
    ErrorCode.INVALID_REQUEST: "A coordinator key of a type that is not known.",
}


class KeyType(IntEnum):
    """The types of coordinator keys."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_TOPICS: Final[dict[int, str]] = {
    KeyType.GROUP: OFFSETS_TOPIC,
    KeyType.TRANSACTION: TRANSACTIONS_TOPIC,
    KeyType.SHARE: SHARE_STATE_TOPIC,
}
"""The topic in which the coordinators of a key type keep their state."""

_OPERATIONS: Final[dict[int, Callable[[AclOperation, str], Operation]]] = {
    KeyType.GROUP: group_operation,
    KeyType.TRANSACTION: transactional_id_operation,
    KeyType.SHARE: lambda operation, key: CLUSTER_ACTION[0],
}
"""What a key type's keys name: the operation on it that the client needs."""


def handle(request: FindCoordinatorRequest, context: RequestContext) -> NowOrLater[FindCoordinatorResponse]:
    """Respond from the image, after creating the topic if it does not exist."""
    topic = _TOPICS.get(request.key_type)
    if topic is not None and context.services.image.topic(topic) is None and _may_know_one(request, context):
        return _create_and_find(topic, request, context)
    return _find(request, context)


def _may_know_one(request: FindCoordinatorRequest, context: RequestContext) -> bool:
    """Whether the client may know the coordinator of one of the keys, at least: for others, no topic is created."""
    keys = request.coordinator_keys if context.api_version >= MANY_KEYS_SINCE else [request.key]
    operation = _OPERATIONS[request.key_type]
    if request.key_type == KeyType.SHARE:
        keys = [key for key in keys if context.api_version >= SHARE_KEYS_SINCE and _share_key(key) is not None]
    return any(is_allowed(context, operation(AclOperation.DESCRIBE, key), Purpose.CHOICE) for key in keys)


async def _create_and_find(
    topic: str, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    await auto_create(context, [topic])
    return _find(request, context)


def _find(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.api_version < MANY_KEYS_SINCE:
        found = _coordinator(request.key, request.key_type, context)
        error = ErrorCode(found.error_code)
        return FindCoordinatorResponse(
            error_code=error,
            error_message=_text(error) if context.api_version >= MESSAGE_SINCE else "",
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    return FindCoordinatorResponse(
        coordinators=[_coordinator(key, request.key_type, context) for key in request.coordinator_keys]
    )


def _coordinator(key: str, key_type: int, context: RequestContext) -> Coordinator:
    try:
        _check(key, key_type, context)
        node_id, host, port = _leader_of(key, key_type, context)
    except KafkaError as error:
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message="")
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message="")


def _check(key: str, key_type: int, context: RequestContext) -> None:
    """KafkaError if the key is invalid, or the principal may not know its coordinator."""
    operation = _OPERATIONS.get(key_type)
    if operation is None or (key_type == KeyType.SHARE and context.api_version < SHARE_KEYS_SINCE):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    require(context, operation(AclOperation.DESCRIBE, key))
    if key_type == KeyType.SHARE and _share_key(key) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _share_key(key: str) -> str | None:
    """The key of a share partition as its coordinator knows it; None for another form."""
    group, topic_id, partition = ([*key.rsplit(":", 2), "", ""])[:3]
    try:
        uuid_from_text(topic_id)
    except ValueError:
        return None
    if not group or not _PARTITION.fullmatch(partition) or not -(1 << 31) <= int(partition) < 1 << 31:
        return None
    return f"{group}:{topic_id}:{int(partition)}"


def _leader_of(key: str, key_type: int, context: RequestContext) -> tuple[int, str, int]:
    services = context.services
    image = services.image
    if key_type == KeyType.SHARE:
        index = services.share_coordinator.partition_of(_share_key(key) or key)
    else:
        coordinator = services.transactions if key_type == KeyType.TRANSACTION else services.groups
        index = coordinator.partition_of(key)
    state = None if index is None else image.partition(_TOPICS[key_type], index)
    if state is not None and state.leader == services.broker_id:
        return (state.leader, *context.endpoint)
    broker = None if state is None else image.brokers.get(state.leader)
    endpoint = None if broker is None else broker.endpoints.get(context.listener)
    if broker is None or endpoint is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return broker.id, endpoint.host, endpoint.port


def _text(error: ErrorCode) -> str:
    return _TEXTS.get(error, error.name)


def error_response(
    request: FindCoordinatorRequest, version: int, code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    """The same error for every key."""
    if version < MANY_KEYS_SINCE:
        text = message or _text(code)
        return FindCoordinatorResponse(error_code=code, error_message=text, node_id=-1, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)
            for key in request.coordinator_keys
        ]
    )


API = Api(ApiKey.FIND_COORDINATOR, served=(0, 6), handle=handle, error_response=error_response)

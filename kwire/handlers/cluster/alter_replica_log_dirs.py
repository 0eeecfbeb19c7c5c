"""AlterReplicaLogDirs (API key 34): move replicas of this broker between its log directories (KIP-113).

Behaviour:

- The response means that the move has started, or that the replica is there already. DescribeLogDirs shows it until it
  is done.
- For a replica that is being moved, a new target replaces the old one; its current directory cancels the move.
- LOG_DIR_NOT_FOUND for a path that is not in `log.dirs` or not absolute (checked first); INVALID_REPLICA_ASSIGNMENT for
  one in `cordoned.log.dirs` (KIP-1066); UNKNOWN_TOPIC_OR_PARTITION; REPLICA_NOT_AVAILABLE; KAFKA_STORAGE_ERROR.
- If a partition is named twice, the last directory counts.

Versions: 2 flexible.
"""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from kwire.codec.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import ALTER_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.security.acls.operations import Operation


def operations(request: AlterReplicaLogDirsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """ALTER on the cluster."""
    return ALTER_CLUSTER


def handle(request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    """Start the moves."""
    return _respond({key: _move(context, *key, path) for key, path in _requested(request).items()})


def _requested(request: AlterReplicaLogDirsRequest) -> dict[tuple[str, int], str]:
    return {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _move(context: RequestContext, topic: str, index: int, path: str) -> ErrorCode:
    try:
        context.services.replicas.move(topic, index, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _respond(codes: dict[tuple[str, int], ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), code in codes.items():
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def refuse(
    request: AlterReplicaLogDirsRequest, version: int, code: ErrorCode, message: str | None
) -> AlterReplicaLogDirsResponse:
    """The same error for every partition."""
    return _respond(dict.fromkeys(_requested(request), code))


API = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, served=(1, 2), handle=handle, operations=operations, error_response=refuse)

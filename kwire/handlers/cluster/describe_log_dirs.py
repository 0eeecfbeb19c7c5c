"""DescribeLogDirs (API key 35): the log directories, and the size of each partition in them.

Behaviour:

- Null requests all partitions. Of the named ones, those without a replica here are left out.
- The response has every directory, also an empty one, by its absolute path; KAFKA_STORAGE_ERROR for one that failed.
- Total and usable bytes are those of the volume. A partition that is being moved into a directory is listed there with
  the future flag and its lag.

Versions: 2 flexible; 3 top-level error; 4 bytes of the volume (KIP-827); 5 cordoned directories (KIP-1066).
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator

from kwire.base.errors import ErrorCode
from kwire.codec.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kwire.codec.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import DESCRIBE_CLUSTER
from kwire.handlers.context import RequestContext
from kwire.log.common.log_dirs import LogDirectory
from kwire.security.acls.operations import Operation


def operations(request: DescribeLogDirsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """DESCRIBE on the cluster."""
    return DESCRIBE_CLUSTER


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    """Describe every directory."""
    requested = None
    if request.topics is not None:
        requested = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_describe(context, each, requested) for each in context.services.logs.directories]
    )


def _describe(
    context: RequestContext, directory: LogDirectory, requested: set[tuple[str, int]] | None
) -> DescribeLogDirsResult:
    files = context.services.doors.files
    path = os.path.abspath(directory.path)  # no file access but for the working directory
    if not directory.online:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    try:
        total, usable = files.disk_usage(directory.path)
    except OSError:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    return DescribeLogDirsResult(
        log_dir=path,
        topics=_topics(context, directory, requested),
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=directory.cordoned,
    )


def _topics(
    context: RequestContext, directory: LogDirectory, requested: set[tuple[str, int]] | None
) -> list[DescribeLogDirsTopic]:
    logs = context.services.logs
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in logs:
        if logs.directory_of(log.topic, log.partition) is not directory:
            continue
        if requested is not None and (log.topic, log.partition) not in requested:
            continue
        topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=log.partition,
                partition_size=log.size,
                offset_lag=max(log.high_watermark - log.log_end_offset, 0),
            )
        )
    for name, future in _futures(context, directory, requested):
        topics.setdefault(name, DescribeLogDirsTopic(name=name)).partitions.append(future)
    return list(topics.values())


def _futures(
    context: RequestContext, directory: LogDirectory, requested: set[tuple[str, int]] | None
) -> Iterator[tuple[str, DescribeLogDirsPartition]]:
    """The future replicas in a directory: what the moves into it have copied so far."""
    for key, move in context.services.replicas.mover.moves.items():
        log = context.services.logs.get(*key)
        if move.target is directory and log is not None and (requested is None or key in requested):
            yield (
                key[0],
                DescribeLogDirsPartition(
                    partition_index=key[1],
                    partition_size=sum(each.size for each in log.segments if each.base_offset < move.copied_to),
                    offset_lag=max(log.log_end_offset - move.copied_to, 0),
                    is_future_key=True,
                ),
            )


API = Api(ApiKey.DESCRIBE_LOG_DIRS, served=(1, 5), handle=handle, operations=operations)

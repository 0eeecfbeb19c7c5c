"""DescribeLogDirs (API key 35): the log directories, and the size of each partition in them.

Behaviour:

- Null requests all partitions. Of the named ones, those without a replica here are left out.
- The response has every directory, also an empty one, by its absolute path; KAFKA_STORAGE_ERROR for one that failed.
- Total and usable bytes are those of the volume. A partition that is being moved into a directory is listed there with
  the future flag and its lag.
- Very many partitions are described in slices.

Versions: 2 flexible; 3 top-level error; 4 bytes of the volume (KIP-827); 5 cordoned directories (KIP-1066).
"""

from __future__ import annotations

import asyncio
import os.path
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater
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
from kwire.handlers.slices import encode_in_slices
from kwire.log.common.log_dirs import LogDirectory
from kwire.security.acls.operations import Operation

if TYPE_CHECKING:
    from kwire.log.partition.partition_log import PartitionLog

SLICE_PARTITIONS: Final = 250
"""Partitions that are described before other clients get their turn: under half a millisecond."""

_Present = tuple[LogDirectory | None, str, DescribeLogDirsPartition]
"""The directory of a log, its topic, and its description."""

_Topics = dict[int, dict[str, DescribeLogDirsTopic]]
"""The topics by name, by the identity of their directory."""


def operations(request: DescribeLogDirsRequest, context: RequestContext) -> tuple[Operation, ...]:
    """DESCRIBE on the cluster."""
    return DESCRIBE_CLUSTER


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> NowOrLater[DescribeLogDirsResponse]:
    """Describe every directory."""
    requested = None
    if request.topics is not None:
        requested = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    logs = list(context.services.logs)
    if len(logs) > SLICE_PARTITIONS:
        return _handle_in_slices(context, requested, logs)
    topics: _Topics = {}
    _add_all(topics, _present(context, requested, logs))
    return _response(context, requested, topics)


async def _handle_in_slices(
    context: RequestContext, requested: set[tuple[str, int]] | None, logs: Sequence[PartitionLog]
) -> DescribeLogDirsResponse:
    topics: _Topics = {}
    for start in range(0, len(logs), SLICE_PARTITIONS):
        if start:
            await asyncio.sleep(0)
        _add_all(topics, _present(context, requested, logs[start : start + SLICE_PARTITIONS]))
    return await encode_in_slices(context, _response(context, requested, topics))


def _present(
    context: RequestContext, requested: set[tuple[str, int]] | None, logs: Sequence[PartitionLog]
) -> list[_Present]:
    """The directory and description of those of these logs that are requested."""
    directory_of = context.services.logs.directory_of
    found = []
    for log in logs:
        key = log.topic, log.partition
        if requested is None or key in requested:
            described = DescribeLogDirsPartition(
                partition_index=log.partition,
                partition_size=log.size,
                offset_lag=max(log.high_watermark - log.log_end_offset, 0),
            )
            found.append((directory_of(*key), log.topic, described))
    return found


def _response(
    context: RequestContext, requested: set[tuple[str, int]] | None, topics_by_directory: _Topics
) -> DescribeLogDirsResponse:
    results = []
    for directory in context.services.logs.directories:
        topics = topics_by_directory.get(id(directory), {})
        for name, future in _futures(context, directory, requested):
            _add(topics, name, future)
        results.append(_describe(context, directory, list(topics.values())))
    return DescribeLogDirsResponse(results=results)


def _add_all(topics: _Topics, found: Iterable[_Present]) -> None:
    for directory, name, partition in found:
        _add(topics.setdefault(id(directory), {}), name, partition)


def _add(topics: dict[str, DescribeLogDirsTopic], name: str, partition: DescribeLogDirsPartition) -> None:
    topic = topics.get(name)
    if topic is None:
        topic = topics[name] = DescribeLogDirsTopic(name=name)
    topic.partitions.append(partition)


def _describe(
    context: RequestContext, directory: LogDirectory, topics: list[DescribeLogDirsTopic]
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
        log_dir=path, topics=topics, total_bytes=total, usable_bytes=usable, is_cordoned=directory.cordoned
    )


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

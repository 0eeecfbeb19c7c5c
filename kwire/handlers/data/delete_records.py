"""DeleteRecords (API key 21): make a partition begin at a later offset (KIP-107).

Behaviour: records below ``offset`` are deleted; -1 stands for the high watermark. The response comes when all replicas
on live brokers have deleted them, so that no later leader has them, and has the lowest log start offset of these
replicas. If that takes longer than the request's timeout: REQUEST_TIMED_OUT; the followers delete them later. Above the
high watermark, or negative: OFFSET_OUT_OF_RANGE. A topic that is compacted and never deleted from: POLICY_VIOLATION. An
internal topic: INVALID_TOPIC_EXCEPTION. If a partition is named twice, the last entry counts.

Versions: 1 throttled after the response (KIP-219); 2 flexible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, in_turns, resolved
from kwire.cluster.metadata.image import INTERNAL_TOPICS
from kwire.codec.messages.delete_records_request import DeleteRecordsRequest
from kwire.codec.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, error_of
from kwire.handlers.context import RequestContext
from kwire.handlers.partitions import find_partition
from kwire.handlers.slices import SLICE_PARTITIONS, encode_in_slices, in_slices
from kwire.security.acls.operations import AclOperation

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition

_UNKNOWN = -1

SLICE_DELETED: Final = 20
"""Partitions whose records are deleted before other clients get their turn: each may write a file."""

_Wanted: TypeAlias = tuple[str, Mapping[int, int]]
"""A topic, and the offset by partition."""


def handle(request: DeleteRecordsRequest, context: RequestContext) -> NowOrLater[DeleteRecordsResponse]:
    """Delete the records of every partition, here and then at the followers."""
    wanted = [
        (topic.name, {each.partition_index: each.offset for each in topic.partitions}) for topic in request.topics
    ]
    waiting = _Waiting()
    if sum(len(offsets) for _, offsets in wanted) > SLICE_PARTITIONS:
        return _handle_in_slices(request, context, wanted, waiting)
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic,
                partitions=[_delete(topic, index, offset, context, waiting) for index, offset in offsets.items()],
            )
            for topic, offsets in wanted
        ]
    )
    return _when_deleted(response, request.timeout_ms, waiting) if waiting.deletions else response


async def _when_deleted(response: DeleteRecordsResponse, timeout_ms: int, waiting: _Waiting) -> DeleteRecordsResponse:
    try:
        await waiting.wait(timeout_ms)
    finally:
        waiting.end()
    return response


async def _handle_in_slices(
    request: DeleteRecordsRequest, context: RequestContext, wanted: Sequence[_Wanted], waiting: _Waiting
) -> DeleteRecordsResponse:
    def delete(part: Sequence[tuple[str, int, int]]) -> list[DeleteRecordsPartitionResult]:
        return [_delete(*each, context, waiting) for each in part]

    await asyncio.sleep(0)  # the request has just been decoded
    try:
        flat = [(topic, index, offset) for topic, offsets in wanted for index, offset in offsets.items()]
        results = iter(await resolved(in_slices(flat, delete, SLICE_DELETED)))
        topics = [
            DeleteRecordsTopicResult(name=topic, partitions=list(islice(results, len(offsets))))
            for topic, offsets in wanted
        ]
        await waiting.wait(request.timeout_ms)
        await in_turns(waiting.end_in_steps())
    finally:
        waiting.end()
    return await encode_in_slices(context, DeleteRecordsResponse(topics=topics))


def _delete(
    topic: str, index: int, offset: int, context: RequestContext, waiting: _Waiting
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=_UNKNOWN)
    try:
        partition = find_partition(context, topic, b"", index, by_id=False, operation=AclOperation.DELETE)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition.require_leader()
        if partition.log.config.compacts and not partition.log.config.deletes:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        wanted = partition.high_watermark if offset == _UNKNOWN else offset
        partition.delete_records_before(offset)
        deletion = _Deletion(context, partition, wanted, result, waiting)
        if not deletion.check():
            deletion.begin()
    except Exception as error:
        code, _ = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            context.services.log_failure("delete_records", error)
        result.error_code = int(code)
    return result


class _Waiting:
    """The deletions that wait for followers, all of them with one future."""

    def __init__(self) -> None:
        self.deletions: list[_Deletion] = []
        self._left = 0
        self._over: asyncio.Future[None] | None = None

    def add(self, deletion: _Deletion) -> None:
        """A deletion waits."""
        self.deletions.append(deletion)
        self._left += 1

    def one_is_done(self) -> None:
        """One of them waits no longer."""
        self._left -= 1
        if not self._left and self._over is not None and not self._over.done():
            self._over.set_result(None)

    async def wait(self, timeout_ms: int) -> None:
        """Returns when none waits, or after this time."""
        if self._left:
            self._over = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._over], timeout=max(timeout_ms / 1000, 0))

    def end(self) -> None:
        """Wait for none any longer."""
        for _ in self.end_in_steps():
            continue

    def end_in_steps(self) -> Generator[None, None, None]:
        """`end`, in steps."""
        while self.deletions:
            for each in self.deletions[-SLICE_PARTITIONS:]:
                each.end()
            del self.deletions[-SLICE_PARTITIONS:]
            yield


class _Deletion:
    """The wait for the followers of one partition."""

    __slots__ = ("_context", "_is_done", "_partition", "_result", "_waiting", "_wanted")

    def __init__(
        self,
        context: RequestContext,
        partition: Partition,
        wanted: int,
        result: DeleteRecordsPartitionResult,
        waiting: _Waiting,
    ) -> None:
        self._context = context
        self._partition = partition
        self._wanted = wanted
        self._result = result
        self._waiting = waiting
        self._is_done = False
        result.low_watermark = partition.low_watermark(context.services.image.brokers)

    def check(self) -> bool:
        """Whether there is a result now."""
        result, partition = self._result, self._partition
        try:
            partition.require_leader()
        except KafkaError as error:
            result.error_code, result.low_watermark = int(error.code), _UNKNOWN
            return True
        low_watermark = partition.low_watermark(self._context.services.image.brokers)
        if low_watermark < self._wanted:
            return False
        result.low_watermark = low_watermark
        return True

    def begin(self) -> None:
        """Look again after each change of the partition, from now on: the next one may be the last."""
        self._waiting.add(self)
        self._partition.on_change(self._changed)

    def _changed(self) -> None:
        if not self._is_done and self.check():
            self._is_done = True
            self._waiting.one_is_done()

    def end(self) -> None:
        """No longer."""
        self._partition.off_change(self._changed)
        if not self._is_done:
            self._is_done = True
            self._result.error_code = int(ErrorCode.REQUEST_TIMED_OUT)


def refuse(request: DeleteRecordsRequest, version: int, code: ErrorCode, message: str | None) -> DeleteRecordsResponse:
    """Every partition fails with the same error."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=each.partition_index, low_watermark=-1, error_code=int(code)
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(ApiKey.DELETE_RECORDS, served=(0, 2), handle=handle, error_response=refuse, sliced=True)

"""The reader reaches the end by offsets, whatever lies before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.cli.connection.errors import CommandError
from kwire.cli.records.reading import Reader
from kwire.codec.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kwire.codec.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.codec.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kwire.codec.records import COMMIT, Record, build_batch, build_control_batch


class ScriptedCluster:
    """Answers each Fetch with the next of some outcomes; the partition's first offset is 10."""

    def __init__(self, *outcomes: PartitionData | CommandError) -> None:
        self.offsets: list[int] = []
        self._outcomes = list(outcomes)

    def extend(self) -> None:
        pass

    async def until_done(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        return await attempt()

    async def metadata(self, topics: list[str]) -> MetadataResponse:
        partitions = [MetadataResponsePartition(partition_index=0, leader_id=1)]
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])

    async def call(self, request: Any, node: int, max_version: int | None = None) -> Any:
        if request.API_KEY == 2:
            found = ListOffsetsPartitionResponse(partition_index=0, offset=10, timestamp=-1)
            return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])
        self.offsets.append(request.topics[0].partitions[0].fetch_offset)
        if not self._outcomes:
            await asyncio.sleep(60)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, CommandError):
            raise outcome
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[outcome])])


def data(
    records: bytes = b"", *, error: int = 0, end: int = 100, aborted: list[tuple[int, int]] | None = None
) -> PartitionData:
    return PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=end,
        last_stable_offset=end,
        aborted_transactions=[AbortedTransaction(producer_id=a, first_offset=b) for a, b in aborted or ()],
        records=records,
    )


def batch(*offsets: int, producer: int = -1) -> bytes:
    records = [Record(offset, 0, None, b"%d" % offset) for offset in offsets]
    return build_batch(
        records,
        base_offset=offsets[0],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=producer >= 0,
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    return build_control_batch(
        int(commit) and COMMIT,
        producer_id=producer,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=0,
        base_offset=offset,
    )


async def read(
    cluster: ScriptedCluster, start: int, end: int | None, *, committed: bool = False, timeout_s: float = 5.0
) -> list[int]:
    ends = None if end is None else {("t", 0): end}
    reader = Reader(cluster, {("t", 0): start}, ends, committed=committed, timeout_s=timeout_s)  # type: ignore[arg-type]
    return [offset async for columns in reader.batches() for offset in columns.offsets]


async def test_gaps_of_compaction_are_stepped_over() -> None:
    cluster = ScriptedCluster(data(batch(10, 14, 19)), data(batch(40)), data(batch(98, 99, 100, 101)))
    assert await read(cluster, 12, 100) == [14, 19, 40, 98, 99]
    assert cluster.offsets == [12, 20, 41]


async def test_an_end_whose_records_compaction_has_removed_is_reached() -> None:
    cluster = ScriptedCluster(data(batch(10)), data(), data())
    assert await read(cluster, 10, 100) == [10]


async def test_an_empty_response_is_not_the_end_while_the_end_is_not_stable() -> None:
    cluster = ScriptedCluster(data(end=50), data(end=50), data(end=50), data(batch(99)))
    assert await read(cluster, 10, 100) == [99]


async def test_aborted_records_and_markers_are_left_out_when_only_committed_ones_are_read() -> None:
    records = b"".join(
        (
            batch(10, 11, producer=1),
            batch(12, producer=2),
            batch(13),
            marker(14, 1, commit=False),
            batch(15, producer=1),
            marker(16, 2, commit=True),
            marker(17, 1, commit=True),
        )
    )
    assert await read(ScriptedCluster(data(records, aborted=[(1, 10)])), 10, 18, committed=True) == [12, 13, 15]
    assert await read(ScriptedCluster(data(records)), 10, 18) == [10, 11, 12, 13, 15]


async def test_a_partition_that_moves_is_read_on() -> None:
    cluster = ScriptedCluster(
        data(error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        CommandError("gone", ErrorCode.NETWORK_EXCEPTION),
        data(batch(10)),
    )
    assert await read(cluster, 10, 11) == [10]


async def test_removed_records_are_skipped_and_offsets_beyond_the_end_refused() -> None:
    cluster = ScriptedCluster(data(error=ErrorCode.OFFSET_OUT_OF_RANGE), data(batch(10)))
    assert await read(cluster, 5, 11) == [10]
    with pytest.raises(CommandError, match="t-0: offset 70 is beyond the end of the partition"):
        await read(ScriptedCluster(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)), 70, None)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (data(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), "t-0: this login has no right to the topic"),
        (data(batch(10)[:-1] + b"\x01"), "t-0: the batch at offset 10: its CRC is wrong"),
        (data(b"\0" * 70), "t-0: after offset 10: .*magic"),
    ],
)
async def test_what_cannot_be_read_ends_in_a_line(outcome: PartitionData, reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        await read(ScriptedCluster(outcome), 10, 11)


async def test_a_partition_that_stays_away_ends_with_the_timeout() -> None:
    outcomes = [data(error=ErrorCode.NOT_LEADER_OR_FOLLOWER) for _ in range(50)]
    with pytest.raises(CommandError, match="NOT_LEADER_OR_FOLLOWER"):
        await read(ScriptedCluster(*outcomes), 10, 11, timeout_s=0.2)

"""The reading part of one ShareFetch: which partitions, how many bytes of each, and waiting for enough of them.

A fetch reads its partitions, beginning with another one each time, where their records can be acquired. It is complete
once it has found ``min_bytes``, a partition cannot be read, or ``max_wait_ms`` have passed; only then records are
acquired. Up to there it waits at the share partitions, which wake it. Each partition may give an equal part of
``max_bytes``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.file_range import FileRange
from kwire.codec.messages.share_fetch_response import AcquiredRecords, LeaderIdAndEpoch, PartitionData
from kwire.handlers.api import error_of
from kwire.handlers.context import RequestContext
from kwire.handlers.data.current_leader import LEADER_CHANGED, current_leader
from kwire.handlers.share.batches import batches_of, slice_acquired
from kwire.handlers.share.leader_partition import LeaderSharePartition
from kwire.handlers.share.sessions import PartitionKey, SessionKey
from kwire.share.aborted import aborted_batches
from kwire.share.values import AcquiredRecords as Acquired

if TYPE_CHECKING:
    from kwire.codec.messages.share_fetch_request import ShareFetchRequest

RECORD_LIMIT: Final = 1
"""The ``share_acquire_mode`` in which no more than ``max_records`` are acquired (KIP-1206)."""


class Found:
    """What was read from one share partition: ``records`` from ``offset`` on, not yet acquired."""

    __slots__ = ("offset", "records", "share", "size")

    def __init__(self, share: LeaderSharePartition, offset: int, records: FileRange | bytes, size: int) -> None:
        self.share = share
        self.offset = offset
        self.records = records
        self.size = size

    def release(self) -> None:
        """The records are not going to be sent."""
        if isinstance(self.records, FileRange):
            self.records.release()
        self.records = b""


class ShareRead:
    """The reading of one request; ``response`` is done when it is complete."""

    def __init__(
        self,
        request: ShareFetchRequest,
        key: SessionKey,
        partitions: Sequence[PartitionKey],
        context: RequestContext,
        max_bytes: int,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._context = context
        self._key = key
        self._request = request
        self._max_bytes = max_bytes
        self._min_bytes = min(request.min_bytes, max_bytes)
        self._results: dict[PartitionKey, PartitionData] = {}
        self._shares: dict[PartitionKey, LeaderSharePartition] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.response: asyncio.Future[dict[PartitionKey, PartitionData]] = loop.create_future()
        if not partitions or request.max_records <= 0 or max_bytes <= 0:
            self.response.set_result({})
            return
        self._obtain(_rotated(partitions, request.share_session_epoch))
        if not self._shares:
            self.response.set_result(self._results)
            return
        self.try_again()
        if not self.response.done():
            self._wait(loop)

    def _obtain(self, partitions: Sequence[PartitionKey]) -> None:
        services = self._context.services
        for key in partitions:
            try:
                partition = services.replicas.partition_by_id(*key)
                self._shares[key] = services.shares.partitions.obtain(self._key.group_id, key, partition)
            except KafkaError as error:
                self._results[key] = self._failure(key, error)

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._request.max_wait_ms <= 0 and all(share.machine for share in self._shares.values()):
            self._complete(self._read())
            return
        self._timer = loop.call_later(max(self._request.max_wait_ms, 0) / 1000, self._time_out)
        for share in self._shares.values():
            share.wait(self)
        self.response.add_done_callback(self._stop)

    def _stop(self, _: asyncio.Future[dict[PartitionKey, PartitionData]]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for share in self._shares.values():
            share.stop_waiting(self)

    def _time_out(self) -> None:
        if not self.response.done():
            self._complete(self._read())

    def try_again(self) -> None:
        """Complete if there are enough bytes now, or a partition cannot be read."""
        if self.response.done():
            return
        failed = len(self._results)
        found = self._read()
        is_enough = bool(found) and sum(each.size for each in found.values()) >= self._min_bytes
        if is_enough or len(self._results) > failed or not self._shares:
            self._complete(found)
        else:
            for each in found.values():
                each.release()

    # -- reading and acquiring -----------------------------------------------------------------------------------------

    def _read(self) -> dict[PartitionKey, Found]:
        """Read what can be acquired. Partitions that fail are moved to the results."""
        acquirable = {key: share for key, share in self._shares.items() if self._can_acquire(key, share)}
        for key in self._results:
            self._shares.pop(key, None)
        if not acquirable:
            return {}
        each_max, rest = divmod(self._max_bytes, len(acquirable))
        left = self._max_bytes
        found: dict[PartitionKey, Found] = {}
        for key, share in acquirable.items():
            try:
                one = self._read_one(share, min(max(each_max, 1) + rest, left), is_first=left == self._max_bytes)
            except Exception as error:
                self._results[key] = self._failure(key, error)
                self._shares.pop(key, None)
                continue
            rest = 0
            left = max(left - one.size, 0)
            found[key] = one
        return found

    def _can_acquire(self, key: PartitionKey, share: LeaderSharePartition) -> bool:
        if share.failure is not None:
            self._results[key] = self._failure(key, share.failure)
            return False
        return share.machine is not None and share.machine.can_acquire()

    def _read_one(self, share: LeaderSharePartition, max_bytes: int, *, is_first: bool) -> Found:
        machine, partition = share.machine, share.partition
        assert machine is not None
        partition.require_leader()
        if partition.log_start_offset > machine.start_offset:
            machine.move_log_start(partition.log_start_offset)
        offset = machine.next_fetch_offset()
        if offset >= partition.log_end_offset:
            return Found(share, offset, b"", 0)
        committed_only = share.settings.committed_only
        result = partition.read(offset, max_bytes, committed_only=committed_only, min_one=is_first)
        return Found(share, offset, result.records, result.size)

    def _complete(self, found: dict[PartitionKey, Found]) -> None:
        left = self._request.max_records
        for key, each in found.items():
            data = PartitionData(partition_index=key[1], records=b"")
            try:
                acquired = self._acquire(each, left) if each.size else []
                left -= sum(one.last_offset - one.first_offset + 1 for one in acquired)
                data.records = each.records
                data.acquired_records = [
                    AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
                    for first, last, count in acquired
                ]
            except Exception as error:
                each.release()
                data = self._failure(key, error)
            self._results[key] = data
        if self.response.done():
            release(self._results.values())
        else:
            self.response.set_result(self._results)

    def _acquire(self, found: Found, max_records: int) -> Sequence[Acquired]:
        share, services = found.share, self._context.services
        assert share.machine is not None
        # Behind the window everything can be acquired: so far, and no further, batches are looked at.
        read = batches_of(found.records, services.doors.files, share.machine.end_offset, max_records)
        aborted = []
        if share.settings.committed_only and read.batches:
            transactions = share.partition.log.aborted_transactions(found.offset, read.batches[-1].last_offset + 1)
            aborted = aborted_batches(read.batches, [(each.producer_id, each.first_offset) for each in transactions])
        acquired = share.machine.acquire(
            self._key.member_id,
            read.batches,
            fetch_offset=found.offset,
            max_records=max_records,
            batch_size=self._request.batch_size,
            record_limit=self._request.share_acquire_mode == RECORD_LIMIT,
            aborted=aborted,
            now_ms=int(services.doors.clock.monotonic() * 1000),
        )
        found.records = slice_acquired(found.records, read, acquired)
        share.acquired()
        return acquired

    def _failure(self, key: PartitionKey, error: Exception) -> PartitionData:
        code, _ = error_of(error)
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._context.services.log_failure("share fetch", error)
        return failed_partition(key, code, self._context)


def failed_partition(key: PartitionKey, code: ErrorCode, context: RequestContext) -> PartitionData:
    """A partition of the response that could not be read; with the new leader, if it has one."""
    data = PartitionData(partition_index=key[1], error_code=code, records=b"")
    if code in LEADER_CHANGED:
        data.current_leader = current_leader(context, *key, code, LeaderIdAndEpoch)
    return data


def release(partitions: object) -> None:
    """Release the ranges of files that are not going to be sent."""
    for data in partitions:  # type: ignore[attr-defined]
        if isinstance(data.records, FileRange):
            data.records.release()


def _rotated(partitions: Sequence[PartitionKey], epoch: int) -> list[PartitionKey]:
    """The partitions, beginning with another one in every request of the session."""
    at = epoch % len(partitions) if epoch > 0 else 0
    return [*partitions[at:], *partitions[:at]]

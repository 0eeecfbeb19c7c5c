"""The transactions of a log during a cleaning pass: which batches were aborted, and which markers can be removed.

A marker can be removed if the pass has found no batch of its transaction before it: all were removed earlier. Aborted
batches are removed at once; their marker stays for that pass, with its entry in the new transaction index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from kwire.codec.errors import CodecError
from kwire.codec.records import iter_records, parse_control_key
from kwire.codec.records.control import ABORT, COMMIT
from kwire.codec.records.header import BatchHeader
from kwire.log.common.append_info import AbortedTransaction

MAX_CONTROL_BYTES = 4096


def ignore_kept(_transaction: AbortedTransaction) -> None:
    """For passes that write no transaction index."""


class CleanedTransactions:
    """The transactions of one pass over one log, in offset order."""

    def __init__(self) -> None:
        self._committed: dict[int, bool] = {}  # producers with a batch of a transaction that did not abort
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}  # by producer; whether a batch of it was found
        self._coming: list[tuple[int, AbortedTransaction]] = []  # by first offset

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions that lie ahead; adding one twice does no harm."""
        for each in aborted:
            heappush(self._coming, (each.first_offset, each))

    def _begin_upto(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[0][0] <= offset:
            _, begun = heappop(coming)
            self._aborted.setdefault(begun.producer_id, (begun, False))

    def batch_is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch was aborted. To be called with every data batch, in order."""
        if self._coming:
            self._begin_upto(header.last_offset)
        if not header.is_transactional:
            return False
        known = self._aborted.get(header.producer_id)
        if known is None:
            self._committed[header.producer_id] = True
            return False
        self._aborted[header.producer_id] = (known[0], True)
        return True

    def marker_can_go(
        self, header: BatchHeader, data: memoryview, on_kept: Callable[[AbortedTransaction], None]
    ) -> bool:
        """Whether no batch of a marker's transaction is left. To be called with every control batch, in order.
        ``on_kept`` is called with an aborted transaction whose marker stays."""
        self._begin_upto(header.last_offset)
        if header.count == 0:
            return True
        kind = _control_type(data)
        if kind == COMMIT:
            return not self._committed.pop(header.producer_id, False)
        return kind == ABORT and self._abort_can_go(header.producer_id, on_kept)

    def _abort_can_go(self, producer_id: int, on_kept: Callable[[AbortedTransaction], None]) -> bool:
        ended, was_found = self._aborted.pop(producer_id, (None, False))
        if ended is None or not was_found:
            return True
        on_kept(ended)
        return False


def _control_type(data: memoryview) -> int | None:
    """The type of a control batch's record; None for an unknown type."""
    try:
        record = next(iter_records(data, max_bytes=MAX_CONTROL_BYTES), None)
        return None if record is None else parse_control_key(record).type
    except CodecError:
        return None

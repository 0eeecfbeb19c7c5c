"""What a cleaning pass knows of transactions while it walks a log: which batches were aborted, which markers can go.

A marker goes when a pass has met no batch of its transaction before it (they were all removed earlier). Aborted data
goes at once; its marker stays for that pass, with its entry in the new transaction index.
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


class CleanedTransactions:
    """One pass over one log, in offset order. ``on_kept(transaction)`` hears of each aborted one whose marker stays."""

    def __init__(self, on_kept: Callable[[AbortedTransaction], None] | None = None) -> None:
        self.on_kept = on_kept
        self._committed: dict[int, bool] = {}  # producers with a batch of a transaction that did not abort
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}  # by producer; whether a batch of it was met
        self._coming: list[tuple[int, AbortedTransaction]] = []  # by first offset

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Aborted transactions that lie ahead; told twice does no harm."""
        for each in aborted:
            heappush(self._coming, (each.first_offset, each))

    def _begin_upto(self, offset: int) -> None:
        coming = self._coming
        while coming and coming[0][0] <= offset:
            _, begun = heappop(coming)
            self._aborted.setdefault(begun.producer_id, (begun, False))

    def batch_is_aborted(self, header: BatchHeader) -> bool:
        """Called with every data batch, in order."""
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

    def marker_can_go(self, header: BatchHeader, data: memoryview) -> bool:
        """Called with every control batch, in order. Whether nothing of its transaction is left."""
        self._begin_upto(header.last_offset)
        if header.count == 0:
            return True
        kind = _control_type(data)
        if kind == COMMIT:
            return not self._committed.pop(header.producer_id, False)
        return kind == ABORT and self._abort_can_go(header.producer_id)

    def _abort_can_go(self, producer_id: int) -> bool:
        ended, was_met = self._aborted.pop(producer_id, (None, False))
        if ended is None or not was_met:
            return True
        if self.on_kept is not None:
            self.on_kept(ended)
        return False


def _control_type(data: memoryview) -> int | None:
    """The type of a control batch's record; None for one that nobody here understands."""
    try:
        record = next(iter_records(data, max_bytes=MAX_CONTROL_BYTES), None)
        return None if record is None else parse_control_key(record).type
    except CodecError:
        return None

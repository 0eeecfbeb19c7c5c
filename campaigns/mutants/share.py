"""Mutants of the share partition, which the comparison with a model per offset (`campaigns.share.partition`) or the
promises to members (`campaigns.share.deliveries`) must notice."""

from __future__ import annotations

from typing import Any
from unittest.mock import PropertyMock, patch

from campaigns.mutants.mutant import Mutant
from campaigns.share import deliveries, partition
from kwire.share import acknowledging
from kwire.share.acknowledging import Acknowledging, Changes
from kwire.share.acquisition import Acquisition
from kwire.share.in_flight import InFlightState
from kwire.share.values import RecordState
from kwire.share.window import Window


def _acquired_while_pending() -> Any:
    available = property(lambda self: self.state is RecordState.AVAILABLE)
    return patch.object(InFlightState, "acquirable", available)


def _anybody_acknowledges() -> Any:
    def check(_self: Acknowledging, _offset: int, state: InFlightState) -> None:
        if state.state is not RecordState.ACQUIRED or state.pending:
            raise acknowledging.invalid_state("not acquired")

    return patch.object(Acknowledging, "_check", check)


def _no_delivery_limit() -> Any:
    leave = InFlightState.leave
    return patch.object(InFlightState, "leave", lambda self, state, _limit: leave(self, state, 1 << 30))


def _kept_after_failure() -> Any:
    complete = Changes.complete
    return patch.object(Changes, "complete", lambda self, _written, now_ms: complete(self, True, now_ms))


def _start_goes_anywhere() -> Any:
    move_start = Window.move_start

    def move(self: Window) -> bool:
        before, floor = self.start_offset, len(self.batches)
        moved = move_start(self)
        if moved and floor > 1 and len(self.batches):
            self.start_offset = before
        return moved

    return patch.object(Window, "move_start", move)


def _gaps_are_forgotten() -> Any:
    return patch.object(Window, "gap_start", PropertyMock(return_value=None))


def _compacted_stays() -> Any:
    return patch.object(Acquisition, "_archive_compacted", lambda _self: None)


def _locks_never_end() -> Any:
    return patch.object(acknowledging, "_held", lambda _window: [])


def _log_start_keeps_records() -> Any:
    archive = Window.archive

    def keep(self: Window, first: int, last: int, state: RecordState, count: bool) -> bool:
        return count and archive(self, first, last, state, count)

    return patch.object(Window, "archive", keep)


def _no_record_limit() -> Any:
    return patch.object(Acquisition, "_add_part", lambda self, first, end, _acquired: self._add_batch(first, end))


def _mutant(breaks: str, apply: Any) -> Mutant:
    return Mutant(breaks, apply, partition.run, 20)


def _promise(breaks: str, apply: Any) -> Mutant:
    return Mutant(breaks, apply, deliveries.run, 20)


MUTANTS: dict[str, Mutant] = {
    "share-acquired-while-pending": _mutant("a released record waits for its write", _acquired_while_pending),
    "share-anybody-acknowledges": _mutant("only the holder acknowledges a record", _anybody_acknowledges),
    "share-no-delivery-limit": _mutant("a record is archived after its last delivery", _no_delivery_limit),
    "share-kept-after-failure": _mutant("a change that cannot be written is undone", _kept_after_failure),
    "share-start-stays": _mutant("the start offset follows completed records", _start_goes_anywhere),
    "share-gaps-are-forgotten": _mutant("gaps of the persisted state are fetched", _gaps_are_forgotten),
    "share-compacted-stays": _mutant("records that the log lost are archived", _compacted_stays),
    "share-locks-never-end": _mutant("a lock ends", _locks_never_end),
    "share-log-start-keeps-records": _mutant("records before the log start are archived", _log_start_keeps_records),
    "share-no-record-limit": _mutant("a member gets no more records than it wants", _no_record_limit),
    "share-lost-write-counts": _promise("records whose acceptance was not written come again", _kept_after_failure),
    "share-lost-gaps": _promise("what another leader's members had comes again", _gaps_are_forgotten),
    "share-two-holders": _promise("a record is not given to two members", _acquired_while_pending),
}

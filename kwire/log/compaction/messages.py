"""The messages between the cleaner and its helper process. Sizes are in bytes, segments named by their base offsets."""

from __future__ import annotations

from typing import NamedTuple

from kwire.log.common.append_info import AbortedTransaction


class SegmentRange(NamedTuple):
    """A segment to read for the offset map: its size, and the offset at which the next one starts."""

    base_offset: int
    size: int
    next_base_offset: int


class SegmentSize(NamedTuple):
    """A segment to clean, and how much of its file is valid."""

    base_offset: int
    size: int


class BuildMap(NamedTuple):
    """Read the dirty part of a log, from offset ``start`` on, into the offset map."""

    directory: str
    segments: list[SegmentRange]
    start: int
    aborted: list[AbortedTransaction]
    buffer_bytes: int
    load_factor: float
    io_bytes: int


class MapBuilt(NamedTuple):
    """The response to `BuildMap`. ``latest_offset`` is how far the map reaches, ``utilization`` its fill level
    (0 to 1), ``keyless`` the number of records without a key."""

    latest_offset: int
    utilization: float
    keyless: int
    read_bytes: int


class LastOfProducer(NamedTuple):
    """The newest epoch and last data offset (-1 without one) of a producer: its last batch keeps its header."""

    epoch: int
    last_offset: int


class CleanGroup(NamedTuple):
    """Write the `.cleaned` files of one segment group, using the offset map."""

    directory: str
    segments: list[SegmentSize]
    aborted: list[AbortedTransaction]
    producers: dict[int, LastOfProducer]
    now_ms: int
    delete_retention_ms: int
    upper_bound: int
    index_interval: int
    io_bytes: int


class GroupCleaned(NamedTuple):
    """The response to `CleanGroup`: the files are written, but not synced. ``size`` is that of the new segment."""

    size: int
    read_bytes: int
    records_read: int
    records_kept: int
    largest_batch: int


class ForgetMap(NamedTuple):
    """Free the memory of the offset map."""


class MapForgotten(NamedTuple):
    """The response to `ForgetMap`."""


class LogCorrupt(NamedTuple):
    """The response if a segment holds something that cannot be compacted; the text names file and position."""

    message: str


class IoFailed(NamedTuple):
    """The response if an OSError stopped the work."""

    errno: int | None
    message: str


CleaningRequest = BuildMap | CleanGroup | ForgetMap
CleaningResponse = MapBuilt | GroupCleaned | MapForgotten | LogCorrupt | IoFailed

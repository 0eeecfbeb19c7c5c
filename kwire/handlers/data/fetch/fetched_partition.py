"""One partition of a fetch: what the client requested and, in a session, what the last response contained."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from kwire.base.file_range import FileRange

if TYPE_CHECKING:
    from kwire.codec.message import Records
    from kwire.codec.messages.fetch_request import FetchPartition
    from kwire.codec.messages.fetch_response import PartitionData

TopicKey = str | bytes
"""A topic's name or, from version 13 on, its id."""


def records_size(records: Records | None) -> int:
    """The size in bytes of a partition's records, in memory or in a file."""
    if isinstance(records, FileRange):
        return records.size
    return len(records) if isinstance(records, bytes) else 0


class FetchedPartition:
    """One partition of a fetch. ``requested`` is the client's newest request for it; ``sent_high_watermark`` and
    ``log_start_offset`` are those of the last response of its session (-1 if there is none)."""

    __slots__ = ("index", "log_start_offset", "requested", "sent_high_watermark", "topic")

    def __init__(self, topic: TopicKey, requested: FetchPartition) -> None:
        self.topic = topic
        self.index = requested.partition
        self.requested = requested
        self.sent_high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, data: PartitionData) -> bool:
        """Whether an incremental response must contain the partition."""
        return bool(
            records_size(data.records) > 0
            or data.high_watermark != self.sent_high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.preferred_read_replica != -1
            or data.diverging_epoch.epoch != -1
            or data.error_code
        )

    def take_news(self, data: PartitionData) -> bool:
        """`has_news`; remembers what the response contains. After an error, the next response has to contain the
        partition, too."""
        news = self.has_news(data)
        self.sent_high_watermark = -1 if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return news


PartitionKey = tuple[TopicKey, int]
"""Topic and partition index."""

FetchedPartitions = OrderedDict[PartitionKey, FetchedPartition]
"""In the order in which they are read: one that gave data moves to the end, so that all get their turn."""

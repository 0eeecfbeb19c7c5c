"""A follower's fetch session: which of its partitions a request has to read, so that idle partitions cost nothing.

A broker follows thousands of partitions over one session and sends a request every half second, or with every batch
that one of them gets. A request reads only the *active* partitions: those that it names, that changed since they were
read, or that are behind, out of sync or failing. All others are *idle*: the follower has everything, and the last
response said so. A partition calls its listeners when it changes. The one change without a call, a log start offset
that moves when retention deletes segments, is looked for in a few idle partitions with each request.

What lives elsewhere: sessions (`fetch.sessions`), reading (`fetch.partitions`), and which followers keep up
(`kwire.cluster.replication.followers`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.cluster.replication.followers import LastFetch

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition
    from kwire.codec.messages.fetch_response import PartitionData
    from kwire.handlers.data.fetch.fetched_partition import FetchedPartition, FetchedPartitions, PartitionKey

CHECKED_PER_REQUEST: Final = 64
"""How many idle partitions each request checks for a moved log start offset."""


class FollowerSession:
    """The partitions of one follower's session. ``last_fetch`` is the time of its newest request, ``requests`` how many
    there have been."""

    __slots__ = (
        "_active",
        "_partitions",
        "_to_check",
        "_watched",
        "is_closed",
        "last_fetch",
        "on_change",
        "replica_epoch",
        "requests",
    )

    def __init__(self, partitions: FetchedPartitions) -> None:
        self._partitions = partitions
        self._active: dict[PartitionKey, None] = dict.fromkeys(partitions)
        self._watched: dict[PartitionKey, tuple[Partition, Callable[[], None]]] = {}
        self._to_check: list[PartitionKey] = []
        self.last_fetch = LastFetch()
        self.on_change: Callable[[PartitionKey], None] | None = None
        """Called when a partition changes, while a request waits."""
        self.replica_epoch = -1
        self.requests = 0
        self.is_closed = False

    def to_read(self) -> FetchedPartitions:
        """The partitions that an incremental request reads: the active ones, the least recently read first."""
        self._check_some()
        return OrderedDict((key, self._partitions[key]) for key in self._active)

    def named(self, keys: Iterable[PartitionKey]) -> None:
        """A request names these partitions: they become active."""
        self._active.update(dict.fromkeys(keys))

    def forget(self, key: PartitionKey) -> None:
        """A partition was removed from the session."""
        self._active.pop(key, None)
        self._unwatch(key)

    def close(self) -> None:
        """The session has ended."""
        self.is_closed = True
        self.on_change = None
        for key in list(self._watched):
            self._unwatch(key)

    def registered(self, replica_epoch: int) -> None:
        """A request came, with the follower's broker epoch. After a new registration, all partitions become active."""
        self.requests += 1
        if replica_epoch != self.replica_epoch:
            self.replica_epoch = replica_epoch
            self._active.update(dict.fromkeys(self._partitions))

    def watch(self, key: PartitionKey, partition: Partition) -> None:
        """Listen to the changes of a partition."""
        watched = self._watched.get(key)
        if self.is_closed or (watched is not None and watched[0] is partition):
            return
        self._unwatch(key)
        callback = partial(self._changed, key)
        self._watched[key] = (partition, callback)
        partition.on_change(callback)

    def responded(self, follower: int, partition: Partition, fetched: FetchedPartition, data: PartitionData) -> None:
        """Note a partition's part of a response: it becomes idle unless the follower still lacks something."""
        requested, log = fetched.requested, partition.log
        key = (fetched.topic, fetched.index)
        self._active.pop(key, None)
        if (
            data.error_code
            or data.diverging_epoch.epoch != -1
            or requested.fetch_offset != log.log_end_offset
            or requested.high_watermark < log.high_watermark
            or fetched.sent_high_watermark != log.high_watermark
            or fetched.log_start_offset != log.log_start_offset
            or follower not in partition.isr
            or key not in self._watched
        ):
            self._active[key] = None  # read last next time

    def _changed(self, key: PartitionKey) -> None:
        self._active[key] = None
        if self.on_change is not None:
            self.on_change(key)

    def _unwatch(self, key: PartitionKey) -> None:
        watched = self._watched.pop(key, None)
        if watched is not None:
            watched[0].off_change(watched[1])

    def _check_some(self) -> None:
        if not self._to_check:
            self._to_check = list(self._watched)
        for key in self._to_check[-CHECKED_PER_REQUEST:]:
            watched = self._watched.get(key)
            if watched is not None and watched[0].log.log_start_offset != self._partitions[key].log_start_offset:
                self._active[key] = None
        del self._to_check[-CHECKED_PER_REQUEST:]

"""A follower's fetch session: what of it has to be looked at, so that idle partitions cost nothing.

A broker follows thousands of partitions over one session, and asks again every half a second, or with every batch that
one of them gets. Only those are read of which there may be something to tell: named in the request, changed since they
were read, behind, out of sync, or failing. All others are *quiet*: the follower has all that there is and was told so.
Whatever happens to a partition calls whoever listens to it; a few quiet ones are looked at with each request for what
nobody calls (their start moves when old segments go).

What lives elsewhere: sessions (`fetch_sessions`), reading (`fetch`), who keeps up
(`kwire.cluster.replication.followers`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.cluster.replication.followers import Heard

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition
    from kwire.codec.messages.fetch_response import PartitionData
    from kwire.handlers.data.fetch.sessions import FetchedPartition, Key, Partitions

LOOKED_AT_PER_REQUEST: Final = 64


class Followed:
    """The partitions of one follower's session. ``heard``: when its newest request came."""

    __slots__ = ("_closed", "_loud", "_partitions", "_round", "_watched", "heard", "on_change", "replica_epoch")

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._loud: dict[Key, None] = dict.fromkeys(partitions)
        self._watched: dict[Key, tuple[Partition, Callable[[], None]]] = {}
        self._round: list[Key] = []
        self.heard = Heard()
        self.on_change: Callable[[Key], None] | None = None
        """Called when something happens to a partition, while a request waits."""
        self.replica_epoch = -1
        self._closed = False

    def to_read(self) -> Partitions:
        """What an incremental request reads: those that are not quiet, the longest unread first."""
        self._look_at_some()
        return OrderedDict((key, self._partitions[key]) for key in self._loud)

    def named(self, keys: Iterable[Key]) -> None:
        """A request says something new about these."""
        self._loud.update(dict.fromkeys(keys))

    def forget(self, key: Key) -> None:
        """A partition that is not in the session any more."""
        self._loud.pop(key, None)
        self._unwatch(key)

    def close(self) -> None:
        """The session is over."""
        self._closed = True
        self.on_change = None
        for key in list(self._watched):
            self._unwatch(key)

    def registered(self, replica_epoch: int) -> None:
        """The broker epoch with which the follower asks: after a new registration everything is told anew."""
        if replica_epoch != self.replica_epoch:
            self.replica_epoch = replica_epoch
            self._loud.update(dict.fromkeys(self._partitions))

    def watch(self, key: Key, partition: Partition) -> None:
        """Hear of what happens to a partition that was found."""
        watched = self._watched.get(key)
        if self._closed or (watched is not None and watched[0] is partition):
            return
        self._unwatch(key)
        callback = partial(self._changed, key)
        self._watched[key] = (partition, callback)
        partition.on_change(callback)

    def told(self, follower: int, partition: Partition, asked: FetchedPartition, data: PartitionData) -> None:
        """The answer says this of a partition: is there anything left to say?"""
        want, log = asked.asked, partition.log
        key = (asked.topic, asked.index)
        self._loud.pop(key, None)
        if (
            data.error_code
            or data.diverging_epoch.epoch != -1
            or want.fetch_offset != log.log_end_offset
            or want.high_watermark < log.high_watermark
            or asked.told_high_watermark != log.high_watermark
            or asked.log_start_offset != log.log_start_offset
            or follower not in partition.isr
            or key not in self._watched
        ):
            self._loud[key] = None  # read last next time

    # Inside

    def _changed(self, key: Key) -> None:
        self._loud[key] = None
        if self.on_change is not None:
            self.on_change(key)

    def _unwatch(self, key: Key) -> None:
        watched = self._watched.pop(key, None)
        if watched is not None:
            watched[0].off_change(watched[1])

    def _look_at_some(self) -> None:
        if not self._round:
            self._round = list(self._watched)
        for key in self._round[-LOOKED_AT_PER_REQUEST:]:
            watched = self._watched.get(key)
            if watched is not None and watched[0].log.log_start_offset != self._partitions[key].log_start_offset:
                self._loud[key] = None
        del self._round[-LOOKED_AT_PER_REQUEST:]

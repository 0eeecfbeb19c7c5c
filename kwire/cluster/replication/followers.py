"""`Follower`: the leader's view of one follower: its log end offset, and since when it has kept up.

A follower's Fetch says that it has everything below the fetch offset. It *keeps up* if, within
`replica.lag.time.max.ms`, it fetched at what was the leader's log end offset then (or at its fetch before), as in
Kafka. What lives elsewhere: what follows for the ISR and the high watermark (`partition`).
"""

from __future__ import annotations


class LastFetch:
    """The time of the last fetch over a follower's fetch session, for any partition (milliseconds, monotonic).

    A fetch does not name partitions without changes. For those, this is all the leader notes: a follower that was at
    the log end still is.
    """

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms = -1


class Follower:
    """One remote replica. Offsets are -1 before its first fetch in this leader epoch."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "last_fetch",
        "leader_end_at_fetch",
        "start_offset",
    )

    def __init__(self, now_ms: int, end_offset: int = -1) -> None:
        self.end_offset = end_offset
        self.start_offset = -1
        self.caught_up_ms = now_ms
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = -1
        self.broker_epoch = -1
        self.last_fetch: LastFetch | None = None

    def fetched(
        self,
        offset: int,
        start_offset: int,
        leader_end: int,
        broker_epoch: int,
        now_ms: int,
        last_fetch: LastFetch | None = None,
    ) -> None:
        """Note a fetch at ``offset`` while the leader's log ends at ``leader_end``. Times in milliseconds, monotonic.

        ``last_fetch``: the time of the session's fetch before this one; the session keeps it up to date for the fetches
        that do not name the partition.
        """
        if last_fetch is not None and last_fetch is self.last_fetch:
            self.fetched_ms = max(self.fetched_ms, last_fetch.ms)
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif 0 <= self.leader_end_at_fetch <= offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.fetched_ms = now_ms
        self.last_fetch = last_fetch
        self.leader_end_at_fetch = leader_end
        self.end_offset = offset
        self.start_offset = start_offset
        self.broker_epoch = broker_epoch

    def keeps_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether the follower may stay in the ISR."""
        return self.end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_max_ms

    @property
    def last_caught_up_ms(self) -> int:
        """When the follower was last at the leader's log end (milliseconds, monotonic)."""
        if self.last_fetch is not None and 0 <= self.leader_end_at_fetch <= self.end_offset:
            return max(self.caught_up_ms, self.last_fetch.ms)
        return self.caught_up_ms

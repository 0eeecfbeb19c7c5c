"""What a leader knows of its followers: how far each is, and since when it keeps up.

A follower tells its position with every Fetch: it has everything below the offset that it asks for. It *keeps up* while
it has asked, within `replica.lag.time.max.ms`, for what was the leader's end at that time (or at its fetch before), as
in Kafka. What lives elsewhere: what follows for the ISR and the high watermark (`partition`).
"""

from __future__ import annotations


class Follower:
    """One remote replica, as its fetches show it. Offsets are -1 before the first one in this leader epoch."""

    __slots__ = ("broker_epoch", "caught_up_ms", "end_offset", "fetched_ms", "leader_end_at_fetch", "start_offset")

    def __init__(self, now_ms: int, end_offset: int = -1) -> None:
        self.end_offset = end_offset
        self.start_offset = -1
        self.caught_up_ms = now_ms
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = -1
        self.broker_epoch = -1

    def fetched(self, offset: int, start_offset: int, leader_end: int, broker_epoch: int, now_ms: int) -> None:
        """A Fetch asks for ``offset`` while the leader ends at ``leader_end``. Times in milliseconds, monotonic."""
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif 0 <= self.leader_end_at_fetch <= offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = leader_end
        self.end_offset = offset
        self.start_offset = start_offset
        self.broker_epoch = broker_epoch

    def keeps_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether the follower may stay in the ISR."""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms

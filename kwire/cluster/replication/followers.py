"""What a leader knows of its followers: how far each is, and since when it keeps up.

A follower tells its position with every Fetch: it has everything below the offset that it asks for. It *keeps up* while
it has asked, within `replica.lag.time.max.ms`, for what was the leader's end at that time (or at its fetch before), as
in Kafka. What lives elsewhere: what follows for the ISR and the high watermark (`partition`).
"""

from __future__ import annotations


class Heard:
    """When a broker last asked for what it follows, in whatever partition (milliseconds, monotonic).

    Of partitions in which there is nothing new the leader notes nothing else: whoever was at their end still is.
    """

    __slots__ = ("ms",)

    def __init__(self) -> None:
        self.ms = -1


class Follower:
    """One remote replica, as its fetches show it. Offsets are -1 before the first one in this leader epoch."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "heard",
        "leader_end_at_fetch",
        "start_offset",
    )  # fmt: skip

    def __init__(self, now_ms: int, end_offset: int = -1) -> None:
        self.end_offset = end_offset
        self.start_offset = -1
        self.caught_up_ms = now_ms
        self.fetched_ms = now_ms
        self.leader_end_at_fetch = -1
        self.broker_epoch = -1
        self.heard: Heard | None = None

    def fetched(
        self,
        offset: int,
        start_offset: int,
        leader_end: int,
        broker_epoch: int,
        now_ms: int,
        heard: Heard | None = None,
    ) -> None:
        """A Fetch asks for ``offset`` while the leader ends at ``leader_end``. Times in milliseconds, monotonic.

        ``heard``: of the fetches before this one; from now on it stands for those that do not name the partition.
        """
        if heard is not None and heard is self.heard:
            self.fetched_ms = max(self.fetched_ms, heard.ms)
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif 0 <= self.leader_end_at_fetch <= offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.fetched_ms = now_ms
        self.heard = heard
        self.leader_end_at_fetch = leader_end
        self.end_offset = offset
        self.start_offset = start_offset
        self.broker_epoch = broker_epoch

    def keeps_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether the follower may stay in the ISR."""
        return self.end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_max_ms

    @property
    def last_caught_up_ms(self) -> int:
        """When it last had everything, as far as is known."""
        if self.heard is not None and 0 <= self.leader_end_at_fetch <= self.end_offset:
            return max(self.caught_up_ms, self.heard.ms)
        return self.caught_up_ms

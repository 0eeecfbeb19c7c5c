"""`LeaderEnds`: the high watermarks of partitions that other brokers lead, for the lag of this broker's groups.

They are asked of the leaders with ListOffsets when a scrape needs them: some hundred partitions with a request, each
leader for `ASK_S` at most, all at the same time. Scrapes shortly after one another share what was found. If a leader
does not respond, what it said last serves for a while; after that its partitions have no lag.

What lives elsewhere: the ends of partitions that this broker leads (`snapshot`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.errors import KafkaError
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.cluster.metadata.image import MetadataCache
    from kwire.cluster.replication.peers import Peers

END: Final = "end"
"""The kind of rows: topic, and high watermarks by partition, of partitions that other brokers lead."""
ASK_S: Final = 2.0
"""Seconds for a leader to respond."""
FRESH_S: Final = 1.0
"""Seconds for which nobody is asked again."""
KEPT_S: Final = 30.0
"""Seconds for which the last response of a leader serves that does not respond any more."""
BATCH: Final = 200
"""Partitions of one request: reading the response takes a millisecond or two."""
_VERSION: Final = 10
_CONSUMER, _LATEST = -1, -1

TopicPartition = tuple[str, int]


class _End(NamedTuple):
    offset: int
    found_s: float


class LeaderEnds:
    """The ends of partitions as their leaders know them. ``clock``: a monotonic clock in seconds."""

    def __init__(self, peers: Peers, metadata: MetadataCache, broker_id: int, clock: Callable[[], float]) -> None:
        self._peers = peers
        self._metadata = metadata
        self._broker_id = broker_id
        self._known: dict[TopicPartition, _End] = {}
        self._failed_s: dict[int, float] = {}
        self._asking = asyncio.Lock()
        self._clock = clock

    async def rows(self, wanted: Iterable[TopicPartition]) -> list[list[Any]]:
        """Rows with the ends of those partitions of ``wanted`` that other brokers lead."""
        leaders = await self._leaders(wanted)
        if not leaders:
            return []
        async with self._asking:
            await asyncio.gather(*(self._ask(leader, partitions) for leader, partitions in leaders.items()))
        now_s = self._clock()
        self._known = {each: end for each, end in self._known.items() if now_s - end.found_s < KEPT_S}
        found = sorted(each for partitions in leaders.values() for each in partitions if each in self._known)
        return [
            [END, topic, [[index, self._known[topic, index].offset] for _, index in those]]
            for topic, those in groupby(found, lambda each: each[0])
        ]

    async def _leaders(self, wanted: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by the live broker that leads them, in slices; none that this broker leads."""
        found: dict[int, list[TopicPartition]] = {}
        for number, (topic, index) in enumerate(dict.fromkeys(wanted)):
            image = self._metadata.image
            state = image.partition(topic, index)
            if state is not None and state.leader != self._broker_id and state.leader in image.brokers:
                found.setdefault(state.leader, []).append((topic, index))
            if number % BATCH == BATCH - 1:
                await asyncio.sleep(0)
        return found

    async def _ask(self, leader: int, partitions: list[TopicPartition]) -> None:
        """Ask a leader for those of the partitions that were not found lately."""
        now_s = self._clock()
        if now_s - self._failed_s.get(leader, -FRESH_S) < FRESH_S:
            return
        old_s = now_s - FRESH_S
        missing = [each for each in partitions if each not in self._known or self._known[each].found_s < old_s]
        try:
            async with asyncio.timeout(ASK_S):
                for begin in range(0, len(missing), BATCH):
                    await self._ask_some(leader, missing[begin : begin + BATCH])
        except (PeerUnavailable, KafkaError, TimeoutError):
            self._failed_s[leader] = self._clock()  # what it said last serves

    async def _ask_some(self, leader: int, partitions: list[TopicPartition]) -> None:
        request = ListOffsetsRequest(replica_id=_CONSUMER, topics=list(_topics(partitions)))
        response = await self._peers.call(leader, request, _VERSION, timeout_s=ASK_S)
        now_s = self._clock()
        for topic in response.topics:
            for each in topic.partitions:
                if not each.error_code:
                    self._known[topic.name, each.partition_index] = _End(each.offset, now_s)


def _topics(partitions: list[TopicPartition]) -> Iterator[ListOffsetsTopic]:
    for topic, those in groupby(sorted(partitions), lambda each: each[0]):
        yield ListOffsetsTopic(
            name=topic,
            partitions=[ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for _, index in those],
        )

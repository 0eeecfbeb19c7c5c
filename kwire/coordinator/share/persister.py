"""`Persister`: the five requests about share partitions, as the rest of the broker makes them.

`DefaultStatePersister` asks the share coordinators, wherever those are. A request is divided by the brokers that
coordinate its share partitions; what this broker coordinates itself needs no connection. What a turn of the event loop
asks another broker for one group goes in one request, as with Kafka's `PersisterStateManager`. A partition whose
coordinator has moved, is loading, cannot be reached or does not know the topic yet is tried again with growing delays.
As in Kafka the delays add up to 30 s. Kafka's are 2, 4, 8 and 16 s; the first ones here are shorter, because the
records of the share partition are held back until the answer is there, and a new coordinator has mostly loaded within
a fraction of a second. `NoOpStatePersister`, for an empty `group.share.persister.class.name`, stores nothing: a share
partition begins anew with each leader.

The response has a result for each partition; no error of a partition is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import fail, resolved
from kwire.cluster.metadata.image import SHARE_STATE_TOPIC
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.coordinator.share.coordinator import ShareCoordinator, coordinator_key
from kwire.coordinator.share.records import UNKNOWN, ShareState
from kwire.coordinator.share.requests import KINDS, Asked, Kind, asked_of, results_of

if TYPE_CHECKING:
    from kwire.base.doors import Doors
    from kwire.cluster.metadata.image import MetadataCache
    from kwire.cluster.replication.peers import Peers
    from kwire.codec.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
    from kwire.codec.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
    from kwire.codec.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
    from kwire.codec.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
    from kwire.codec.messages.read_share_group_state_request import ReadShareGroupStateRequest
    from kwire.codec.messages.read_share_group_state_response import ReadShareGroupStateResponse
    from kwire.codec.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
    from kwire.codec.messages.read_share_group_state_summary_response import ReadShareGroupStateSummaryResponse
    from kwire.codec.messages.write_share_group_state_request import WriteShareGroupStateRequest
    from kwire.codec.messages.write_share_group_state_response import WriteShareGroupStateResponse

ATTEMPTS: Final = 9
BACKOFF_TOTAL_S: Final = 30.0
"""The sum of all delays between attempts, as in Kafka (2 + 4 + 8 + 16 s)."""
BACKOFF_S: Final = BACKOFF_TOTAL_S / (2 ** (ATTEMPTS - 1) - 1)
"""The delay before the second attempt; each further one is twice as long."""
JITTER: Final = 0.2
"""By which part a delay may be longer or shorter."""
TIMEOUT_S: Final = 30.0
"""How long to wait for another broker's response."""
TRANSIENT: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The errors after which a partition is tried again in any case."""
_NOTHING_STORED: Final = ShareState(0, 0, 0, UNKNOWN, UNKNOWN)


class Persister:
    """The five requests."""

    async def initialize(self, request: InitializeShareGroupStateRequest) -> InitializeShareGroupStateResponse:
        """Begin share partitions."""
        response: InitializeShareGroupStateResponse = await self._call(request)
        return response

    async def read(self, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
        """The states of share partitions, for their leader."""
        response: ReadShareGroupStateResponse = await self._call(request)
        return response

    async def write(self, request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
        """Add what has changed."""
        response: WriteShareGroupStateResponse = await self._call(request)
        return response

    async def delete(self, request: DeleteShareGroupStateRequest) -> DeleteShareGroupStateResponse:
        """Delete share partitions."""
        response: DeleteShareGroupStateResponse = await self._call(request)
        return response

    async def read_summary(self, request: ReadShareGroupStateSummaryRequest) -> ReadShareGroupStateSummaryResponse:
        """Epochs and start offsets of share partitions."""
        response: ReadShareGroupStateSummaryResponse = await self._call(request)
        return response

    async def _call(self, request: Any) -> Any:
        """The response to one of the five."""
        raise NotImplementedError


class NoOpStatePersister(Persister):
    """Stores nothing, and every request succeeds."""

    async def _call(self, request: Any) -> Any:
        kind = KINDS[type(request)]
        shown = kind.shown(_NOTHING_STORED)
        return kind.whole((each, kind.partition(partition=each.key.partition, **shown)) for each in asked_of(request))


class _Joined:
    """What one turn of the event loop asks one broker: partitions, each once, and the response to all of them."""

    def __init__(self, asked: Sequence[Asked], response: asyncio.Future[Any]) -> None:
        self.asked = {each.key: each for each in asked}
        self.response = response

    def add(self, asked: Sequence[Asked]) -> bool:
        """Join further partitions; False, with nothing done, if one of them is asked already."""
        if any(each.key in self.asked for each in asked):
            return False
        self.asked |= {each.key: each for each in asked}
        return True


class DefaultStatePersister(Persister):
    """Asks the share coordinators. ``create_topic`` creates `SHARE_STATE_TOPIC`, and returns when this broker knows it
    or it cannot be created now."""

    def __init__(
        self,
        doors: Doors,
        coordinator: ShareCoordinator,
        peers: Peers,
        metadata: MetadataCache,
        broker_id: int,
        create_topic: Callable[[], Awaitable[None]],
    ) -> None:
        self._random = doors.random
        self._coordinator = coordinator
        self._peers = peers
        self._metadata = metadata
        self._broker_id = broker_id
        self._create_topic = create_topic
        self._joined: dict[tuple[int, type[Any], str], _Joined] = {}
        self._sending: set[asyncio.Task[None]] = set()

    async def _call(self, request: Any) -> Any:
        kind = KINDS[type(request)]
        asked = asked_of(request)
        results: list[Any] = [None] * len(asked)
        left = list(range(len(asked)))
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(BACKOFF_S * 2 ** (attempt - 1) * self._random.uniform(1 - JITTER, 1 + JITTER))
            await self._attempt(request, kind, asked, results, left)
            left = [number for number in left if self._passes(results[number].error_code, asked[number])]
            if not left:
                break
        return kind.whole(zip(asked, results, strict=True))

    def _passes(self, error_code: int, asked: Asked) -> bool:
        """Whether an error is one to try again after. A topic that the coordinator does not know, but this broker does,
        is new; one that neither knows was deleted, and the coordinator need not be asked again."""
        if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            topic = self._metadata.image.topic_by_id(asked.key.topic_id)
            return topic is not None and asked.key.partition < len(topic.partitions)
        return error_code in TRANSIENT

    async def _attempt(
        self, request: Any, kind: Kind, asked: Sequence[Asked], results: list[Any], left: Sequence[int]
    ) -> None:
        """Ask once for the partitions that are left."""
        if self._metadata.image.topic(SHARE_STATE_TOPIC) is None:
            await self._create_topic()
        by_broker: dict[int, list[int]] = {}
        for number in left:
            by_broker.setdefault(self._broker_of(asked[number]), []).append(number)
        asking = [
            self._ask(broker, request.group_id, kind, [asked[number] for number in numbers])
            for broker, numbers in by_broker.items()
        ]
        answers = [await asking[0]] if len(asking) == 1 else await asyncio.gather(*asking)
        for numbers, found in zip(by_broker.values(), answers, strict=True):
            for number, result in zip(numbers, found, strict=True):
                results[number] = result

    def _broker_of(self, asked: Asked) -> int:
        """The broker that coordinates a share partition, -1 for none."""
        index = self._coordinator.partition_of(coordinator_key(asked.key))
        state = None if index is None else self._metadata.image.partition(SHARE_STATE_TOPIC, index)
        return -1 if state is None else state.leader

    async def _ask(self, broker: int, group_id: str, kind: Kind, asked: Sequence[Asked]) -> list[Any]:
        """The results of partitions that one broker coordinates, in their order."""
        if broker == self._broker_id:
            return await resolved(results_of(self._coordinator, kind, asked))
        try:
            if broker < 0:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            response = await asyncio.shield(self._join(broker, kind, group_id, asked))
        except PeerUnavailable as error:
            unreachable = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
            return [kind.failed(each, unreachable) for each in asked]
        except KafkaError as error:
            return [kind.failed(each, error) for each in asked]
        found = {
            (topic.topic_id, result.partition): result for topic in response.results for result in topic.partitions
        }
        missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The coordinator's response has no such partition.")
        return [found.get((each.key.topic_id, each.key.partition)) or kind.failed(each, missing) for each in asked]

    def _join(self, broker: int, kind: Kind, group_id: str, asked: Sequence[Asked]) -> asyncio.Future[Any]:
        """The response of another broker to all that this turn of the event loop asks it for a group."""
        key = (broker, kind.asked, group_id)
        joined = self._joined.get(key)
        if joined is None or not joined.add(asked):
            loop = asyncio.get_running_loop()
            joined = self._joined[key] = _Joined(asked, loop.create_future())
            task = loop.create_task(self._send(joined, broker, kind, group_id), name="share state")
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return joined.response

    async def _send(self, joined: _Joined, broker: int, kind: Kind, group_id: str) -> None:
        await asyncio.sleep(0)  # so that what runs in this turn can join
        key = (broker, kind.asked, group_id)
        if self._joined.get(key) is joined:
            del self._joined[key]
        request = kind.request(group_id, joined.asked.values())
        try:
            response = await self._peers.call(broker, request, request.VALID_VERSIONS[1], timeout_s=TIMEOUT_S)
        except Exception as error:
            fail(joined.response, error)
        else:
            joined.response.set_result(response)

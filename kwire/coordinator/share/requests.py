"""The five requests to share coordinators: an operation of `share.shard` for each partition of each topic.

Handlers respond to them with `respond`, and the persister calls it for what this broker coordinates itself. The
response has one result for each partition, with the error of its operation. If a partition is named twice, both
operations are done, and the last result counts, as in Kafka. Without a group id, topics or partitions there is nothing
to do, and the response is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, for_each, then
from kwire.codec.message import Message
from kwire.codec.messages import (
    delete_share_group_state_request as delete_request,
)
from kwire.codec.messages import (
    delete_share_group_state_response as delete_response,
)
from kwire.codec.messages import (
    initialize_share_group_state_request as initialize_request,
)
from kwire.codec.messages import (
    initialize_share_group_state_response as initialize_response,
)
from kwire.codec.messages import (
    read_share_group_state_request as read_request,
)
from kwire.codec.messages import (
    read_share_group_state_response as read_response,
)
from kwire.codec.messages import (
    read_share_group_state_summary_request as summary_request,
)
from kwire.codec.messages import (
    read_share_group_state_summary_response as summary_response,
)
from kwire.codec.messages import (
    write_share_group_state_request as write_request,
)
from kwire.codec.messages import (
    write_share_group_state_response as write_response,
)
from kwire.coordinator.runtime.machine import Instant, Result
from kwire.coordinator.share.coordinator import ShareCoordinator
from kwire.coordinator.share.records import SharePartitionKey, ShareState, batches_of
from kwire.coordinator.share.shard import ShareShard


class Asked(NamedTuple):
    """One partition of a request."""

    key: SharePartitionKey
    data: Any


class Kind(NamedTuple):
    """A kind of request: its class and its topics; the response, its topics and partitions; the operation for one
    partition; what the result of a partition shows of its state. ``skips_empty_topics``: a topic without partitions is
    left out; otherwise the whole response is empty."""

    asked: type[Any]
    topic_asked: type[Any]
    response: type[Any]
    topic: type[Any]
    partition: type[Any]
    operation: Callable[[ShareShard, Asked, Instant], Result[ShareState]]
    shown: Callable[[ShareState], dict[str, Any]]
    skips_empty_topics: bool = False

    def request(self, group_id: str, asked: Iterable[Asked]) -> Any:
        """A request for some partitions of one group."""
        topics: dict[bytes, list[Any]] = {}
        for each in asked:
            topics.setdefault(each.key.topic_id, []).append(each.data)
        parts = [self.topic_asked(topic_id=topic_id, partitions=data) for topic_id, data in topics.items()]
        return self.asked(group_id=group_id, topics=parts)

    def failed(self, asked: Asked, error: KafkaError) -> Any:
        """The result of a partition whose operation has failed."""
        message = error.message or error.code.name
        return self.partition(partition=asked.key.partition, error_code=error.code, error_message=message)

    def whole(self, results: Iterable[tuple[Asked, Any]]) -> Any:
        """The response with the last result of each partition."""
        topics: dict[bytes, dict[int, Any]] = {}
        for asked, result in results:
            topics.setdefault(asked.key.topic_id, {})[asked.key.partition] = result
        return self.response(
            results=[self.topic(topic_id=each, partitions=list(found.values())) for each, found in topics.items()]
        )


def _nothing(state: ShareState) -> dict[str, Any]:
    return {}


def _state(state: ShareState) -> dict[str, Any]:
    return {
        "state_epoch": state.state_epoch,
        "start_offset": state.start_offset,
        "state_batches": [
            read_response.StateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in state.batches
        ],
    }


def _summary(state: ShareState) -> dict[str, Any]:
    return {
        "state_epoch": state.state_epoch,
        "leader_epoch": state.leader_epoch,
        "start_offset": state.start_offset,
        "delivery_complete_count": state.delivery_complete_count,
    }


def _write(shard: ShareShard, asked: Asked, now: Instant) -> Result[ShareState]:
    data = asked.data
    change = ShareState(
        snapshot_epoch=0,
        state_epoch=data.state_epoch,
        leader_epoch=data.leader_epoch,
        start_offset=data.start_offset,
        delivery_complete_count=data.delivery_complete_count,
        batches=batches_of(data.state_batches),
    )
    return shard.write(asked.key, change, now)


_KINDS: Final = (
    Kind(
        initialize_request.InitializeShareGroupStateRequest,
        initialize_request.InitializeStateData,
        initialize_response.InitializeShareGroupStateResponse,
        initialize_response.InitializeStateResult,
        initialize_response.PartitionResult,
        lambda shard, asked, now: shard.initialize(asked.key, asked.data.state_epoch, asked.data.start_offset, now),
        _nothing,
        skips_empty_topics=True,
    ),
    Kind(
        read_request.ReadShareGroupStateRequest,
        read_request.ReadStateData,
        read_response.ReadShareGroupStateResponse,
        read_response.ReadStateResult,
        read_response.PartitionResult,
        lambda shard, asked, now: shard.read(asked.key, asked.data.leader_epoch, now),
        _state,
    ),
    Kind(
        write_request.WriteShareGroupStateRequest,
        write_request.WriteStateData,
        write_response.WriteShareGroupStateResponse,
        write_response.WriteStateResult,
        write_response.PartitionResult,
        _write,
        _nothing,
    ),
    Kind(
        delete_request.DeleteShareGroupStateRequest,
        delete_request.DeleteStateData,
        delete_response.DeleteShareGroupStateResponse,
        delete_response.DeleteStateResult,
        delete_response.PartitionResult,
        lambda shard, asked, _: shard.delete(asked.key),
        _nothing,
    ),
    Kind(
        summary_request.ReadShareGroupStateSummaryRequest,
        summary_request.ReadStateSummaryData,
        summary_response.ReadShareGroupStateSummaryResponse,
        summary_response.ReadStateSummaryResult,
        summary_response.PartitionResult,
        lambda shard, asked, _: shard.summary(asked.key),
        _summary,
    ),
)

KINDS: Final[dict[type[Message], Kind]] = {kind.asked: kind for kind in _KINDS}
"""The kinds by the class of the request."""


def asked_of(request: Any) -> list[Asked]:
    """The partitions of a request."""
    return [
        Asked(SharePartitionKey(request.group_id, topic.topic_id, data.partition), data)
        for topic in request.topics
        for data in topic.partitions
    ]


def respond(coordinator: ShareCoordinator, request: Any) -> NowOrLater[Any]:
    """The response of this broker to one of the five requests."""
    kind = KINDS[type(request)]
    if not request.group_id or not (kind.skips_empty_topics or all(topic.partitions for topic in request.topics)):
        return kind.response()
    asked = asked_of(request)
    return then(results_of(coordinator, kind, asked), lambda found: kind.whole(zip(asked, found, strict=True)))


def results_of(coordinator: ShareCoordinator, kind: Kind, asked: Iterable[Asked]) -> NowOrLater[list[Any]]:
    """The results of partitions that this broker coordinates."""

    def perform(each: Asked) -> NowOrLater[Any]:
        state = coordinator.perform(each.key, lambda shard, now: kind.operation(shard, each, now))
        if writes:
            coordinator.measured.wrote()
        return then(state, lambda found: kind.partition(partition=each.key.partition, **kind.shown(found)))

    writes = kind.asked is write_request.WriteShareGroupStateRequest
    if writes:
        return coordinator.measured.time_writes(lambda: for_each(asked, perform, kind.failed))
    return for_each(asked, perform, kind.failed)


def refuse(request: Any, code: ErrorCode, message: str | None) -> Any:
    """The response to a request that fails as a whole."""
    kind = KINDS[type(request)]
    return kind.whole((each, kind.failed(each, KafkaError(code, message))) for each in asked_of(request))

"""What several handlers of group APIs share.

The coordinator is in `kwire.coordinator.groups`; handlers turn requests into calls and results into responses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, for_each, for_each_in_turns, then
from kwire.cluster.metadata.features import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from kwire.codec.message import Message
from kwire.coordinator.runtime.machine import Caller
from kwire.handlers.authorization import allowed_topics
from kwire.handlers.context import Purpose, RequestContext
from kwire.handlers.slices import encode_in_slices
from kwire.security.acls.operations import AclOperation

SLICE_GROUPS: Final = 60
"""Groups that are described, or whose offsets are looked up, before other clients get their turn: a millisecond or
two."""


class Described(Protocol):
    """What descriptions of groups of all types have."""

    error_code: int


D = TypeVar("D", bound=Described)
T = TypeVar("T")
R = TypeVar("R")
M = TypeVar("M", bound=Message)


def caller_of(context: RequestContext) -> Caller:
    """The client as a coordinator sees it."""
    describable = None
    if not context.services.authorizer.allows_all:
        describable = partial(allowed_topics, context, AclOperation.DESCRIBE, purpose=Purpose.CHOICE)
    return Caller(context.client_id or "", context.client_host, context.api_version, describable)


def offers_consumer_groups(context: RequestContext) -> bool:
    """Whether this broker serves groups of the consumer protocol (KIP-848): `group.version` is 1, and
    `group.coordinator.rebalance.protocols` has ``consumer``."""
    return _offers(context, "consumer", GROUP_VERSION)


def offers_streams_groups(context: RequestContext) -> bool:
    """Whether this broker serves groups of the streams protocol (KIP-1071): `streams.version` is 1, and
    `group.coordinator.rebalance.protocols` has ``streams``."""
    return _offers(context, "streams", STREAMS_VERSION)


def offers_share_groups(context: RequestContext) -> bool:
    """Whether this broker serves share groups (KIP-932): `share.version` is 1. As in Kafka,
    `group.coordinator.rebalance.protocols` does not matter."""
    return context.services.image.features.get(SHARE_VERSION, 0) >= 1


def denied_first(groups: list[D]) -> list[D]:
    """The descriptions of a response as Kafka sorts them: those that the client may not have come first."""
    return sorted(groups, key=lambda group: group.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _offers(context: RequestContext, protocol: str, feature: str) -> bool:
    services = context.services
    return (
        services.image.features.get(feature, 0) >= 1
        and protocol in services.config.group_coordinator_rebalance_protocols
    )


def each_group(
    context: RequestContext,
    groups: Sequence[T],
    operation: Callable[[T], NowOrLater[R]],
    failed: Callable[[T, KafkaError], R],
    response: Callable[[list[R]], M],
    size: int | None = None,
    cost: Callable[[T], int] = lambda _: 1,
) -> NowOrLater[M]:
    """The response that ``response`` makes of the results of an operation on each group. Of very many groups, ``size``
    (`SLICE_GROUPS`) are begun in one turn, and the response is encoded in slices. ``cost``: how many others a group
    counts for, at least 1."""
    size = size or SLICE_GROUPS
    if len(groups) <= 1 or (len(groups) <= size and sum(map(cost, groups)) <= size):
        return then(for_each(groups, operation, failed), response)
    made = then(for_each_in_turns(groups, operation, failed, size, cost), response)
    return then(made, partial(encode_in_slices, context))

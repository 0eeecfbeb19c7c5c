"""The acknowledgements in ShareFetch and ShareAcknowledge requests: their checks, and their results by partition.

The batches of a partition must have rising offsets, first offsets that are not behind the last ones, one type or one
for each offset, and known types: RENEW (4) from version 2 on, and only in a request with ``is_renew_ack`` (KIP-1222).
Otherwise the partition gets INVALID_REQUEST and nothing of it is applied. Whether the member holds the records is
decided by `kwire.share`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from kwire.base.errors import ErrorCode, KafkaError
from kwire.handlers.authorization import is_topic_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.partitions import has_partition
from kwire.handlers.share.sessions import PartitionKey
from kwire.security.acls.operations import AclOperation
from kwire.share.values import Acknowledgement, AcknowledgeType

RENEW_VERSION: Final = 2
"""The first version of both APIs that knows RENEW."""


class AcknowledgementBatch(Protocol):
    """A batch of acknowledgements in either request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


Batches = Mapping[PartitionKey, Sequence[AcknowledgementBatch]]
"""What a request acknowledges, by partition."""

Result = KafkaError | None
"""Why a partition's acknowledgements failed; None if they did not."""

Pending = asyncio.Future[Result] | Result
"""A result that may come once the change is written."""


def acknowledge(
    batches: Batches, group_id: str, member_id: str, context: RequestContext, *, is_renew_ack: bool
) -> dict[PartitionKey, Pending]:
    """Apply a request's acknowledgements, and return the partitions' results. Partitions without any have none, unless
    they fail the checks."""
    results: dict[PartitionKey, Pending] = {}
    applied: list[PartitionKey] = []
    for key, of_partition in batches.items():
        refusal = _refusal(key, of_partition, context, is_renew_ack)
        if refusal is not None:
            results[key] = refusal
        elif of_partition:
            results[key] = _apply(key, of_partition, group_id, member_id, context)
            applied.append(key)
    context.services.shares.partitions.metrics.acknowledging(topics_of(applied, context))
    return results


async def settle(results: Mapping[PartitionKey, Pending], context: RequestContext) -> dict[PartitionKey, Result]:
    """Wait for all results."""
    settled = {
        key: await asyncio.shield(result) if isinstance(result, asyncio.Future) else result
        for key, result in results.items()
    }
    failed = [key for key, result in settled.items() if result is not None]
    if failed:
        context.services.shares.partitions.metrics.acknowledge_failed(topics_of(failed, context))
    return settled


def topics_of(partitions: Iterable[PartitionKey], context: RequestContext) -> set[str]:
    """The names of the partitions' topics, as far as these exist."""
    known = context.services.image.topics_by_id
    return {known[topic_id].name for topic_id, _ in partitions if topic_id in known}


def _refusal(
    key: PartitionKey, batches: Sequence[AcknowledgementBatch], context: RequestContext, is_renew_ack: bool
) -> KafkaError | None:
    image = context.services.image
    topic = image.topics_by_id.get(key[0])
    if topic is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not _are_valid(batches, context.api_version, is_renew_ack):
        return KafkaError(ErrorCode.INVALID_REQUEST)
    if not is_topic_allowed(context, AclOperation.READ, topic.name):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not has_partition(image, topic.name, key[1]):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return None


def _are_valid(batches: Sequence[AcknowledgementBatch], version: int, is_renew_ack: bool) -> bool:
    known_max = AcknowledgeType.RENEW if version >= RENEW_VERSION else AcknowledgeType.REJECT
    previous_end = -1
    for batch in batches:
        types = batch.acknowledge_types
        if batch.first_offset > batch.last_offset or batch.first_offset < previous_end or not types:
            return False
        if len(types) > 1 and batch.last_offset - batch.first_offset != len(types) - 1:
            return False
        if min(types) < 0 or max(types) > known_max:
            return False
        if AcknowledgeType.RENEW in types and not is_renew_ack:
            return False
        previous_end = batch.last_offset
    return True


def _apply(
    key: PartitionKey,
    batches: Sequence[AcknowledgementBatch],
    group_id: str,
    member_id: str,
    context: RequestContext,
) -> Pending:
    shares = context.services.shares.partitions
    found = shares.find(group_id, key)
    if found is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    given = [Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches]
    result = found.acknowledge(member_id, given)
    if isinstance(result, asyncio.Future):
        result.add_done_callback(lambda done: None if done.result() else shares.metrics.acknowledged(given))
    elif result is None:
        shares.metrics.acknowledged(given)
    return result

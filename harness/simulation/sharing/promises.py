"""What a share group promises (KIP-932), checked on a history; an anomaly is a sentence.

- A record has one holder at a time, as long as the lock lasts and the leader keeps the share partition.
- What was accepted or rejected, and answered with success, is not delivered again (except by a broker that does not
  know yet that it leads no more), and is not accepted a second time by anybody.
- A record is not delivered more often than the limit says.
- No record is lost: in the end each was accepted, or rejected, or delivered as often as allowed.
- The start offset never goes back by itself. Once it is altered, what is before it is not delivered, and everything
  from it on is, as often as if it had not been delivered before.
- No broker answers UNKNOWN_SERVER_ERROR (except one that does not know yet that it leads no more: it may never have
  heard of the share partition): whatever can go wrong has an error that says whether to try again.

A member cannot know what a request without a response has done; all rules allow for both.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from harness.simulation.sharing.history import BEHIND, FINAL, Answer, Delivery, Record, ShareHistory
from kwire.base.errors import ErrorCode

REFUSED: Final = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST})
"""Errors after which nothing of an acknowledgement can have been written."""


def anomalies(history: ShareHistory, logs: Mapping[int, Mapping[int, int]]) -> list[str]:
    """All anomalies. ``logs``: what had to be delivered, value by offset, by partition."""
    deliveries, answers = defaultdict[Record, list[Delivery]](list), defaultdict[Record, list[Answer]](list)
    for delivery in sorted(history.deliveries, key=lambda each: each.span.received_s):
        deliveries[delivery.record].append(delivery)
    for answer in history.answers:
        answers[answer.record].append(answer)
    found = [*_of_starts(history)]
    for record in sorted(deliveries):
        found += _of_holders(deliveries[record])
        found += _of_limit(deliveries[record], history.delivery_limit)
        found += _of_final(deliveries[record], answers[record])
        found += _of_values(deliveries[record], logs)
    for partition, log in logs.items():
        for offset in log:
            record = (partition, offset)
            if not _is_settled(record, deliveries[record], answers[record], history):
                given = ", ".join(f"{each.count} at {each.span.received_s:.3f}" for each in deliveries[record])
                found.append(f"share lost: {record} was never accepted; deliveries: {given or 'none'}")
    unexpected = ErrorCode.UNKNOWN_SERVER_ERROR.name
    found += [
        f"share error: {count} x {what}"
        for what, count in history.errors.items()
        if unexpected in what and not what.startswith(BEHIND)
    ]
    return found + history.trouble


def _of_holders(deliveries: Sequence[Delivery]) -> Iterator[str]:
    """Both are held at the moment at which the later one arrives. Only what one loaded share partition gave counts:
    another one knows nothing of the locks."""
    for number, second in enumerate(deliveries):
        for first in deliveries[:number]:
            ends_s = min(first.ends_s, first.span.sent_s + first.lock_s)
            is_quick = second.span.received_s - second.span.sent_s < second.lock_s
            if second.span.received_s < ends_s and is_quick and _has_one_leader(first, second):
                yield (
                    f"share holders: {first.record} is held by {first.member} (since {first.span.received_s:.3f}) and "
                    f"was given to {second.member} (at {second.span.received_s:.3f})"
                )


def _has_one_leader(first: Delivery, second: Delivery) -> bool:
    incarnations = {each.incarnation for one in (first, second) for each in (one.span.before, one.span.after)}
    return len(incarnations) == 1 and None not in incarnations


def _of_limit(deliveries: Sequence[Delivery], limit: int) -> Iterator[str]:
    for delivery in deliveries:
        if delivery.count > limit:
            yield f"share limit: {delivery.record} was delivered for time {delivery.count}, {limit} are allowed"


def _of_final(deliveries: Sequence[Delivery], answers: Sequence[Answer]) -> Iterator[str]:
    done = sorted(
        (each for each in answers if each.kind in FINAL and each.succeeded), key=lambda each: each.span.sent_s
    )
    if not done:
        return
    held = [each for each in done if _is_held(each, deliveries)]
    for again in held[1:]:
        yield (
            f"share doubled: {again.record}: {held[0].kind.name} of {held[0].member} was answered at "
            f"{held[0].span.received_s:.3f}, and {again.kind.name} of {again.member} at {again.span.received_s:.3f}"
        )
    first = done[0]
    epoch = first.span.after.leader_epoch
    for delivery in deliveries:
        is_current = _epoch(delivery.span.before.leader_epoch) >= _epoch(epoch)
        if delivery.span.sent_s > first.span.received_s and is_current and epoch is not None:
            yield (
                f"share again: {first.kind.name} of {first.record} was answered at {first.span.received_s:.3f}, and it "
                f"was delivered to {delivery.member} at {delivery.span.received_s:.3f} (time {delivery.count})"
            )


def _is_held(answer: Answer, deliveries: Sequence[Delivery]) -> bool:
    """Whether the record was acquired by the member when it was acknowledged. What is said too late, of a record before
    the start offset, succeeds as well, and means nothing."""
    own = [each for each in deliveries if each.member == answer.member and each.span.received_s <= answer.span.sent_s]
    if not own or answer.span.received_s >= own[-1].span.sent_s + own[-1].lock_s:
        return False
    spans = (own[-1].span, answer.span)
    return len({serving.incarnation for span in spans for serving in (span.before, span.after)}) == 1


def _epoch(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def _of_values(deliveries: Sequence[Delivery], logs: Mapping[int, Mapping[int, int]]) -> Iterator[str]:
    for delivery in deliveries:
        partition, offset = delivery.record
        now = logs.get(partition, {}).get(offset)
        if delivery.value is not None and delivery.value != now:
            yield f"share value: {delivery.member} got {delivery.value} at {delivery.record}, where {now} is"


def _is_settled(
    record: Record, deliveries: Sequence[Delivery], answers: Sequence[Answer], history: ShareHistory
) -> bool:
    """Whether a record was accepted or rejected, perhaps without an answer, or was delivered for the last time, perhaps
    by responses that never came."""
    for answer in answers:
        if answer.kind in FINAL and answer.error not in REFUSED:  # done, or perhaps done
            return True
    seen = max((each.count for each in deliveries), default=0)
    since_s = max((each.span.sent_s for each in deliveries), default=-math.inf)
    unknown = history.unanswered.get(record[0], [])
    return seen + sum(sent_s > since_s for sent_s in unknown) >= history.delivery_limit


def of_altered(
    history: ShareHistory, offsets: Mapping[int, int], logs: Mapping[int, Mapping[int, int]]
) -> Iterator[str]:
    """The anomalies after start offsets were altered; ``history`` begins then, with new members."""
    kept = {
        partition: {offset: value for offset, value in logs[partition].items() if offset >= first}
        for partition, first in offsets.items()
    }
    for delivery in history.deliveries:
        partition, offset = delivery.record
        if offset < offsets.get(partition, 0):
            yield f"share altered: {delivery.record} was delivered, and the start offset is {offsets[partition]}"
    for start in history.starts:
        if start.offset < offsets.get(start.partition, -1):
            yield f"share altered: partition {start.partition} is at {start.offset} after {offsets}"
    yield from anomalies(history, kept)


def _of_starts(history: ShareHistory) -> Iterator[str]:
    highest: dict[int, tuple[int, float]] = {}
    for start in sorted(history.starts, key=lambda each: each.received_s):
        if not start.is_certain:
            continue
        before, received_s = highest.get(start.partition, (-1, 0.0))
        if start.offset < before and start.sent_s > received_s:
            yield f"share start: of partition {start.partition} it was {before}, and later {start.offset}"
        if start.offset > before:
            highest[start.partition] = start.offset, start.received_s

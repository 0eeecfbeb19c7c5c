"""What the members of one share group have seen. Times are in seconds of one clock for all members."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kwire.share.values import AcknowledgeType

Record = tuple[int, int]
"""Partition and offset."""

FINAL: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)
"""What ends the delivery of a record for good."""


BEHIND: Final = "fetch from a broker that is behind"
"""What `ShareHistory.errors` counts apart: an error of a broker that does not know of its successor."""


class Serving(NamedTuple):
    """Who serves a share partition at a broker. ``incarnation``: a number for each time that its state was loaded, None
    if it is not loaded or not known; ``leader_epoch`` of the broker's replica, None if not known; ``behind``: whether
    another broker leads the partition, or the state of the share partition, and this one does not know it yet."""

    incarnation: int | None = None
    leader_epoch: int | None = None
    behind: bool = False


class Span(NamedTuple):
    """A request and its response: when they were sent and received, and who served the share partition then."""

    sent_s: float
    received_s: float
    before: Serving = Serving()
    after: Serving = Serving()


@dataclass(slots=True)
class Delivery:
    """A record, or an offset without one (``value`` None), that a member was given. ``ends_s``: until when it is known
    to have held it, if its lock (``lock_s``) does not end before."""

    member: str
    record: Record
    value: int | None
    count: int
    lock_s: float
    span: Span
    ends_s: float = math.inf


@dataclass(slots=True)
class Answer:
    """What a member has said about a record, and what it was told: ``error`` is the code of the response, None if there
    was no response or none about this partition."""

    member: str
    record: Record
    kind: AcknowledgeType
    error: int | None
    span: Span

    @property
    def succeeded(self) -> bool:
        """Whether the broker has said that this is done."""
        return self.error == 0


class Start(NamedTuple):
    """A start offset that the group's description has shown. ``is_certain``: no other broker but the one leader of the
    state could have given it."""

    partition: int
    offset: int
    sent_s: float
    received_s: float
    is_certain: bool


@dataclass
class ShareHistory:
    """Everything about one group. ``unanswered``: by partition, when fetches were sent that got no response, so that
    the members do not know what these have acquired. ``delivery_limit``: how often a record may be delivered."""

    delivery_limit: int
    deliveries: list[Delivery] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    unanswered: dict[int, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How much has happened."""
        kinds = Counter(f"share {answer.kind.name.lower()}" for answer in self.answers if answer.succeeded)
        return {
            "share deliveries": len(self.deliveries),
            "share repeated": sum(delivery.count > 1 for delivery in self.deliveries),
            "share acknowledgements refused": sum(bool(answer.error) for answer in self.answers),
            "share acknowledgements unanswered": sum(answer.error is None for answer in self.answers),
            "share fetches unanswered": sum(map(len, self.unanswered.values())),
            "share start offsets": len(self.starts),
            **kinds,
        }

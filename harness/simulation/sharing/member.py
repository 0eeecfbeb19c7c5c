"""A member of a share group that speaks the raw protocol: heartbeats, ShareFetch, ShareAcknowledge.

It does what it likes with the records it gets: accepts most of them, releases, rejects, renews, or keeps them until
their locks have ended and answers too late; sometimes in the next fetch, sometimes in a request of its own. Once it is
to `finish`, it accepts everything at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from harness.simulation.sharing.history import BEHIND, Answer, Delivery, Record, Serving, ShareHistory, Span
from kwire.base.errors import ErrorCode
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.share_acknowledge_request import (
    AcknowledgementBatch as AcknowledgedBatch,
)
from kwire.codec.messages.share_acknowledge_request import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kwire.codec.messages.share_fetch_request import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from kwire.codec.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kwire.codec.records import iter_headers, iter_records
from kwire.handlers.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, next_epoch
from kwire.share.values import AcknowledgeType

if TYPE_CHECKING:
    from harness.simulation.workload import Client

Address = tuple[str, int]
Look = Callable[[Address, int], Serving]
"""Who serves a share partition at a broker."""

VERSION: Final = 2
"""The version of both share requests."""
PAUSE_S: Final = 0.05
BEAT_S: Final = (0.1, 0.4)
WAIT_MS: Final = 150
KINDS: Final[dict[AcknowledgeType | None, int]] = {
    AcknowledgeType.ACCEPT: 70,
    AcknowledgeType.RELEASE: 14,
    AcknowledgeType.REJECT: 4,
    AcknowledgeType.RENEW: 4,
    None: 8,
}
"""What a member says about a record, and how often; None: nothing for the time being."""
APART: Final = 0.35
"""How often a member acknowledges without fetching."""
CRASHES: Final = 0.01
LEAVES: Final = 0.01
"""How often, by polls, it is replaced by a new member, without and with a goodbye."""
_RENEW: Final = AcknowledgeType.RENEW
_RETRIED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})
_REJOIN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})


@dataclass
class Session:
    """A share session with one broker. ``answered_s``: when its connection is last known to have been open."""

    address: Address
    answered_s: float
    epoch: int = INITIAL_EPOCH
    partitions: set[int] = field(default_factory=set)
    held: dict[Record, Delivery] = field(default_factory=dict)


Saying = dict[Record, AcknowledgeType]


class Member:
    """One member after the other: those that crash or leave are replaced. ``control`` asks for metadata and sends
    heartbeats, ``data`` fetches: a lost connection of one does not end the sessions of the other."""

    def __init__(self, group: str, topic: tuple[str, bytes], clients: tuple[Client, Client], look: Look) -> None:
        self._group = group
        self._topic, self._topic_id = topic
        self._control, self._data = clients
        self._random = self._data.random
        self._look = look
        self._number = 0
        self._finishing = False
        self._begin()

    def attend(self, history: ShareHistory) -> Member:
        """Note everything in a history."""
        self._history = history
        return self

    def _begin(self) -> None:
        """Be a new member."""
        self._number += 1
        self.name = f"{self._data.machine.name}-{self._number}"
        self._epoch = 0
        self._assigned: set[int] = set()
        self._coordinator: Address | None = None
        self._is_unsure = (
            False  # a response with an assignment may be lost: ask for the whole one, as Java's clients do
        )
        self._sessions: dict[Address, Session] = {}

    def finish(self) -> None:
        """From now on accept everything at once."""
        self._finishing = True

    async def leave(self) -> None:
        """Say goodbye to the group and to the leaders; what runs next is a new member."""
        await self._leave()

    async def run(self, until: Callable[[], bool]) -> None:
        """Go on until it is enough."""
        await asyncio.gather(self._beat_until(until), self._poll_until(until))

    # -- the group -----------------------------------------------------------------------------------------------------

    async def _beat_until(self, until: Callable[[], bool]) -> None:
        while not until():
            await self._beat(self._epoch)
            await asyncio.sleep(self._random.uniform(*BEAT_S))

    async def _beat(self, epoch: int) -> None:
        name = self.name
        if self._coordinator is None:
            wanted = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])
            found = (await self._control.call_any(wanted, 4)).coordinators[0]
            if found.error_code:
                return
            self._coordinator = (found.host, found.port)
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=name,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=[self._topic] if epoch == 0 or self._is_unsure else None,
        )
        response = await self._control.call(self._coordinator, request, 1)
        if self.name != name or epoch < 0:
            return
        self._is_unsure = response is None or response.error_code != 0
        if response is None:
            self._coordinator = None
        elif response.error_code in _REJOIN:
            self._epoch, self._assigned = 0, set()
        elif response.error_code:
            self._note(response.error_code, "heartbeat")
            self._coordinator = None
        else:
            self._epoch = response.member_epoch
            if response.assignment is not None:
                self._assigned = {
                    partition
                    for topic in response.assignment.topic_partitions
                    if topic.topic_id == self._topic_id
                    for partition in topic.partitions
                }

    def _note(self, code: int, what: str) -> None:
        self._history.errors[f"{what}: {ErrorCode(code).name}"] += 1

    # -- records -------------------------------------------------------------------------------------------------------

    async def _poll_until(self, until: Callable[[], bool]) -> None:
        while not until():
            await self._poll()
            chance = 1.0 if self._finishing else self._random.random()
            if chance < CRASHES:
                self._crash()
            elif chance < CRASHES + LEAVES:
                await self._leave()
            await asyncio.sleep(self._random.uniform(0.0, 0.1))

    def _crash(self) -> None:
        for session in list(self._sessions.values()):
            self._lose(session)
        self._data.close()
        self._begin()

    async def _leave(self) -> None:
        for session in list(self._sessions.values()):
            if session.epoch != INITIAL_EPOCH:
                said: Saying = {record: kind for record, kind in self._chosen(session).items() if kind is not _RENEW}
                await self._fetch(session, said, FINAL_EPOCH)
        await self._beat(-1)
        self._crash()

    async def _poll(self) -> None:
        """One request to one broker."""
        of_leaders: dict[Address, set[int]] = {}
        for partition in sorted(self._assigned):
            address = await self._control.leader(partition)
            if address is not None:
                of_leaders.setdefault(address, set()).add(partition)
        choices = sorted({*of_leaders, *(each.address for each in self._sessions.values() if each.held)})
        if not choices:
            await asyncio.sleep(PAUSE_S)
            return
        address = self._random.choice(choices)
        session = self._sessions.get(address)
        if session is None:
            session = self._sessions[address] = Session(address, asyncio.get_running_loop().time())
        session.partitions = of_leaders.get(address, set())
        if session.epoch == INITIAL_EPOCH:
            await self._fetch(session, {}, INITIAL_EPOCH)
            return
        said = self._chosen(session)
        renewed: Saying = {record: kind for record, kind in said.items() if kind is _RENEW}
        if renewed:
            await self._acknowledge(session, renewed, renewing=True)
        elif said and self._random.random() < APART:
            await self._acknowledge(session, said)
        else:
            await self._fetch(session, said, session.epoch)

    def _chosen(self, session: Session) -> Saying:
        """What to say now about records held; what is not said now may be said later."""
        kinds, weights = list(KINDS), list(KINDS.values())
        said: Saying = {}
        for record, delivery in session.held.items():
            if delivery.value is None:
                said[record] = AcknowledgeType.GAP
            elif self._finishing:
                said[record] = AcknowledgeType.ACCEPT
            else:
                (kind,) = self._random.choices(kinds, weights)
                if kind is not None:
                    said[record] = kind
        return said

    async def _fetch(self, session: Session, said: Saying, epoch: int) -> None:
        partitions = session.partitions if epoch != FINAL_EPOCH else set()
        by_partition = _by_partition(said)
        named = sorted(partitions | by_partition.keys())
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self.name,
            share_session_epoch=epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=20_000,
            max_records=self._random.choice((1, 5, 100)),
            batch_size=self._random.choice((1, 10)),
            share_acquire_mode=self._random.choice((0, 1)),
            topics=[
                FetchTopic(
                    topic_id=self._topic_id,
                    partitions=[
                        FetchPartition(
                            partition_index=partition,
                            acknowledgement_batches=[
                                AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                                for first, last, types in _batches(by_partition.get(partition, {}))
                            ],
                        )
                        for partition in named
                    ],
                )
            ]
            if named
            else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=self._topic_id, partitions=gone)]
            if epoch > 0 and (gone := sorted(by_partition.keys() - partitions))
            else [],
        )
        response, span_of = await self._call(session, request, said, named)
        found = self._take_answers(session, said, response, span_of, "acknowledge_error_code")
        if response is None:
            for partition in partitions if self._data.sent else ():
                self._history.unanswered.setdefault(partition, []).append(span_of(partition).sent_s)
            return
        for partition, data in found.items():
            if data.error_code:
                span = span_of(partition)
                behind = span.before.behind or span.after.behind
                self._note(data.error_code, BEHIND if behind else "fetch")
                self._control.forget_leader(partition)
            self._take(session, partition, data, response.acquisition_lock_timeout_ms / 1000, span_of(partition))

    async def _acknowledge(self, session: Session, said: Saying, *, renewing: bool = False) -> None:
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self.name,
            share_session_epoch=session.epoch,
            is_renew_ack=renewing,
            topics=[
                AcknowledgeTopic(
                    topic_id=self._topic_id,
                    partitions=[
                        AcknowledgePartition(
                            partition_index=partition,
                            acknowledgement_batches=[
                                AcknowledgedBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                                for first, last, types in _batches(kinds)
                            ],
                        )
                        for partition, kinds in _by_partition(said).items()
                    ],
                )
            ],
        )
        response, span_of = await self._call(session, request, said, [])
        self._take_answers(session, said, response, span_of, "error_code")

    async def _call(
        self, session: Session, request: Any, said: Saying, named: Iterable[int]
    ) -> tuple[Any, Callable[[int], Span]]:
        """Send a request of a session; None: there is no response, or one without partitions."""
        loop = asyncio.get_running_loop()
        partitions = {*named, *(partition for partition, _ in said)}
        sent_s = loop.time()
        before = {partition: self._look(session.address, partition) for partition in partitions}
        for record, kind in said.items():
            if kind is not _RENEW:
                session.held[record].ends_s = sent_s
        if request.share_session_epoch == FINAL_EPOCH:
            for delivery in session.held.values():
                delivery.ends_s = min(delivery.ends_s, sent_s)
        response = await self._data.call(session.address, request, VERSION)
        received_s = loop.time()

        def span_of(partition: int) -> Span:
            return Span(sent_s, received_s, before.get(partition, Serving()), self._look(session.address, partition))

        if response is None:
            self._lose(session)
            return None, span_of
        session.answered_s = received_s
        if response.error_code:
            self._note(response.error_code, "share session")
            if response.error_code in (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH):
                session.epoch = INITIAL_EPOCH
                return response, span_of
            return None, span_of
        session.epoch = next_epoch(session.epoch)
        return response, span_of

    def _lose(self, session: Session) -> None:
        """The connection is gone; the broker may have noticed since the last response, and released everything."""
        for delivery in session.held.values():
            delivery.ends_s = min(delivery.ends_s, session.answered_s)
        if self._sessions.get(session.address) is session:
            del self._sessions[session.address]

    def _take_answers(
        self, session: Session, said: Saying, response: Any, span_of: Callable[[int], Span], code: str
    ) -> dict[int, Any]:
        """Note the results of acknowledgements; return the response's partitions."""
        found = {} if response is None else _partitions(response)
        for record, kind in said.items():
            data = found.get(record[0])
            error = None if data is None else getattr(data, code)
            if data is None and response is not None and not response.error_code:
                self._history.trouble.append(f"share response: nothing about what was said of {record}")
            self._history.answers.append(Answer(self.name, record, kind, error, span_of(record[0])))
            if error:
                self._note(error, "acknowledge")
            is_kept = kind is _RENEW or (error in _RETRIED and self._random.random() < 0.5)
            if not is_kept:
                session.held.pop(record, None)
        return found

    def _take(self, session: Session, partition: int, data: Any, lock_s: float, span: Span) -> None:
        """Note the records that were acquired."""
        values = _values(memoryview(data.records or b""))
        for acquired in data.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                record = (partition, offset)
                delivery = Delivery(self.name, record, values.get(offset), acquired.delivery_count, lock_s, span)
                session.held[record] = delivery
                self._history.deliveries.append(delivery)


def _values(records: memoryview) -> dict[int, int]:
    """The values of all data records, by offset."""
    return {
        record.offset: int(bytes(record.value or b"-1"))
        for position, header in iter_headers(records)
        if not header.is_control
        for record in iter_records(records[position : position + header.size], max_bytes=1 << 20)
    }


def _by_partition(said: Saying) -> dict[int, dict[int, AcknowledgeType]]:
    found: dict[int, dict[int, AcknowledgeType]] = {}
    for (partition, offset), kind in sorted(said.items()):
        found.setdefault(partition, {})[offset] = kind
    return found


def _batches(kinds: dict[int, AcknowledgeType]) -> list[tuple[int, int, list[int]]]:
    """First and last offset and types of batches that acknowledge these offsets."""
    batches = []
    for _, run in groupby(enumerate(kinds.items()), key=lambda each: each[1][0] - each[0]):
        offsets = [(offset, int(kind)) for _, (offset, kind) in run]
        batches.append((offsets[0][0], offsets[-1][0], [kind for _, kind in offsets]))
    return batches


def _partitions(response: Any) -> dict[int, Any]:
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}

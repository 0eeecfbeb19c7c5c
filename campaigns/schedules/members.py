"""Clients in a group: `ClassicMember` with the classic protocol, `ConsumerMember` with the consumer protocol (KIP-848).

Both own partitions (`owned`: topic id, index) from the moment of their assignment until they revoke them, as a consumer
reads them. The invariants of the whole group are in `groups`.
"""

from __future__ import annotations

from typing import Any, Final

from campaigns.schedules.world import OFFSETS_TOPIC, Lost, World, must
from kwire.base.errors import ErrorCode
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.codec.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kwire.codec.messages.consumer_protocol_assignment import TopicPartition as Assigned
from kwire.codec.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codec.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.codec.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.codec.protocol import decode, encode
from kwire.handlers.groups import consumer_group_heartbeat, heartbeat, join_group, leave_group, sync_group

NONE: Final = ErrorCode.NONE
COOPERATIVE: Final = "cooperative-sticky"
SUBSCRIPTION_VERSION: Final = 2  # the first version with the generation
OUT_OF_GROUP: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    }
)

TopicIdPartition = tuple[bytes, int]


class Member:
    """What both kinds of clients have in common."""

    uses_classic = False

    def __init__(self, world: World, number: int, instance: str | None, faces: list[list[str]]) -> None:
        self.world = world
        self.number = number
        self.instance = instance
        self.faces = faces
        self.topics: list[str] = ["t"]
        self.regex: str | None = None
        self.member_id = ""
        self.epoch = -1
        self.owned: set[TopicIdPartition] = set()
        self.slow = 0.0
        """The probability that a revocation is delayed."""

    @property
    def is_in(self) -> bool:
        """Whether it is in the group, as far as it knows."""
        return self.epoch > 0

    def forget(self) -> None:
        """Leave the group without a request, as after a crash or an error."""
        self.member_id, self.epoch = "", -1
        self.owned = set()

    async def step(self) -> None:
        """Send the next request of the protocol. Raises Lost."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Leave the group with a request; do nothing if it is not in the group. Raises `Lost`."""
        raise NotImplementedError

    async def beat_as(self, member_id: str, epoch: int) -> ErrorCode:
        """A heartbeat with an earlier member id and epoch. Raises Lost."""
        raise NotImplementedError

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of the topic with an id, or None if there is none."""
        topic = self.world.metadata.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name


class ConsumerMember(Member):
    """A client of the consumer protocol (KIP-848)."""

    lives = 0

    def forget(self) -> None:
        """See `Member.forget`."""
        super().forget()
        self.target: set[TopicIdPartition] = set()
        self.reports = True
        self.sends_full_request = False
        self.fields: dict[str, Any] = {}
        """A new subscription without a response yet."""

    def __init__(self, *what: Any) -> None:
        super().__init__(*what)
        self.forget()

    async def step(self) -> None:
        """Join the group, or send the next heartbeat. Raises `Lost`, and `Violation` if the epoch went back."""
        if not self.is_in:
            await self._join()
        else:
            await self._beat()

    async def _join(self) -> None:
        if not self.member_id:
            ConsumerMember.lives += 1
            self.member_id = f"m{self.number}-{self.world.doors.random.randrange(1 << 60):x}"
        self.owned, self.target = set(), set()
        chance = self.world.random
        assignor = chance.choice((None, None, "range", "uniform"))
        names = None if self.regex is not None else list(self.topics)
        regex, timeout_ms = self.regex, chance.choice((5_000, 20_000))
        if self.instance is not None:  # fields that are left out are the predecessor's
            names, regex = ([], regex) if regex is not None else (names, "")
        self.take(
            await self._send(
                lambda: self._request(
                    0,
                    owned=set(),
                    subscribed_topic_names=names,
                    subscribed_topic_regex=regex,
                    server_assignor=assignor,
                    rebalance_timeout_ms=timeout_ms,
                ),
                twice=False,
            )
        )

    async def _beat(self) -> None:
        chance = self.world.random
        if self.target != self.owned and chance.random() >= self.slow:
            self.owned = set(self.target)
            self.reports = True
        if not self.world.calm and chance.random() < 0.05:
            self.fields = {"subscribed_topic_names": list(self.topics), "subscribed_topic_regex": ""}
            self.regex = None
        fields = dict(self.fields)
        if self.sends_full_request:
            fields |= {"rebalance_timeout_ms": 15_000, "subscribed_topic_regex": self.regex or ""}
            fields["subscribed_topic_names"] = list(self.topics) if self.regex is None else []
        owned = set(self.owned) if self.sends_full_request or self.reports or chance.random() < 0.3 else None
        epoch = self.epoch
        response = await self._send(lambda: self._request(epoch, owned=owned, **fields), twice=owned is None)
        self.reports = self.reports and owned is None
        self.take(response)

    async def _send(self, make: Any, *, twice: bool) -> Any:
        over = False

        def made() -> ConsumerGroupHeartbeatRequest:
            # The response to a late copy is lost on a closed connection, after which a client sends a full request.
            # (If a copy arrives even later, KIP-848 has no way to recover the assignment in its response.)
            self.sends_full_request |= over
            request: ConsumerGroupHeartbeatRequest = make()
            return request

        try:
            return await self.world.call(consumer_group_heartbeat.API, made, 1, twice=twice)
        except Lost:
            self.sends_full_request = True  # the outcome of the last request is unknown
            raise
        finally:
            over = True

    def take(self, response: Any) -> None:
        """Process the response to a heartbeat. Raises `Violation` if the epoch went back."""
        error = ErrorCode(response.error_code)
        if error in OUT_OF_GROUP:
            self.forget()
        self.sends_full_request = error is not NONE
        if error is not NONE:
            return
        must(response.member_epoch >= self.epoch, f"the epoch of {self.member_id} went back")
        self.epoch = response.member_epoch
        self.fields = {}
        if response.assignment is not None:
            found = response.assignment.topic_partitions
            self.target = {(one.topic_id, index) for one in found for index in one.partitions}
            if self.target - self.owned and self.owned <= self.target:
                self.owned = set(self.target)
                self.reports = True

    async def beat_as(self, member_id: str, epoch: int) -> ErrorCode:
        """See `Member.beat_as`."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, instance_id=self.instance
        )
        return ErrorCode((await self.world.deliver(consumer_group_heartbeat.API, request, 1)).error_code)

    def _request(self, epoch: int, owned: set[TopicIdPartition] | None, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        parts: dict[bytes, list[int]] = {}
        for topic_id, index in sorted(owned or ()):
            parts.setdefault(topic_id, []).append(index)
        told = [TopicPartitions(topic_id=topic_id, partitions=part) for topic_id, part in parts.items()]
        return ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance,
            topic_partitions=None if owned is None else told,
            **fields,
        )

    async def leave(self) -> None:
        """See `Member.leave`. A static member may leave with epoch -2: it will come back."""
        if not self.is_in:
            return
        stays = self.instance is not None and self.world.random.random() < 0.5
        request = self._request(-2 if stays else -1, owned=None)
        self.forget()
        await self.world.call(consumer_group_heartbeat.API, lambda: request, 1)


class ClassicMember(Member):
    """A client of the classic protocol, eager or cooperative."""

    uses_classic = True

    def __init__(self, *what: Any) -> None:
        super().__init__(*what)
        self.rejoins = True
        self.watched: Any = None
        self.skips = True
        self.owes: Any = None  # the coordinator that waits for a SyncGroup that this client never sends
        self.session_ms = self.world.random.choice((8_000, 15_000))

    def forget(self) -> None:
        """See `Member.forget`."""
        super().forget()
        self.rejoins = True
        self.owes = None

    async def step(self) -> None:
        """Send JoinGroup and SyncGroup if it must join or rejoin, otherwise a heartbeat. Raises `Lost`."""
        if not self.is_in or self.rejoins:
            await self._join()
        else:
            await self._beat()

    async def _join(self) -> None:
        face = self.world.random.choice(self.faces)
        cooperative = COOPERATIVE in face
        if not cooperative:
            self.owned = set()
        protocols = [JoinGroupRequestProtocol(name=name, metadata=self._metadata()) for name in face]
        member_id = self.member_id
        response = await self.world.call(
            join_group.API,
            lambda: JoinGroupRequest(
                group_id="g",
                session_timeout_ms=self.session_ms,
                rebalance_timeout_ms=20_000,
                member_id=member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocols=protocols,
            ),
            9,
            twice=not member_id and self.instance is None,
        )
        error = ErrorCode(response.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif error in OUT_OF_GROUP:
            self.forget()
        if error is NONE:
            self.member_id, self.epoch = response.member_id, response.generation_id
            self.rejoins = False
            if not self.skips or not self._is_waited_for() or self.world.random.random() > 0.1:
                await self._sync(response)
            else:  # it never sends SyncGroup, but heartbeats
                self.skips = False
                self.owes = self.world.shard(OFFSETS_TOPIC)
                self.owned = set()

    def _is_waited_for(self) -> bool:
        """Whether the coordinator waits for this client's SyncGroup. It does not if the client continues in a present
        generation."""
        shard = self.world.shard(OFFSETS_TOPIC)
        group = None if shard is None else shard.groups.find("g")
        return group is not None and (group.type_name == "consumer" or group.state_name != "Stable")

    def _metadata(self) -> bytes:
        parts: dict[str, list[int]] = {}
        for topic_id, index in sorted(self.owned):
            name = self.name_of(topic_id)
            if name is not None:
                parts.setdefault(name, []).append(index)
        owned = [TopicPartition(topic=name, partitions=part) for name, part in parts.items()]
        message = ConsumerProtocolSubscription(
            topics=list(self.topics), owned_partitions=owned, generation_id=self.epoch
        )
        return SUBSCRIPTION_VERSION.to_bytes(2, "big") + encode(message, SUBSCRIPTION_VERSION)

    async def _sync(self, joined: Any) -> None:
        self.owes = None
        leads = joined.leader == joined.member_id
        assignments = self._assign(joined) if leads and not joined.skip_assignment else {}
        self.watched, self.rejoins = None, True
        if leads:  # a leader that has returned with SkipAssignment does not know the topics of the assignment
            self.watched = None if joined.skip_assignment else self._topics()
        response = await self.world.call(
            sync_group.API,
            lambda: SyncGroupRequest(
                group_id="g",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=self.instance,
                protocol_type=joined.protocol_type,
                protocol_name=joined.protocol_name,
                assignments=[
                    SyncGroupRequestAssignment(member_id=name, assignment=part) for name, part in assignments.items()
                ],
            ),
            5,
        )
        error = ErrorCode(response.error_code)
        if error in OUT_OF_GROUP or error is ErrorCode.ILLEGAL_GENERATION:
            self.forget()
        if error is not NONE:
            self.rejoins = True
            return
        assigned = self._parse(response.assignment)
        # Cooperative: other members get it in the next generation.
        self.rejoins = bool(self.owned - assigned) or (leads and joined.skip_assignment)
        self.owned = assigned

    def _parse(self, data: bytes) -> set[TopicIdPartition]:
        if len(data) < 2:
            return set()
        assignment, _ = decode(ConsumerProtocolAssignment, int.from_bytes(data[:2], "big"), data, 2)
        topics = self.world.metadata.image.topics
        return {
            (topics[one.topic].id, index)
            for one in assignment.assigned_partitions
            if one.topic in topics
            for index in one.partitions
        }

    def _assign(self, joined: Any) -> dict[str, bytes]:
        """The leader's assignment of all partitions. With the cooperative protocol, partitions that another member
        still owns are left out."""
        counts = {name: len(topic.partitions) for name, topic in self.world.metadata.image.topics.items()}
        wants: dict[str, Any] = {}
        for one in joined.members:
            metadata = bytes(one.metadata)
            wants[one.member_id] = decode(
                ConsumerProtocolSubscription, int.from_bytes(metadata[:2], "big"), metadata, 2
            )[0]
        claims = _claims(wants) if joined.protocol_name == COOPERATIVE else {}
        parts: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in wants}
        turn = 0
        for topic in sorted({topic for want in wants.values() for topic in want.topics}):
            takers = sorted(member_id for member_id, want in wants.items() if topic in want.topics)
            for index in range(counts.get(topic, 0)):
                taker = takers[turn % len(takers)]
                turn += 1
                if claims.get((topic, index), taker) == taker:
                    parts[taker].setdefault(topic, []).append(index)
        return {member_id: _assignment(part) for member_id, part in parts.items()}

    def _topics(self) -> Any:
        """The leader joins again when this changes."""
        topics = self.world.metadata.image.topics
        return [(name, topic.id, len(topic.partitions)) for name, topic in topics.items()]

    async def _beat(self) -> None:
        if self.watched is not None and self.watched != self._topics():
            self.rejoins = True
            return
        if self.owes is not None and self.world.shard(OFFSETS_TOPIC) not in (None, self.owes):
            self.rejoins = True  # after loading its log, the coordinator does not wait for SyncGroup, as in Kafka
            return
        request = HeartbeatRequest(
            group_id="g", generation_id=self.epoch, member_id=self.member_id, group_instance_id=self.instance
        )
        response = await self.world.call(heartbeat.API, lambda: request, 4)
        error = ErrorCode(response.error_code)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoins = True
        elif error in OUT_OF_GROUP or error is ErrorCode.ILLEGAL_GENERATION:
            self.forget()

    async def beat_as(self, member_id: str, epoch: int) -> ErrorCode:
        """See `Member.beat_as`."""
        request = HeartbeatRequest(
            group_id="g", generation_id=epoch, member_id=member_id, group_instance_id=self.instance
        )
        response = await self.world.deliver(heartbeat.API, request, 4)
        return ErrorCode(response.error_code)

    async def leave(self) -> None:
        """See `Member.leave`."""
        if not self.member_id:
            return
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        self.forget()
        await self.world.call(leave_group.API, lambda: LeaveGroupRequest(group_id="g", members=[identity]), 5)


def _claims(wants: dict[str, Any]) -> dict[tuple[str, int], str]:
    """The owners of partitions. If two members report a partition, the newer generation counts."""
    oldest_first = sorted(wants.items(), key=lambda item: item[1].generation_id)
    return {
        (owned.topic, index): member_id
        for member_id, want in oldest_first
        for owned in want.owned_partitions
        for index in owned.partitions
    }


def _assignment(part: dict[str, list[int]]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[Assigned(topic=topic, partitions=indexes) for topic, indexes in part.items()]
    )
    return (1).to_bytes(2, "big") + encode(message, 1)

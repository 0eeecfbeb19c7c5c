"""Schedules of one group. Members of both protocols join, work, stall, lose responses, crash, and return, some with the
other protocol. In some schedules every operation on committed offsets is a long one, whose steps take time.

Invariants: no partition has two owners, neither in the coordinator nor among its current members; an acknowledged
committed offset changes only by another commit; a fenced member commits nothing; epochs never decrease; loading the log
restores the state of the shard. In the end, when all members follow the protocol, the group is stable, and every
partition has one owner, which can commit. When all members have stopped, the group is empty and has no timers.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from random import Random
from typing import Any, Final
from unittest.mock import patch

from campaigns.schedules import replay
from campaigns.schedules.members import COOPERATIVE, ClassicMember, ConsumerMember, Member
from campaigns.schedules.transactions import RETRIABLE
from campaigns.schedules.world import OFFSETS_TOPIC, Lost, World, must
from kwire.base.errors import ErrorCode
from kwire.base.topic_partition import TopicPartition
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.coordinator.groups import coordinator
from kwire.coordinator.groups.classic.group import ClassicGroup
from kwire.coordinator.groups.consumer.group import ConsumerGroup
from kwire.coordinator.groups.consumer.member import MemberState
from kwire.coordinator.groups.offsets import protocol
from kwire.coordinator.runtime import long_operations, runtime
from kwire.handlers.groups import offset_commit, offset_fetch

NONE: Final = ErrorCode.NONE
NEVER: Final = 1 << 60
LIMIT_S: Final = 240
SMALL_STEPS_EVERY: Final = 8
"""In one of so many schedules, operations on committed offsets are long ones."""


class CommittedOffsets:
    """The possible committed offsets of each partition: the last acknowledged one, and all that may have followed
    it."""

    def __init__(self) -> None:
        self.count = 0
        self.possible: dict[TopicPartition, dict[int, int]] = {}  # value -> when its outcome became known
        self.acknowledged: dict[TopicPartition, int] = {}
        self.forgotten: dict[str, int] = {}

    def begin(self, key: TopicPartition) -> int:
        """An offset that was not used before."""
        self.count += 1
        self.possible.setdefault(key, {})[self.count] = NEVER
        return self.count

    def end(self, key: TopicPartition, value: int, error: ErrorCode | None, *, may_come_again: bool) -> None:
        """A commit has ended with an error or NONE. None: its outcome is unknown."""
        values = self.possible[key]
        self.count += 1
        if value <= self.forgotten.get(key[0], -1):
            error = None  # the topic was deleted before the response arrived
        if error is NONE:
            if not may_come_again:
                values[value] = self.count
            self.acknowledged[key] = max(value, self.acknowledged.get(key, -1))
            newest = self.acknowledged[key]
            self.possible[key] = {one: known for one, known in values.items() if known > newest}
        elif error is not None and error not in RETRIABLE and not may_come_again:
            values.pop(value, None)

    def forget(self, topic: str) -> None:
        """The topic was deleted: its committed offsets may be deleted, and commits may still arrive."""
        self.forgotten[topic] = self.count
        for key in [key for key in self.acknowledged if key[0] == topic]:
            del self.acknowledged[key]

    def check(self, found: dict[TopicPartition, int]) -> None:
        """Compare the coordinator's committed offsets with the possible ones. Raises `Violation`."""
        for key in self.possible:
            value = found.get(key, -1)
            if value == -1:
                must(
                    key not in self.acknowledged, f"the committed offset of {key} is lost: {self.acknowledged.get(key)}"
                )
            else:
                must(
                    value in self.possible[key],
                    f"the committed offset of {key} is {value}, not one of {self.possible[key]}",
                )


class Client:
    """A process with one member. After a restart it may use the other protocol."""

    def __init__(self, schedule: Schedule, number: int, instance: str | None) -> None:
        self.schedule = schedule
        self.world = schedule.world
        self.number = number
        self.instance = instance
        self.topics = ["t"] if self.world.random.random() < 0.6 else ["t", "u"]
        self.member: Member = self.new_member(self.world.random.random() < schedule.classic)
        self.past: list[tuple[Member, str, int]] = []
        self.over = False

    def new_member(self, classic: bool) -> Member:
        """A new member of either protocol, which has not joined yet."""
        kind = ClassicMember if classic else ConsumerMember
        member = kind(self.world, self.number, self.instance, self.schedule.faces)
        chance = self.world.random
        member.slow = chance.choice((0.0, 0.3, 0.9))
        member.topics = self.topics
        if not classic and chance.random() < 0.25:
            member.regex = "[tu]"
        return member

    async def live(self) -> None:
        """Act at random intervals until `over` is set, and check the invariants each time. Raises `Violation`."""
        chance = self.world.random
        while not self.over:
            await asyncio.sleep(2.0 if self.world.calm else chance.choice((0.05, 0.5, 2.0, 4.0)))
            try:
                await self.act(0.5 if self.world.calm else chance.random())
            except Lost:
                pass
            self.schedule.check()

    async def act(self, luck: float) -> None:
        """Do what ``luck`` (0 to 1) decides: leave, crash, stall, commit or continue. Raises `Lost` and `Violation`."""
        if luck < 0.04:
            await self.member.leave()
            await asyncio.sleep(self.world.random.choice((0.0, 5.0)))
        elif luck < 0.09:  # a crash, perhaps with another protocol after the restart
            self.restart(self.world.random.random() < self.schedule.classic)
            await asyncio.sleep(self.world.random.choice((0.0, 1.0, 12.0)))
        elif luck < 0.12:
            await asyncio.sleep(self.world.random.choice((6.0, 18.0, 30.0)))  # it stalls, and then continues
            if self.world.random.random() < 0.7 and self.member.is_in:
                await self.commit()
        elif luck < 0.15:
            await self.act_as_former_member()
        elif luck < 0.3 and self.member.is_in:
            await self.commit()
        else:
            await self.member.step()
            self.past.append((self.member, self.member.member_id, self.member.epoch))
            del self.past[:-6]

    async def act_as_former_member(self) -> None:
        """Send a heartbeat and a commit with an earlier member id and epoch. Both must fail."""
        if not self.past:
            return
        member, member_id, epoch = self.world.random.choice(self.past)
        if self.world.shard(OFFSETS_TOPIC) is None:
            return  # while it loads the log, every heartbeat succeeds
        group = self.schedule.group()
        known = None if group is None else group.members.get(member_id)
        now = group.generation if isinstance(group, ClassicGroup) else getattr(known, "epoch", None)
        if epoch <= 0 or (known is not None and now == epoch):
            return
        self.world.counts["ghosts"] += 1
        error = await member.beat_as(member_id, epoch)
        must(error is not NONE, f"a heartbeat of {member_id} with the old epoch {epoch} succeeded")
        others = [one.member for one in self.schedule.clients if one is not self]
        keys = [
            (name, index) for other in others for topic, index in sorted(other.owned) if (name := other.name_of(topic))
        ]
        key = keys[0] if keys else None
        if key is None or self.schedule.holder(key, but=self) is None:
            return
        make = _commit_as(member_id, epoch, member.instance, key, self.schedule.committed_offsets.begin(key))
        response = await self.world.deliver(offset_commit.API, make(), 9)
        error = ErrorCode(response.topics[0].partitions[0].error_code)
        must(error is not NONE, f"a commit of {key} by {member_id} with the old epoch {epoch} succeeded")

    def restart(self, classic: bool) -> None:
        """Crash, and come back as a new member of either protocol."""
        self.schedule.world.counts["restarts"] += 1
        self.member.forget()
        self.member = self.new_member(classic)

    async def commit(self) -> ErrorCode | None:
        """Commit an offset of an owned partition."""
        member, committed_offsets = self.member, self.schedule.committed_offsets
        owned = [(name, index) for topic, index in sorted(member.owned) if (name := member.name_of(topic))]
        if not owned:
            return NONE
        key = self.world.random.choice(owned)
        value = committed_offsets.begin(key)
        rival = self.schedule.holder(key, but=self)
        make = _commit(member, key, value)
        often = 0.5 if self.schedule.small_steps else 0.05
        twice, error = not self.world.calm and self.world.random.random() < often, None
        try:
            response = await self.world.call(offset_commit.API, make, 9, twice=twice)
            error = ErrorCode(response.topics[0].partitions[0].error_code)
        finally:
            committed_offsets.end(key, value, error, may_come_again=twice)
        if error is NONE:
            self.world.counts["positions committed"] += 1
            fenced = rival is not None and rival == self.schedule.holder(key, but=self)
            must(not fenced, f"{member.member_id} has committed {key}, which {rival} owns")
        return error


def _commit(member: Member, key: TopicPartition, value: int) -> Any:
    return _commit_as(member.member_id, member.epoch, member.instance, key, value)


def _commit_as(member_id: str, epoch: int, instance: str | None, key: TopicPartition, value: int) -> Any:
    def make() -> OffsetCommitRequest:
        partition = OffsetCommitRequestPartition(partition_index=key[1], committed_offset=value)
        return OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=key[0], partitions=[partition])],
        )

    return make


class Schedule:
    """One seed."""

    def __init__(self, seed: int) -> None:
        chance = Random(f"group {seed}")
        self.policy = chance.choice(("bidirectional", "bidirectional", "bidirectional", "upgrade", "disabled"))
        self.short_retention = chance.random() < 0.05
        self.small_steps = seed // 2 % SMALL_STEPS_EVERY == 0
        self.world = World(
            seed,
            logs={OFFSETS_TOPIC: 1},
            names={"t": 3, "u": 2},
            group_consumer_migration_policy=self.policy,
            group_consumer_min_session_timeout_ms="6000",
            group_consumer_session_timeout_ms="12000",
            group_consumer_assignment_interval_ms=str(chance.choice((0, 0, 1000))),
            group_initial_rebalance_delay_ms=str(chance.choice((0, 0, 2000))),
            group_max_size=str(chance.choice((100, 100, 3))),
            group_consumer_max_size=str(chance.choice((100, 100, 3))),
            offsets_retention_minutes="1" if self.short_retention else "10080",
            offsets_retention_check_interval_ms="20000" if self.short_retention else "600000",
        )
        self.classic = chance.choice((0.0, 0.3, 0.5, 0.7, 1.0))
        eager = [["range"], ["range", "roundrobin"], ["roundrobin", "range"]]
        self.faces = chance.choice((eager, [[COOPERATIVE]]))
        self.committed_offsets = CommittedOffsets()
        self.epochs = (0, 0)
        self.last_seen: tuple[int, list[str]] = (0, [])
        count = chance.choice((2, 3, 3))
        self.clients = [Client(self, n, f"i{n}" if chance.random() < 0.4 else None) for n in range(count)]

    def run(self) -> None:
        """Run the seed from beginning to end. Raises `Violation`, and any unexpected error."""
        with ExitStack() as stack:
            if self.small_steps:
                self._patch_steps(stack)
            self.world.run(self._happen())

    def _patch_steps(self, stack: ExitStack) -> None:
        """Have every operation on committed offsets take several turns, and each turn some time."""
        chance = Random(self.world.random.random())

        def go_on(turns: long_operations.Turns) -> None:
            after_s = chance.choice((0.0, 0.001, 0.01) if self.world.calm else (0.0, 0.01, 0.1, 1.0))
            asyncio.get_running_loop().call_later(after_s, turns._turn)

        for owner, name, value in (
            (offset_commit, "SLICE_PARTITIONS", 0),
            (coordinator, "MANY_OFFSETS", 0),
            (coordinator, "GROUPS_PER_STEP", 1),
            (protocol, "PARTITIONS_PER_PART", 1),
            (protocol, "RECORDS_PER_STEP", 1),
            (long_operations, "STEP_US", 1),
            (runtime, "WRITTEN_PER_TURN", 1),
            (long_operations.Turns, "_go_on", go_on),
        ):
            stack.enter_context(patch.object(owner, name, value))

    async def _happen(self) -> None:
        world, chance = self.world, self.world.random
        tasks = [world.spawn(client.live()) for client in self.clients]
        tasks.append(world.spawn(self._look()))
        storm = world.spawn(self._storm(chance.choice((10, 25, 40))))
        await asyncio.wait([storm, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if not storm.done():
            storm.cancel()
            await self._stop(tasks)
        await storm
        world.config.group_max_size = world.config.group_consumer_max_size = 100
        world.set_topics(t=4, u=2)
        await self._behave(tasks)
        if self.short_retention:
            await self._check_retention()
        await self._stop(tasks)
        await self._stop_all()

    async def _stop(self, tasks: list[asyncio.Task[None]]) -> None:
        tasks[-1].cancel()
        for client in self.clients:
            client.over = True
        for task in tasks[:-1]:
            await asyncio.wait_for(task, LIMIT_S)
        if not tasks[-1].cancelled() and tasks[-1].done():
            tasks[-1].result()

    async def _storm(self, seconds: float) -> None:
        trouble = self.world.spawn(self.world.storm([(OFFSETS_TOPIC, 0)], seconds))
        chance = self.world.random
        while not trouble.done():
            await asyncio.sleep(chance.choice((1.0, 4.0, 9.0)))
            if chance.random() < 0.5:
                self.world.set_topics(t=3 + chance.randrange(3))
            elif chance.random() < 0.5:
                count = chance.choice((0, 2, 3))
                if not count:
                    self.committed_offsets.forget("u")
                self.world.set_topics(u=count)
        await trouble

    # -- invariants ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the invariants that hold at any time."""
        shard = self.world.shard(OFFSETS_TOPIC)
        group = None if shard is None else shard.groups.find("g")
        if isinstance(group, ConsumerGroup):
            self._check_consumer_group(shard, group)
        elif isinstance(group, ClassicGroup):
            _check_classic_group(shard, group)
        self._check_held(group)
        self._check_epochs(shard, group)

    def _check_epochs(self, shard: Any, group: Any) -> None:
        """Epochs decrease only if the tail of the log is lost, or if the group was deleted and created again."""
        if shard is None:
            return
        there = list(group.members) if isinstance(group, ConsumerGroup) else []
        epochs = (group.epoch, group.assignment_epoch) if isinstance(group, ConsumerGroup) else (0, 0)
        truncations, members = self.last_seen
        if truncations == self.world.truncations and any(member in members for member in there):
            must(self.epochs <= epochs, f"epochs went from {self.epochs} to {epochs}")
        self.last_seen, self.epochs = (self.world.truncations, there), epochs

    def _check_consumer_group(self, shard: Any, group: ConsumerGroup) -> None:
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            must(member.epoch <= group.assignment_epoch <= group.epoch, "a member epoch is ahead of the group")
            must(("consumer-session", "g", member.member_id) in shard.timers, f"{member.member_id} has no session")
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch > 0 and not member.uses_classic:
                must(
                    ("consumer-rebalance", "g", member.member_id) in shard.timers,
                    "there is no deadline for the revocation",
                )
            for part in (member.assigned, member.revoking):
                for topic, partitions in part.items():
                    for partition in partitions:
                        must((topic, partition) not in owners, f"two owners of {topic!r} {partition}")
                        owners[topic, partition] = member.member_id
        table = {(topic, index): name for topic, part in group.owners.items() for index, name in part.items()}
        must(table == owners, "the table of owners is inconsistent")
        ids = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id}
        must(ids == group.static_ids, "the table of static members is inconsistent")

    def _check_held(self, group: Any) -> None:
        held: dict[tuple[bytes, int], str] = {}
        for client in self.clients:
            member = client.member
            if not self._is_current(group, member):
                continue
            known = group.members[member.member_id] if isinstance(group, ConsumerGroup) else None
            for topic, index in member.owned:
                must((topic, index) not in held, f"{member.member_id} and {held.get((topic, index))} read {index}")
                held[topic, index] = member.member_id
                if known is not None and not known.uses_classic:
                    there = index in known.assigned.get(topic, ()) or index in known.revoking.get(topic, ())
                    must(there, f"{member.member_id} reads {topic!r} {index}, which it does not own")

    def _is_current(self, group: Any, member: Member) -> bool:
        """Whether a client is a current member of the group."""
        if group is None or not member.is_in or member.member_id not in group.members:
            return False
        if isinstance(group, ClassicGroup):
            return member.uses_classic and member.epoch == group.generation
        # A downgraded group that was loaded again has assignments that its members have not received. Members with
        # an older generation are fenced.
        return not member.uses_classic or member.epoch == group.members[member.member_id].epoch

    def group(self) -> Any:
        """The group in the active coordinator, or None."""
        shard = self.world.shard(OFFSETS_TOPIC)
        return None if shard is None else shard.groups.find("g")

    def holder(self, key: TopicPartition, but: Client) -> str | None:
        """The current member that owns a partition, unless it is ``but``."""
        group = self.group()
        topic = self.world.metadata.image.topics.get(key[0])
        for client in self.clients:
            member = client.member
            rightful = client is not but and topic is not None and self._is_current(group, member)
            if rightful and (topic.id, key[1]) in member.owned:  # type: ignore[union-attr]
                return member.member_id
        return None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(14)
            replay.compare(self.world)
            self.world.check_nothing_waits(90)
            await self._check_committed_offsets()

    async def _check_committed_offsets(self) -> None:
        if self.short_retention and not self.world.calm:
            return
        before = {key: dict(values) for key, values in self.committed_offsets.possible.items()}
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        try:
            group = (await self.world.deliver(offset_fetch.API, request, 9)).groups[0]
        except Lost:
            return
        if group.error_code:
            return
        found = {
            (topic.name, one.partition_index): one.committed_offset
            for topic in group.topics
            for one in topic.partitions
        }
        if before == self.committed_offsets.possible and not self.short_retention:
            self.committed_offsets.check(found)

    # -- the end of a schedule -----------------------------------------------------------------------------------------

    async def _behave(self, tasks: list[asyncio.Task[None]]) -> None:
        """All members join and follow the protocol: the group becomes stable."""
        chance = self.world.random
        mode = chance.choice((0.0, 1.0))
        if self.policy == "bidirectional":
            mode = chance.choice((0.0, 0.5, 1.0))
        for client in self.clients:
            if client.member.uses_classic != (mode == 1.0) or chance.random() < 0.3:
                client.restart(chance.random() < mode)
            client.member.slow = 0.0
            await asyncio.sleep(2.0)
        end = self.world.loop.time() + LIMIT_S
        while not self._is_at_rest():
            failed = next((task for task in tasks if task.done()), None)
            if failed is not None:
                failed.result()
            must(self.world.loop.time() < end, f"not stable after {LIMIT_S} s: {self._state()}")
            await asyncio.sleep(1.0)
        self.world.counts["groups at rest"] += 1
        for client in self.clients:
            error = await client.commit()
            must(error is NONE or not self._is_at_rest(), f"{client.member.member_id} cannot commit: {error!r}")
        self.world.check_nothing_waits(1)
        await self._check_committed_offsets()

    def _state(self) -> str:
        group = self.group()
        told = [
            (one.member.member_id, one.member.epoch, one.member.uses_classic, sorted(one.member.owned))
            for one in self.clients
        ]
        members = None if group is None else list(group.members.values())
        topics = [(topic.id, len(topic.partitions)) for topic in self.world.metadata.image.topics.values()]
        return f"{group and group.state_name} {topics} {members} {told}"

    def _is_at_rest(self) -> bool:
        group = self.group()
        if group is None or group.state_name != "Stable" or len(group.members) != len(self.clients):
            return False
        if not all(self._is_current(group, client.member) for client in self.clients):
            return False
        topics = self.world.metadata.image.topics
        wanted = {"t"}
        if any("u" in one.member.topics or one.member.regex is not None for one in self.clients):
            wanted.add("u")
        owned = sorted(one for client in self.clients for one in client.member.owned)
        return owned == sorted(
            (topics[name].id, index) for name in wanted for index in range(len(topics[name].partitions))
        )

    async def _check_retention(self) -> None:
        """Committed offsets of a group with members do not expire."""
        for client in self.clients:
            for _ in range(3):
                await client.commit()
        fresh = dict(self.committed_offsets.acknowledged)
        topics = {name for one in self.clients for name in one.member.topics}
        await asyncio.sleep(200)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        group = (await self.world.deliver(offset_fetch.API, request, 9)).groups[0]
        found = {(topic.name, one.partition_index) for topic in group.topics for one in topic.partitions}
        recent = {key for key, value in fresh.items() if key[0] in topics and value > self.committed_offsets.count - 12}
        must(recent <= found, f"committed offsets of a group with members have expired: {sorted(recent - found)}")

    async def _stop_all(self) -> None:
        await asyncio.sleep(200)
        self.world.check_nothing_waits(0)
        shard = self.world.shard(OFFSETS_TOPIC)
        must(shard is not None, "no coordinator")
        group = shard.groups.find("g")  # type: ignore[union-attr]
        must(group is None or not group.members, "a member never expires")
        must(group is None or group.state_name == "Empty", "the group never becomes empty")
        must(len(shard.timers) == 0, "a timer is left")  # type: ignore[union-attr]
        replay.compare(self.world)


def _check_classic_group(shard: Any, group: ClassicGroup) -> None:
    must(
        set(group.joining) <= set(group.members) and set(group.syncing) <= set(group.members),
        "a request of a non-member is parked",
    )
    must(group.leader is None or group.leader in group.members, "the leader is not a member")
    must(bool(group.leader) == bool(group.members), "the group has no leader")
    ids = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id}
    must(ids == group.static_ids, "the table of static members is inconsistent")
    for name, count in group.support.items():
        must(
            count == sum(name in member.protocols for member in group.members.values()) > 0,
            "the count of supported protocols is wrong",
        )
    for member_id in (*group.members, *group.pending):
        waits = member_id in group.joining or member_id in group.syncing
        must(waits or ("session", "g", member_id) in shard.timers, f"{member_id} would never expire")
    if group.state_name == "PreparingRebalance":
        must(("join", "g") in shard.timers and not group.syncing, "the rebalance never ends")
    if group.state_name in ("CompletingRebalance", "Stable"):
        must(not group.unsynced or ("sync", "g") in shard.timers, "there is no timer for SyncGroup")
        must(not group.joining, "a JoinGroup is still parked")
    must(group.state_name != "Empty" or not group.members, "an empty group with members")

"""Loads the coordinators' logs into fresh shards and compares their state with that of the active shards."""

from __future__ import annotations

from typing import Any

from campaigns.schedules.world import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, World, must
from kwire.codec.records import BatchHeader
from kwire.coordinator.groups.classic.group import ClassicGroup
from kwire.coordinator.groups.consumer.group import ConsumerGroup
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import Group, GroupCounters
from kwire.coordinator.groups.shard import GroupShard
from kwire.coordinator.runtime.log_loader import replay_batch
from kwire.coordinator.transactions.records import Transaction
from kwire.coordinator.transactions.shard import TransactionShard


class _Into:
    """Applies the records of a log to a shard."""

    def __init__(self, shard: Any, wall_ms: int) -> None:
        self.shard = shard
        self._wall_ms = wall_ms

    def replay(self, key: bytes | None, value: bytes | None, offset: int, producer_id: int) -> None:
        if key is not None:
            self.shard.apply(key, value, offset, wall_ms=self._wall_ms, producer_id=producer_id)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.shard.end_transaction(producer_id, committed=committed)


def compare(world: World) -> None:
    """Raises Violation if loading a log gives another state than the active shard's. A long operation that is in
    progress may have written what it has not applied yet."""
    for topic, fresh, picture in (
        (OFFSETS_TOPIC, _new_groups, picture_of_groups),
        (TRANSACTIONS_TOPIC, _new_transactions, picture_of_transactions),
    ):
        if (topic, 0) not in world.replicas.partitions:
            continue
        live = world.shard(topic)
        if live is None or world.is_busy(topic):
            continue
        into = _read_on(world, topic, fresh)
        active, loaded = picture(live, live), picture(into.shard, live)
        must(active == loaded, f"loading the log of {topic} gives another state:\n{active}\n{loaded}")
        world.counts["reloads compared"] += 1


def _read_on(world: World, topic: str, fresh: Any) -> _Into:
    """A shard that has loaded the whole log. The shard of the last call reads on, unless the log has lost its tail."""
    truncations, offset, shard = world.replayed.get(topic, (-1, 0, None))
    if truncations != world.truncations:
        offset, shard = 0, fresh(world)
    into = _Into(shard, world.time_ms())
    for header, batch in world.batches((topic, 0), offset):
        _replay(header, batch, into)
        offset = header.next_offset
    world.replayed[topic] = world.truncations, offset, shard
    return into


def _replay(header: BatchHeader, batch: memoryview, into: _Into) -> None:
    replay_batch(batch, header, into)


def _new_groups(world: World) -> GroupShard:
    return GroupShard(world.config, lambda: "", GroupCounters(), Topics(world.metadata.image, lambda _: {}))


def _new_transactions(world: World) -> TransactionShard:
    return TransactionShard(world.config, lambda: 0, lambda: world.level)


def picture_of_groups(shard: GroupShard, live: GroupShard) -> Any:
    """The state that the log contains. A classic group is included only while it is stable in ``live``."""
    groups = {}
    for group in shard.groups:
        known = live.groups.find(group.group_id)
        if not isinstance(known, ClassicGroup) or known.state_name == "Stable":
            groups[group.group_id] = _picture(group)
    offsets = {name: list(shard.offsets.walk(name)) for name in sorted(shard.offsets.group_ids())}
    pending = {producer: groups for producer, groups in shard.offsets._open.items() if any(groups.values())}
    return groups, offsets, pending


def _picture(group: Group) -> Any:
    if isinstance(group, ConsumerGroup):
        return (
            group.epoch,
            group.metadata_hash,
            group.assignment_epoch,
            group.assignment_ms,
            group.members,
            group.target,
            group.owners,
            group.names,
            group.regexes,
            group.resolved,
            group.assignors,
            group.static_ids,
            group.classic_count,
            group.supported,
        )
    assert isinstance(group, ClassicGroup)
    name = group.protocol_name or ""
    members = [
        (
            m.member_id,
            m.instance_id,
            m.client_id,
            m.client_host,
            m.rebalance_timeout_ms,
            m.session_timeout_ms,
            m.protocols.get(name),
            m.assignment,
        )
        for m in group.members.values()
    ]
    return (
        group.state_name,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader,
        members,
        dict(group.static_ids),
        group.subscribed_topics,
    )


def picture_of_transactions(shard: TransactionShard, live: TransactionShard) -> Any:
    """All transactional ids with the contents of their records."""
    return {one.transactional_id: _of(one) for one in shard}


def _of(one: Transaction) -> tuple[Any, ...]:
    return (
        one.producer_id,
        one.previous_producer_id,
        one.next_producer_id,
        one.producer_epoch,
        one.timeout_ms,
        one.state,
        sorted(one.partitions),
        one.start_ms,
        one.update_ms,
        one.client_version,
    )

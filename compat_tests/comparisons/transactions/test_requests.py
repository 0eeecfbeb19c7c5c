"""Scripts of transaction requests, valid and invalid: the same responses, records and state on both brokers."""

from __future__ import annotations

import random

import pytest

from compat_tests.comparisons.groups.script import fetch
from compat_tests.comparisons.transactions.script import Producer, TransactionScript
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id(script: TransactionScript, version: int) -> None:
    script.init(version)
    script.init(version)
    for timeout_ms in (0, -5, 900_000, 900_001):
        script.init(version, transaction_timeout_ms=timeout_ms)
    script.init(version, name="")
    script.written_states()


def test_init_producer_id_of_a_producer_that_goes_on(script: TransactionScript) -> None:
    who = script.init()
    bumped = script.init(who=who)
    script.init(who=who)  # a retry
    script.init(who=bumped)
    script.init(who=who)
    script.init(who=Producer(script.id, who.id + 77, who.epoch))
    script.init(producer_id=who.id)
    script.init(producer_epoch=1)
    script.written_states()


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_a_transaction_of_the_old_protocol(script: TransactionScript, commit: bool, version: int) -> None:
    who = script.init(3)
    script.end(who, commit=commit, version=version)  # nothing to end
    script.add(who, 0, 1, version=min(version, 3))
    script.add(who, 0, version=min(version, 3))
    script.write(who, 0, version=8)
    script.write(who, 1, version=11, index=0)
    script.look()
    script.end(who, commit=commit, version=version)
    script.end(who, commit=commit, version=version)
    script.end(who, commit=not commit, version=version)
    script.look()
    script.add(who, 1, version=min(version, 3))
    script.write(who, 0, index=1)
    script.look()
    script.end(who, commit=not commit, version=version)
    script.look()
    script.written_states()


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("produce_version", [12])
def test_a_transaction_of_the_new_protocol(script: TransactionScript, commit: bool, produce_version: int) -> None:
    who = script.init(5)
    script.write(who, 0, version=produce_version)
    script.write(who, 1, version=produce_version)
    script.look()
    following = script.end(who, commit=commit, version=5)
    script.end(who, commit=commit, version=5)
    script.end(who, commit=not commit, version=5)
    script.look()
    script.write(who, 2, version=produce_version)  # late
    script.write(following, 5, version=produce_version)
    script.write(following, 0, version=produce_version, index=1)
    script.write(following, 3, version=produce_version)
    script.write(following, 0, version=produce_version)
    last = script.end(following, commit=not commit, version=5)
    script.end(last, commit=False, version=5)
    script.end(who, commit=False, version=5)
    script.look()
    script.written_states()


def test_ending_nothing_in_the_new_protocol(script: TransactionScript) -> None:
    who = script.init(5)
    script.end(who, commit=True, version=5)
    following = script.end(who, commit=False, version=5)
    script.end(who, commit=False, version=5)
    script.end(who, commit=True, version=5)
    script.end(following, commit=True, version=5)
    following = script.end(following, commit=False, version=5)
    script.init(5, who=following)
    script.look()
    script.written_states()


@pytest.mark.parametrize("produce_version", [3, 8, 9, 10, 11])
def test_writes_outside_the_transaction(script: TransactionScript, produce_version: int) -> None:
    who = script.init()
    script.write(who, 0, version=produce_version)
    script.add(who, 1)
    script.write(who, 0, version=produce_version)
    script.write(Producer(who.name, who.id, who.epoch + 1), 0, version=produce_version)
    script.write(Producer(who.name, who.id + 50, 0), 0, version=produce_version)
    script.write(Producer("nobody", who.id, who.epoch), 0, version=produce_version)
    script.write(who, 3, version=produce_version, index=1)
    script.write(who, 0, version=produce_version, index=1)
    script.write(who, 5, version=produce_version, index=1)
    script.write(who, 0, version=produce_version, index=1, transactional=False)
    script.write(who, 1, version=produce_version, index=1, transactional=False)
    script.look()


def test_writes_of_strangers_in_the_new_protocol(script: TransactionScript) -> None:
    who = script.init(5)
    script.write(Producer(who.name, who.id, who.epoch + 1), 0, version=12)
    script.write(Producer(who.name, who.id + 50, 0), 0, version=12)
    script.write(Producer("nobody", who.id, who.epoch), 0, version=12)
    script.write(who, 7, version=12)
    script.write(who, 0, version=12)
    script.look()


@pytest.mark.parametrize("version", range(4))
def test_add_partitions_errors(script: TransactionScript, version: int) -> None:
    who = script.init()
    script.add(who, 0, 7, version=version)
    script.add(who, 0, version=version, topic="missing-topic")
    script.add(Producer(who.name, who.id + 1, 0), 0, version=version)
    script.add(Producer(who.name, who.id, 5), 0, version=version)
    script.add(Producer("nobody", who.id, 0), 0, version=version)
    script.add(Producer("", who.id, 0), 0, version=version)
    script.add(who, 0, version=version, topic="__consumer_offsets")
    script.look()


@pytest.mark.parametrize("version", [4, 5])
def test_add_partitions_for_brokers(script: TransactionScript, version: int) -> None:
    who = script.init()
    script.add_batched(who, 0, verify=True, version=version)
    script.add_batched(who, 0, version=version)
    script.add_batched(who, 0, 1, verify=True, version=version)
    script.add_batched(who, 9, verify=True, version=version)
    script.add_batched(Producer(who.name, who.id, 5), 0, version=version)
    script.add_batched(Producer(who.name, who.id, 5), 0, verify=True, version=version)
    script.add_batched(Producer("nobody", who.id, 0), 0, verify=True, version=version)
    script.add_batched(Producer("", who.id, 0), 0, verify=True, version=version)
    script.add_batched(Producer("", who.id, 0), 0, version=version)
    script.written_states()


def test_fencing(script: TransactionScript) -> None:
    old = script.init()
    script.add(old, 0)
    script.write(old, 0)
    new = script.init_until_it_works()
    script.write(old, 1)
    script.add(old, 0)
    script.add(old, 0, version=1)
    script.end(old, commit=True)
    script.end(old, commit=True, version=1)
    script.end(old, commit=True, version=5)
    script.commit_offsets(old, 1)
    script.add_offsets(old)
    script.add_offsets(old, 1)
    script.init(3, who=old)
    script.init(4, who=old)
    script.look()
    script.add(new, 0)
    script.write(new, 0)
    script.end(new, commit=True)
    script.look()
    script.written_states()


@pytest.mark.parametrize("version", range(6))
def test_offsets_in_a_transaction(script: TransactionScript, version: int) -> None:
    def see_offsets() -> None:
        request = fetch(8, script.group, {script.name: [0]})
        script.call("fetch offsets", request, 8)
        request.require_stable = True
        script.call("fetch stable offsets", request, 8)

    who = script.init()
    script.commit_offsets(who, 1, version)
    script.add_offsets(who, min(version, 4))
    script.commit_offsets(who, 2, version)
    see_offsets()
    script.end(who, commit=False)
    see_offsets()
    script.add_offsets(who)
    script.commit_offsets(who, 3, version)
    script.end(who, commit=True)
    see_offsets()
    script.commit_offsets(Producer(who.name, who.id, 9), 4, version)
    script.commit_offsets(Producer("nobody", who.id, 0), 4, version)
    if version >= 3:
        script.add_offsets(who)
        script.commit_offsets(who, 5, version, generation_id=3, member_id="nobody")
        script.end(who, commit=True)
    see_offsets()
    script.written_states()


def test_groups_and_positions_deleted_before_their_transaction_ends(
    script: TransactionScript,
) -> None:
    def see_offsets() -> None:
        script.call("fetch offsets", fetch(8, script.group, {script.name: [0, 1]}), 8)

    def delete_offsets(*indexes: int) -> None:
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        topics = [OffsetDeleteRequestTopic(name=script.name, partitions=partitions)]
        script.call("delete offsets", OffsetDeleteRequest(group_id=script.group, topics=topics), 0)

    def delete_group() -> None:
        script.call("delete group", DeleteGroupsRequest(groups_names=[script.group]), 2)

    who = script.init()
    for commit in (True, False):
        for index in (0, 1):
            for delete in (delete_group, lambda: delete_offsets(0), lambda: delete_offsets(0, 1)):
                script.add_offsets(who)
                script.commit_offsets(who, 3, index=index)
                delete()
                see_offsets()
                script.end(who, commit=commit)
                see_offsets()
    delete_group()
    delete_group()
    see_offsets()
    script.add_offsets(who)
    script.commit_offsets(who, 3)
    delete_group()
    script.commit_offsets(who, 4)
    script.end(who, commit=True)
    see_offsets()


def test_markers_of_administrators(script: TransactionScript) -> None:
    who = script.init()
    script.add(who, 0, 1)
    script.write(who, 0)
    script.marker(who, 0, 9)
    script.look()
    script.marker(who, 0)
    script.marker(who, 1, commit=True, epoch=5)
    script.marker(who, 1, epoch=3)
    script.marker(Producer(who.name, who.id, -1), 0)
    script.marker(Producer(who.name, who.id, 4), 1, epoch=5)
    script.marker(Producer(who.name, who.id, 2), 1, epoch=6)
    script.marker(Producer(who.name, who.id, 4), 1, epoch=6, version=2, level=2)
    script.look()


def test_strict_markers(script: TransactionScript) -> None:
    who = script.init()
    script.add(who, 0, 1)
    script.write(who, 0)
    script.marker(who, 0, version=2, level=2)
    script.marker(Producer(who.name, who.id, 1), 0, version=2, level=2)
    script.marker(Producer(who.name, who.id, 1), 0, version=2, level=2)
    script.marker(Producer(who.name, who.id, 0), 0, version=2, level=2)
    script.look()


def test_aborted_transactions_in_what_was_read(script: TransactionScript) -> None:
    who = script.init()
    for number in range(6):
        script.add(who, 0)
        script.write(who, number, b"x" * 3000)
        script.end(who, commit=number % 3 == 0)
    for offset in (0, 1, 2, 5, 8, 11):
        for max_bytes in (3100, 4000, 7000, 1 << 20):  # Kafka returns one more if the read ends at an index entry
            script.see(f"read {offset} {max_bytes}", script.read(0, 1, offset, max_bytes))


def test_listing(script: TransactionScript) -> None:
    who = script.init()
    script.list()
    script.add(who, 0)
    script.list(0)
    script.list(state_filters=["Ongoing"])
    script.list(state_filters=["Empty", "Nope", "Dead"])
    script.list(state_filters=["Nope"])
    script.list(duration_filter=0)
    script.list(duration_filter=10_000_000)
    script.list(producer_id_filters=[123456])
    script.list(producer_id_filters=[who.id])
    script.list(transactional_id_pattern="txn-.*")
    script.list(transactional_id_pattern="txn")
    script.list(transactional_id_pattern="")
    script.list(transactional_id_pattern="(")
    script.see("nobody", script.transaction("nobody"))
    script.see("empty", script.transaction(""))
    script.end(who, commit=True)
    script.list(duration_filter=0)
    script.list(state_filters=["CompleteCommit"])


@pytest.mark.parametrize("seed", range(30))
def test_random_conversations(script: TransactionScript, seed: int) -> None:
    """Producers of one transactional id that start, stall, continue and mix protocol versions, old and new epochs."""
    chance = random.Random(seed)
    new = seed % 3 == 0
    known = [script.init()]
    sequences: dict[tuple[Producer, int], int] = {}
    for _ in range(60):
        who = known[-1] if chance.random() < 0.8 else chance.choice(known)
        version = chance.choice((5,) if new else (1, 4)) if chance.random() < 0.9 else chance.choice((1, 4, 5))
        luck = chance.random()
        index = chance.randrange(2)
        if luck < 0.2:
            script.add(who, index, version=chance.choice((1, 3)))
        elif luck < 0.6:
            sequence = sequences.get((who, index), 0) if chance.random() < 0.9 else chance.randrange(4)
            response = script.write(who, sequence, index=index, version=12 if version == 5 else chance.choice((8, 11)))
            if response.responses[0].partition_responses[0].error_code == 0:
                sequences[who, index] = sequence + 1
        elif luck < 0.75:
            following = script.end(who, commit=chance.random() < 0.6, version=version)
            if following.id >= 0 and following not in known:
                known.append(following)
        elif luck < 0.8:
            script.add_offsets(who)
        elif luck < 0.85:
            script.commit_offsets(who, chance.randrange(100), chance.choice((3, 4, 5)))
        elif luck < 0.9:
            script.add_batched(who, index, verify=chance.random() < 0.5)
        elif luck < 0.95:
            known.append(_good(script.init(who=who if chance.random() < 0.5 else None), known[-1]))
            script.settled()
        elif luck < 0.97:
            script.marker(known[-1], index)
        else:
            script.look()
    script.look()
    script.written_states()


def _good(producer: Producer, former: Producer) -> Producer:
    return producer if producer.id >= 0 else former

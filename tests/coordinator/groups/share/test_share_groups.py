"""Share groups (KIP-932): members, epochs, which partitions are assigned, and loading the log."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from kwire.codec.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kwire.coordinator.groups.share.assignor import ShareMemberSpec, assign_simple
from kwire.coordinator.groups.share.group import ShareGroup
from kwire.coordinator.groups.share.protocol import check_request
from kwire.coordinator.runtime.long_operations import EstimatedPace
from kwire.coordinator.runtime.machine import Caller, settle
from tests.coordinator.bench import outcome
from tests.coordinator.consumer_bench import ConsumerBench


class ShareBench(ConsumerBench):
    """A shard with one share group under test. Its topic ``t`` has 4 partitions."""

    asked: InitializeShareGroupStateRequest | None = None

    def set_topics(self, **counts: int) -> None:
        super().set_topics(**counts)
        self.shard.update_topics(self.topics(), list(counts), new=True)

    @property
    def shares(self) -> ShareGroup:
        found = self.shard.groups.find(self.group)
        assert isinstance(found, ShareGroup)
        return found

    def share(self, member: str, epoch: int, *topics: str, **fields: Any) -> Any:
        """Send one heartbeat. Returns the response, or the error as a response."""
        fields.setdefault("subscribed_topic_names", list(topics) or None)
        request = ShareGroupHeartbeatRequest(
            **{"group_id": self.group, "member_id": member, "member_epoch": epoch, **fields}
        )
        try:
            check_request(request)
            out = self.shard.shares.heartbeat(request, Caller("c", "/h", 1), self.now)
            settle(out, self.now, self._append, self._apply)
        except KafkaError as error:
            return SimpleNamespace(error_code=error.code, error_message=error.message)
        self.tick()
        assert out.response is not None
        self.asked = out.response.initialize
        return out.response.response

    def answer(self, *, fail: bool = False) -> None:
        """The share coordinators answer the last request."""
        assert self.asked is not None
        partitions = {one.topic_id: {each.partition for each in one.partitions} for one in self.asked.topics}
        known, failed = ({}, partitions) if fail else (partitions, {})
        self.run(self.shard.shares.initialized(self.group, known, failed))

    def arrive(self, member: str, *topics: str) -> Any:
        """Join, and get all partitions."""
        response = self.share(member, 0, *(topics or ("t",)))
        if self.asked is not None:
            self.answer()
            response = self.share(member, response.member_epoch)
        return response


def owned(response: Any) -> list[list[int]]:
    return [topic.partitions for topic in response.assignment.topic_partitions]


@pytest.fixture
def bench() -> ShareBench:
    return ShareBench()


def test_partitions_are_assigned_once_the_share_coordinators_know_them(bench: ShareBench) -> None:
    first = bench.share("a", 0, "t")
    assert (first.member_epoch, owned(first)) == (2, [])
    assert bench.asked is not None
    (topic,) = bench.asked.topics
    assert [(each.partition, each.state_epoch, each.start_offset) for each in topic.partitions] == [
        (index, 2, -1) for index in range(4)
    ]
    again = bench.share("a", 2)
    assert (again.member_epoch, again.assignment) == (2, None)
    assert not bench.asked, "it is not sent again at once"
    bench.share("b", 0, "t")
    assert not bench.asked


def test_initialised_partitions_bump_the_epoch(bench: ShareBench) -> None:
    second = bench.arrive("a")
    assert (second.member_epoch, owned(second)) == (3, [[0, 1, 2, 3]])
    third = bench.share("a", 3)
    assert (third.member_epoch, third.assignment) == (3, None)


def test_what_failed_is_tried_again(bench: ShareBench) -> None:
    bench.share("a", 0, "t")
    bench.answer(fail=True)
    bench.share("a", 2)
    assert bench.asked is not None


def test_what_is_not_answered_is_tried_again_after_a_while(bench: ShareBench) -> None:
    bench.share("a", 0, "t")
    bench.advance(29_000)
    bench.share("a", 2)
    assert bench.asked is None
    bench.advance(1_000)
    bench.share("a", 2)
    assert bench.asked is not None


def test_new_partitions_of_a_topic_are_initialised_too(bench: ShareBench) -> None:
    epoch = bench.arrive("a").member_epoch
    bench.set_topics(t=6)
    epoch = bench.share("a", epoch).member_epoch
    assert bench.asked is not None
    assert [each.partition for each in bench.asked.topics[0].partitions] == [4, 5]
    bench.answer()
    assert owned(bench.share("a", epoch)) == [[0, 1, 2, 3, 4, 5]]


def test_members_share_partitions_if_there_are_more_of_them(bench: ShareBench) -> None:
    for member in "abcdef":
        bench.arrive(member)
    for member in "abcdef":
        bench.share(member, bench.shares.members[member].epoch)
    members = bench.shares.members.values()
    owners = [index for member in members for partitions in member.assigned.values() for index in partitions]
    assert sorted(owners) == sorted([0, 1, 2, 3] * 2)


def test_members_leave_and_sessions_end(bench: ShareBench) -> None:
    epoch = bench.arrive("a").member_epoch
    bench.arrive("b")
    assert bench.share("b", -1).member_epoch == -1
    assert set(bench.shares.members) == {"a"}
    bench.advance(44_000)
    bench.share("a", epoch)
    bench.advance(45_000)
    assert bench.shares.is_empty
    assert bench.shares.state_name == "Empty"
    assert len(bench.shard.timers) == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"subscribed_topic_names": []}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
    ],
)
def test_invalid_requests_are_refused(bench: ShareBench, fields: dict[str, Any], message: str) -> None:
    refused = bench.share("a", 0, **fields)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, message)


def test_epochs_are_checked(bench: ShareBench) -> None:
    assert bench.share("a", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    bench.arrive("a")
    assert bench.share("a", 2).member_epoch == 3, "the response was lost"
    assert bench.share("a", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.share("a", 9).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.share("b", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    bench.settings.group_share_max_size = 1
    assert bench.share("b", 0, "t").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.share("a", 0, "t").member_epoch == 3


def test_groups_of_other_types_are_refused(bench: ShareBench) -> None:
    bench.arrive("a")
    with pytest.raises(KafkaError, match="is not a consumer group"):
        bench.shares.check_offset_commit("", None, -1, version=9)
    with pytest.raises(KafkaError, match="is not a consumer group"):
        bench.shares.check_offset_fetch(None, -1)
    with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
        bench.shares.check_delete()


def test_an_empty_group_stays_until_it_is_deleted(bench: ShareBench) -> None:
    bench.arrive("a")
    bench.share("a", -1)
    bench.run(bench.shard.expire(bench.shard.groups.snapshot(), bench.now))
    assert bench.shares.is_empty
    bench.run(bench.shard.delete_group("g"))
    assert bench.shard.groups.find("g") is None


def test_loading_the_log_gives_the_same_state(bench: ShareBench) -> None:
    chance = random.Random(7)
    for step in range(200):
        member = chance.choice("abcd")
        known = bench.shares.members.get(member) if step else None
        if known is None or chance.random() < 0.1:
            bench.share(member, 0, *chance.sample(["t", "u", "v"], chance.randrange(1, 4)))
        elif chance.random() < 0.15:
            bench.share(member, -1)
        else:
            bench.share(member, known.epoch)
        if bench.asked is not None and chance.random() < 0.8:
            bench.answer(fail=chance.random() < 0.3)
        if chance.random() < 0.1:
            bench.set_topics(**{chance.choice("tuv"): chance.choice((2, 4, 7))})
        if chance.random() < 0.1:
            group = bench.shares
            before = (group.epoch, group.assignment_epoch, group.members, group.target, group.states)
            bench.compact(chance.randrange(len(bench.log) + 1), tombstones=chance.random() < 0.5)
            bench.reload()
            group = bench.shares
            assert (group.epoch, group.assignment_epoch, group.members, group.target, group.states) == before


@pytest.mark.parametrize("seed", range(200))
def test_partitions_are_shared_evenly(seed: int) -> None:
    chance = random.Random(seed)
    topics = {bytes([number]) * 16: range(chance.randrange(1, 9)) for number in range(chance.randrange(1, 4))}
    same = chance.random() < 0.5
    assigned: dict[str, dict[bytes, frozenset[int]]] = {}
    for _ in range(3):
        names = [f"m{number}" for number in range(chance.randrange(1, 12))]
        specs = {}
        for name in names:
            count = len(topics) if same else chance.randrange(1, len(topics) + 1)
            wanted = frozenset(chance.sample(list(topics), count))
            specs[name] = ShareMemberSpec(wanted, assigned.get(name, {}))
        assigned = assign_simple(specs, topics)
        for name, spec in specs.items():
            assert set(assigned[name]) <= spec.topics
        for topic, indexes in topics.items():
            subscribers = [name for name in names if topic in specs[name].topics]
            holders = [sum(index in assigned[name].get(topic, ()) for name in names) for index in indexes]
            assert all(holders) or not subscribers
            assert not holders or max(holders) - min(holders) <= 1
        if same:
            counts = [sum(map(len, assigned[name].values())) for name in names]
            assert max(counts) - min(counts) <= 1


def test_heartbeats_that_bump_the_group_epoch_are_counted(bench: ShareBench) -> None:
    first = bench.arrive("a")
    bench.share("a", first.member_epoch)
    before = bench.counters.share_rebalances
    assert before == bench.shares.epoch - 1  # the first epoch is 1
    bench.arrive("b")
    assert bench.counters.share_rebalances == before + 1
    bench.share("b", -1)
    assert bench.counters.share_rebalances == before + 1


def test_only_one_of_several_members_has_partitions_initialised(bench: ShareBench) -> None:
    """KAFKA-19204: members that joined at the same time each sent a request, and all but one were fenced."""
    bench.share("a", 0, "t")
    assert bench.asked is not None
    for member in "bcd":
        bench.share(member, 0, "t")
        assert bench.asked is None
    bench.advance(30_000)
    tried = []
    for member in "abcd":
        bench.share(member, bench.shares.members[member].epoch)
        tried.append(bench.asked is not None)
    assert tried == [True, False, False, False]


def test_a_new_coordinator_goes_on_with_the_initialisation(bench: ShareBench) -> None:
    """KAFKA-18827: what was being initialised when the coordinator changed was never assigned."""
    bench.share("a", 0, "t")
    epoch = bench.shares.members["a"].epoch
    bench.shares.tried_ms.clear()  # a new coordinator does not know when it was tried
    bench.share("a", epoch)
    assert bench.asked is not None
    bench.answer()
    assert owned(bench.share("a", epoch)) == [[0, 1, 2, 3]]


def test_partitions_of_deleted_topics_are_forgotten(bench: ShareBench) -> None:
    """KAFKA-19201: a group's record went on to name the partitions of deleted topics."""
    bench.set_topics(t=4, u=2)
    bench.arrive("a", "t", "u")
    gone = bench.topics().id("u")
    assert gone is not None
    bench.set_topics(t=4, u=0)
    bench.run(bench.shard.forget_partitions({"u": {0, 1}}, {gone}, EstimatedPace()))
    assert [one.name for one in bench.shares.states.initialized.values()] == ["t"]
    assert not outcome(bench.shard.forget_partitions({"u": {0, 1}}, {gone}, EstimatedPace())).records


def test_a_deleted_group_forgets_all_partitions_that_were_ever_noted(bench: ShareBench) -> None:
    """KAFKA-18629: of a group without members nothing was deleted, and what was already being deleted was left out."""
    bench.set_topics(u=2, v=1)
    bench.arrive("a", "t", "u")
    bench.share("a", -1)
    names = {name: bench.topics().id(name) for name in "tuv"}
    bench.run(bench.shard.shares.forget_offsets("g", ["u"]))  # and the share coordinators do not answer
    bench.share("b", 0, "v")  # being initialised
    bench.share("b", -1)
    request = bench.run(bench.shard.shares.begin_deletion("g")).response
    assert request is not None
    found = {topic.topic_id: [each.partition for each in topic.partitions] for topic in request.topics}
    assert found == {names["t"]: [0, 1, 2, 3], names["u"]: [0, 1], names["v"]: [0]}


def test_a_group_is_deleted_though_its_topics_are_gone(bench: ShareBench) -> None:
    """KAFKA-19454: topics that the metadata did not have (any more) made the deletion fail."""
    bench.set_topics(u=2)
    bench.arrive("a", "t", "u")
    bench.share("a", -1)
    bench.run(bench.shard.shares.forget_offsets("g", ["u"]))
    bench.set_topics(t=0, u=0)
    request = bench.run(bench.shard.shares.begin_deletion("g")).response
    assert request is not None
    assert [[each.partition for each in topic.partitions] for topic in request.topics] == [[0, 1, 2, 3]]
    bench.run(bench.shard.delete_group("g"))
    assert bench.shard.groups.find("g") is None

"""Scripts of StreamsGroupHeartbeat and related requests, valid and invalid: the same responses and visible state."""

from __future__ import annotations

from typing import Any

from compat_tests.comparisons.groups.script import commit, heartbeat, join, leave
from compat_tests.comparisons.streams_groups.script import (
    LONG_MS,
    StreamsScript,
    simple,
    subtopology,
    tasks_of,
    topic_info,
    topology,
)
from compat_tests.names import Names
from harness.processes.brokers import wait_until
from kwire.codec.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.offset_commit_request import OffsetCommitRequest
from kwire.codec.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.codec.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kwire.codec.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
)
from kwire.codec.messages.sync_group_request import SyncGroupRequest
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TASKS = [TaskIds(subtopology_id="0", partitions=[0])]

WRONG: list[dict[str, Any]] = [
    {"group": ""},
    {"group": " "},
    {"member": ""},
    {"member": " "},
    {"instance_id": ""},
    {"instance_id": "i"},
    {"rack_id": ""},
    {"rebalance_timeout_ms": -1},
    {"active_tasks": None},
    {"standby_tasks": None},
    {"warmup_tasks": None},
    {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None},
    {"active_tasks": TASKS},
    {"standby_tasks": TASKS},
    {"warmup_tasks": TASKS},
    {"task_offsets": [TaskOffset()]},
    {"task_offsets": []},
    {"task_end_offsets": []},
    {"topology": None},
    {"topology": topology(Subtopology(subtopology_id="0", source_topic_regex=["a.*"]))},
    {"topology": topology(subtopology("0", ["t"], changelogs=[topic_info("c", 1)]))},
    {"topology": topology(subtopology("0", ["__consumer_offsets", "__transaction_state"]))},
    {"topology": topology(subtopology("0", ["t", "a b"], sinks=[".."]))},
    {"topology": topology(subtopology("0", ["t"]), subtopology("0", ["u"]))},
    {"client_tags": [KeyValue(key="a", value="1"), KeyValue(key="a", value="2")]},
    {"epoch": 1},
    {"epoch": 1, "topology": None},
    {"epoch": -1},
    {"epoch": -1, "topology": None},
    {"epoch": -2, "topology": None},
    {"epoch": -2, "topology": None, "instance_id": "i"},
    {"epoch": -3, "topology": None},
]


def test_wrong_requests_are_refused_in_the_same_way(script: StreamsScript, new_name: Names) -> None:
    topic = new_name()
    script.topic(topic, 2)
    script.ready(new_name("g"))
    for number, wrong in enumerate(WRONG):
        group = wrong.get("group", new_name(f"g{number}"))
        fields = {
            "rebalance_timeout_ms": LONG_MS,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "topology": simple(topic),
            **{name: value for name, value in wrong.items() if name not in ("group", "member", "epoch")},
        }
        script.beat(f"wrong {number}", group, wrong.get("member", "m"), wrong.get("epoch", 0), **fields)
        if group.strip():
            script.look(group)


def test_tasks_move_between_processes(script: StreamsScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 4)
    shape = simple(topic)
    first = script.enter("joins", group, "a", shape, rack_id="r", client_tags=[KeyValue(key="zone", value="z")])
    script.look(group)
    second = script.enter("joins, too", group, "b", shape)
    script.look(group)
    active, _ = tasks_of(first)
    script.beat("says nothing", group, "a", first.member_epoch)
    revoking = script.beat("must revoke", group, "a", first.member_epoch, active=active)
    script.look(group)
    script.beat("must wait", group, "b", second.member_epoch, active={})
    kept, _ = tasks_of(revoking)
    reached = script.beat("has revoked", group, "a", revoking.member_epoch, active=kept)
    got = script.beat("gets the rest", group, "b", second.member_epoch, active={})
    script.look(group)
    script.beat("is there", group, "b", got.member_epoch, active=tasks_of(got)[0])
    script.beat("lost the response", group, "a", revoking.member_epoch, active=kept)
    script.leave_out_tasks()
    script.beat("is too new", group, "a", reached.member_epoch + 5, active=kept)
    script.beat("is too old", group, "a", 1, active=kept)
    script.beat("has another task", group, "b", got.member_epoch, active={"0": [7]})
    script.beat("has another part", group, "b", got.member_epoch, active={"1": [0]})
    script.beat("leaves", group, "a", -1)
    script.beat("leaves again", group, "a", -1)
    script.beat("gets all", group, "b", got.member_epoch, active=tasks_of(got)[0])
    script.look(group)
    script.beat("leaves, too", group, "b", -1)
    script.look(group)
    script.written(group)


def test_threads_of_one_process_share_its_tasks(script: StreamsScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 3)
    shape = topology(subtopology("0", [topic], changelogs=[topic_info(f"{topic}-changelog")]))
    script.configure(group, {"streams.num.standby.replicas": "1"})
    script.settle()
    script.topic(f"{topic}-changelog", 3)
    one = script.enter("thread 1", group, "a", shape, process_id="p")
    two = script.enter("thread 2", group, "b", shape, process_id="p")
    three = script.enter("another process", group, "c", shape, process_id="q")
    epochs = {"a": one, "b": two, "c": three}
    tasks = {member: tasks_of(response) for member, response in epochs.items()}
    numbers = {member: response.member_epoch for member, response in epochs.items()}
    for round_number in range(5):
        for member in ("a", "b", "c"):
            active, standby = tasks[member]
            what = f"{member} in round {round_number}"
            answer = script.beat(what, group, member, numbers[member], active=active, standby=standby)
            numbers[member] = answer.member_epoch
            if answer.active_tasks is not None:
                tasks[member] = tasks_of(answer)
    script.look(group)
    script.configure(group, {"streams.num.standby.replicas": "0"})
    script.settle()
    for member in ("a", "b", "c"):
        active, standby = tasks[member]
        script.beat(f"{member} without standbys", group, member, numbers[member], active=active, standby=standby)
    script.look(group)
    script.written(group)


def test_missing_topics_are_reported_and_internal_ones_created(script: StreamsScript, new_name: Names) -> None:
    topic, other, group = new_name(), new_name(), new_name("g")
    script.ready(group)
    repartition, changelog = f"{topic}-repartition", f"{topic}-changelog"
    shape = topology(
        subtopology("0", [topic, other], sinks=[repartition], together=CopartitionGroup(source_topics=[0, 1])),
        subtopology(
            "1",
            repartition=[topic_info(repartition, cleanup_policy="delete", retention_ms="-1")],
            changelogs=[topic_info(changelog, cleanup_policy="compact")],
        ),
    )
    first = script.enter("without topics", group, "a", shape)
    script.look(group)
    script.topic(topic, 4)
    first = script.beat("one is missing", group, "a", first.member_epoch, active={})
    script.topic(other, 3)
    first = script.beat("do not fit", group, "a", first.member_epoch, active={})
    script.look(group)
    script.client().call(
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=other, count=4, assignments=None)], timeout_ms=20_000
        ),
        3,
    )
    script.settle()
    first = script.beat("fit now", group, "a", first.member_epoch, active={})
    script.wait_for_topic(repartition)
    script.wait_for_topic(changelog)
    script.settle()
    first = script.beat("all there", group, "a", first.member_epoch, active={})
    script.look(group)
    script.delete_topic(topic)
    script.beat("one is deleted", group, "a", first.member_epoch, active=tasks_of(first)[0])
    script.look(group)
    script.written(group)


def test_topologies_do_not_change(script: StreamsScript, new_name: Names) -> None:
    topic, other, group = new_name(), new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 2)
    script.topic(other, 2)
    script.enter("joins", group, "a", simple(topic, 1))
    script.enter("is stale", group, "b", simple(other, 0))
    script.enter("is newer", group, "c", simple(topic, 2))
    script.enter("is different", group, "c", simple(other, 1))
    script.enter("is the same", group, "d", simple(topic, 1))
    script.look(group)


def test_an_application_is_shut_down(script: StreamsScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 2)
    a = script.enter("joins", group, "a", simple(topic))
    b = script.enter("joins, too", group, "b", simple(topic))
    script.beat("fails", group, "a", a.member_epoch, shutdown_application=True)
    script.beat("is told", group, "b", b.member_epoch)
    script.beat("fails and leaves", group, "b", -1, shutdown_application=True)
    script.beat("remembers the first", group, "a", a.member_epoch)
    script.beat("leaves", group, "a", -1)
    script.enter("starts anew", group, "c", simple(topic))


def test_endpoints_are_announced(script: StreamsScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 2)
    a = script.enter("joins", group, "a", simple(topic), endpoint=("one", 1))
    again = script.beat("asks", group, "a", a.member_epoch, active=tasks_of(a)[0])
    script.beat("knows", group, "a", a.member_epoch, endpoint_information_epoch=again.endpoint_information_epoch)
    b = script.enter("joins, too", group, "b", simple(topic), endpoint=("two", 2))
    revoking = script.beat("must revoke", group, "a", a.member_epoch, active=tasks_of(a)[0])
    script.beat("has revoked", group, "a", revoking.member_epoch, active=tasks_of(revoking)[0])
    script.beat("gets the rest", group, "b", b.member_epoch, active={})
    script.beat("sees both", group, "a", -1)
    script.look(group)


def test_the_first_assignment_waits_for_members(script: StreamsScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 2)
    script.configure(group, {"streams.initial.rebalance.delay.ms": "2000"})
    script.settle()
    a = script.enter("joins", group, "a", simple(topic))
    b = script.enter("joins, too", group, "b", simple(topic))
    script.look(group)
    wait_until(lambda: _described(script, group).assignment_epoch > 1, 20, "the assignment")
    script.beat("gets a task", group, "a", a.member_epoch, active={})
    script.beat("gets one, too", group, "b", b.member_epoch, active={})
    script.look(group)


def test_silent_members_are_fenced(script: StreamsScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 2)
    script.configure(group, {"streams.session.timeout.ms": "1000", "streams.heartbeat.interval.ms": "500"})
    script.settle()
    a = script.enter("joins", group, "a", simple(topic))
    wait_until(lambda: _described(script, group).group_state == "Empty", 20, "the end of the session")
    script.beat("is late", group, "a", a.member_epoch)
    script.configure(group, {"streams.session.timeout.ms": "60000"})
    script.settle()
    slow = script.enter("joins again", group, "a", simple(topic), rebalance_timeout_ms=500)
    script.enter("another one", group, "b", simple(topic))
    script.beat("must revoke", group, "a", slow.member_epoch, active=tasks_of(slow)[0])
    wait_until(lambda: len(_described(script, group).members) == 1, 20, "the end of the rebalance timeout")
    script.look(group)


def test_group_types_do_not_mix(script: StreamsScript, new_name: Names) -> None:
    topic, group, classic, consumer = new_name(), new_name("g"), new_name("c"), new_name("n")
    script.ready(group)
    script.topic(topic, 2)
    a = script.enter("joins", group, "a", simple(topic))
    entering = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="x", rebalance_timeout_ms=LONG_MS, topic_partitions=[], subscribed_topic_names=[topic]
    )
    script.call("a consumer joins", entering, 1)
    script.call("a classic member joins", join(group), 9)
    script.call("a classic member joins with an id", join(group, "x"), 9)
    script.call("syncs", SyncGroupRequest(group_id=group, member_id="a", generation_id=a.member_epoch), 5)
    script.call("classic heartbeat", heartbeat(group, "a", a.member_epoch), 4)
    script.call("leaves", leave(group, ("a", None)), 5)
    script.call("describe", DescribeGroupsRequest(groups=[group]), 6)
    script.call("describe as consumer group", ConsumerGroupDescribeRequest(group_ids=[group]), 1)
    script.call("delete", DeleteGroupsRequest(groups_names=[group]), 2)
    for states in (["Stable"], ["stable", "NotReady"], ["notready"], ["not_ready"]):
        listed = script.client().call(ListGroupsRequest(states_filter=states, types_filter=["Streams"]), 5).groups
        script.see(f"listed {states}", [one for one in listed if one.group_id == group])
    script.beat("leaves", group, "a", -1)
    script.call("a consumer joins the empty group", entering, 1)
    script.call("a classic member joins the empty group", join(group), 3)
    script.look(group)
    script.call("a classic member", join(classic), 3)
    script.enter("a streams member joins a classic group", classic, "a", simple(topic))
    script.call("an offset", _commit(classic + "o", topic, "", -1), 8)
    script.enter("a streams member joins a group of offsets", classic + "o", "a", simple(topic))
    script.look(classic + "o")
    entering.group_id = consumer
    script.call("a consumer", entering, 1)
    script.enter("a streams member joins a consumer group", consumer, "a", simple(topic))
    script.call("describe as streams groups", StreamsGroupDescribeRequest(group_ids=[classic, consumer, ""]), 0)


def test_offsets_of_members(script: StreamsScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 2)
    script.topic(topic + "x", 2)
    a = script.enter("joins", group, "a", simple(topic))
    epoch = a.member_epoch
    for what, member, number, name in (
        ("its epoch", "a", epoch, topic),
        ("a topic outside the topology", "a", epoch, topic + "x"),
        ("a newer epoch", "a", epoch + 1, topic),
        ("an older epoch", "a", epoch - 1, topic),
        ("an older epoch, another topic", "a", epoch - 1, topic + "x"),
        ("nobody", "b", epoch, topic),
        ("no member", "", -1, topic),
    ):
        script.call(f"commit: {what}", _commit(group, name, member, number), 9)
        script.call(f"commit: {what}", _commit(group, name, member, number), 8)
    _commit_in_a_transaction(script, new_name("txn"), group, topic, epoch)
    script.enter("joins, too", group, "b", simple(topic))
    script.beat("bumps", group, "a", epoch, active=tasks_of(a)[0])
    _offset_delete(script, group, topic)
    _offset_delete(script, group, topic + "x")
    script.beat("leaves", group, "a", -1)
    script.beat("leaves", group, "b", -1)
    script.call("commit: empty group", _commit(group, topic, "", -1), 8)
    _offset_delete(script, group, topic)
    script.call("delete", DeleteGroupsRequest(groups_names=[group]), 2)
    script.look(group)
    script.written(group)


def _commit(group: str, topic: str, member: str, epoch: int) -> OffsetCommitRequest:
    return commit(group, {(topic, 0): 7}, member_id=member, generation_id_or_member_epoch=epoch)


def _commit_in_a_transaction(script: StreamsScript, txn: str, group: str, topic: str, epoch: int) -> None:
    find = FindCoordinatorRequest(key_type=1, key=txn)
    wait_until(lambda: script.client().call(find, 2).error_code == 0, 20, "a coordinator")
    begin = InitProducerIdRequest(transactional_id=txn, transaction_timeout_ms=60_000)
    wait_until(lambda: script.client().call(begin, 4).error_code == 0, 20, "a producer id")
    made = script.client().call(begin, 4)
    producer = {"transactional_id": txn, "producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    for member, number in (("a", epoch), ("a", epoch + 1), ("a", epoch - 1), ("b", epoch), ("", -1)):
        script.call("adds the group", AddOffsetsToTxnRequest(group_id=group, **producer), 3)
        partition = TxnOffsetCommitRequestPartition(committed_offset=11)
        request = TxnOffsetCommitRequest(
            group_id=group,
            member_id=member,
            generation_id=number,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
            **producer,
        )
        script.call(f"commits in a transaction as {member!r}", request, 3)
    script.call("ends the transaction", EndTxnRequest(committed=True, **producer), 3)


def _offset_delete(script: StreamsScript, group: str, topic: str) -> None:
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    script.call("delete an offset", OffsetDeleteRequest(group_id=group, topics=topics), 0)


def _described(script: StreamsScript, group: str) -> Any:
    return script.client("watch").call(StreamsGroupDescribeRequest(group_ids=[group]), 0).groups[0]

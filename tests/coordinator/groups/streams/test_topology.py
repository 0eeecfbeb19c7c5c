"""The topology of a streams group. That the results are Kafka's in every case: `campaigns.streams_groups.topology`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    KeyValue,
    Subtopology,
    TopicInfo,
    Topology,
)
from kwire.coordinator.groups.streams.topology import checks
from kwire.coordinator.groups.streams.topology.configure import configure
from kwire.coordinator.groups.streams.topology.configured import ConfiguredTopology, Status, TopologyProblem
from kwire.coordinator.groups.streams.topology.convert import describe, from_heartbeat, from_record, to_record
from kwire.coordinator.groups.streams.topology.endpoints import topic_partitions

WORDS = [
    Subtopology(
        subtopology_id="0",
        source_topics=["lines"],
        repartition_sink_topics=["app-words-repartition"],
    ),
    Subtopology(
        subtopology_id="1",
        repartition_source_topics=[TopicInfo(name="app-words-repartition", replication_factor=3)],
        state_changelog_topics=[
            TopicInfo(name="app-count-changelog", topic_configs=[KeyValue(key="cleanup.policy", value="compact")])
        ],
    ),
]
"""A word count: lines are split into words, which are counted."""

INTERNAL = {"app-words-repartition": 3, "app-count-changelog": 3}


def configured(subtopologies: list[Subtopology], **topics: int) -> ConfiguredTopology:
    return configure(from_heartbeat(Topology(epoch=1, subtopologies=subtopologies)), topics.get)


def join(fixed: int = 0, **topics: int) -> ConfiguredTopology:
    """A subtopology that joins a topic with a repartitioned one."""
    joined = Subtopology(
        subtopology_id="0",
        source_topics=["a", "b"],
        repartition_sink_topics=["r"],
        repartition_source_topics=[TopicInfo(name="r", partitions=fixed)],
        copartition_groups=[CopartitionGroup(source_topics=[0], repartition_source_topics=[0])],
    )
    return configured([joined], **topics)


def test_internal_topics_have_as_many_partitions_as_their_inputs() -> None:
    found = configured(WORDS, lines=3)
    assert found.subtopologies is not None
    assert {one: (each.tasks, each.stateful) for one, each in found.subtopologies.items()} == {
        "0": (3, False),
        "1": (3, True),
    }
    assert sorted(found.to_create) == [
        ("app-count-changelog", 3, -1, {"cleanup.policy": "compact"}),
        ("app-words-repartition", 3, 3, {}),
    ]
    assert found.problem == TopologyProblem(
        Status.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: app-count-changelog, app-words-repartition",
    )


def test_a_topology_is_ready_when_all_topics_exist() -> None:
    found = configured(WORDS, lines=3, **INTERNAL)
    assert found.ready
    assert found.to_create == ()


def test_an_internal_topic_with_other_partitions_is_a_problem() -> None:
    found = configured(WORDS, lines=3, **{**INTERNAL, "app-count-changelog": 2})
    assert found.problem == TopologyProblem(
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic app-count-changelog has different number of partitions: expected 3, found 2",
    )
    assert found.subtopologies is None


def test_source_topics_that_are_missing_are_named_up_to_three() -> None:
    sources = [Subtopology(subtopology_id="0", source_topics=["e", "d", "c", "b", "a"])]
    assert configured(sources, e=1).problem == TopologyProblem(
        Status.MISSING_SOURCE_TOPICS, "Source topics a, b, c and 1 additional topics are missing."
    )


def test_a_repartition_topic_follows_the_topic_that_it_is_joined_with() -> None:
    found = join(a=2, b=5)
    assert [(topic.name, topic.partitions) for topic in found.to_create] == [("r", 2)]


def test_a_repartition_topic_with_another_fixed_number_cannot_be_joined() -> None:
    problem = join(fixed=3, a=2, b=5).problem
    assert problem is not None
    assert problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert "[3] of repartition topic [r]" in problem.detail


def test_topics_of_the_user_that_are_joined_must_have_equally_many_partitions() -> None:
    joined = Subtopology(
        subtopology_id="0", source_topics=["b", "a"], copartition_groups=[CopartitionGroup(source_topics=[0, 1])]
    )
    assert configured([joined], a=1, b=2).problem == TopologyProblem(
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{a=1, b=2}]",
    )


@pytest.mark.parametrize(
    ("subtopologies", "code"),
    [
        pytest.param([WORDS[1]], ErrorCode.STREAMS_INVALID_TOPOLOGY, id="nobody writes the repartition topic"),
        pytest.param([Subtopology(subtopology_id="0")], ErrorCode.STREAMS_INVALID_TOPOLOGY, id="nothing is read"),
        pytest.param(
            [
                Subtopology(
                    subtopology_id="0",
                    repartition_sink_topics=["r"],
                    repartition_source_topics=[TopicInfo(name="r")],
                )
            ],
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            id="a loop",
        ),
        pytest.param([WORDS[0], WORDS[0]], ErrorCode.UNKNOWN_SERVER_ERROR, id="an id twice"),
        pytest.param(
            [
                Subtopology(
                    subtopology_id="0",
                    source_topics=["lines"],
                    copartition_groups=[CopartitionGroup(source_topics=[1])],
                )
            ],
            ErrorCode.UNKNOWN_SERVER_ERROR,
            id="a copartition group with a topic too many",
        ),
    ],
)
def test_a_topology_that_cannot_work_is_refused(subtopologies: list[Subtopology], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        configured(subtopologies, lines=3)
    assert refused.value.code is code


def test_a_negative_epoch_is_refused() -> None:
    with pytest.raises(KafkaError):
        from_heartbeat(Topology(epoch=-1))


@pytest.mark.parametrize(
    ("check", "code"),
    [
        pytest.param(
            lambda: checks.check_topology(
                Topology(
                    subtopologies=[
                        Subtopology(state_changelog_topics=[TopicInfo(name="c", partitions=2)]),
                    ]
                )
            ),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            id="a changelog topic with a fixed number of partitions",
        ),
        pytest.param(
            lambda: checks.check_supported(Topology(subtopologies=[Subtopology(source_topic_regex=["a.*"])])),
            ErrorCode.INVALID_REQUEST,
            id="a regular expression",
        ),
        pytest.param(
            lambda: checks.check_topic_names(["a", "_b"], lambda name: name == "_b", lambda _: True),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            id="an internal topic of the broker",
        ),
        pytest.param(
            lambda: checks.check_topic_names(["a", "b!"], lambda _: False, str.isalnum),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            id="an impossible name",
        ),
    ],
)
def test_what_a_request_must_not_have(check: Callable[[], None], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        check()
    assert refused.value.code is code


def test_a_good_request_passes() -> None:
    topology = Topology(subtopologies=WORDS)
    checks.check_topology(topology)
    checks.check_supported(topology)
    names = checks.topic_names(topology)
    assert names == ["lines", "app-words-repartition", "app-count-changelog"]
    checks.check_topic_names(names, lambda _: False, lambda _: True)


def test_the_record_has_the_topology() -> None:
    topology = from_heartbeat(Topology(epoch=1, subtopologies=WORDS))
    assert from_record(to_record(topology)) == topology
    assert topology.subtopology_of("app-words-repartition") == "1"
    assert topology.subtopology_of("app-count-changelog") is None


def test_a_group_is_described_with_real_partition_counts_when_it_is_ready() -> None:
    topology = from_heartbeat(Topology(epoch=1, subtopologies=WORDS))
    counts = []
    for configuration in (None, configured(WORDS), configured(WORDS, lines=3, **INTERNAL)):
        subtopologies = describe(topology, configuration).subtopologies
        assert subtopologies is not None
        counts.append(subtopologies[1].state_changelog_topics[0].partitions)
    assert counts == [0, 0, 3]


def test_tasks_read_partitions_of_all_inputs() -> None:
    found = configured([Subtopology(subtopology_id="0", source_topics=["a", "b"])], a=4, b=1)
    assert found.subtopologies is not None
    tasks = {"0": [3, 1]}
    assert topic_partitions(tasks, found.subtopologies, {"a": 4, "b": 1}.get) == [("a", [1, 3]), ("b", [1])]
    with pytest.raises(KafkaError):
        topic_partitions(tasks, found.subtopologies, {"a": 4}.get)

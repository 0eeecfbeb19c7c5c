"""Metadata, DescribeCluster and DescribeTopicPartitions: the same responses from both brokers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from compat_tests.comparisons.admin.requests import TopicReference, Wire, facts, name_and_id
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import wait_until
from kwire.codec.messages.describe_cluster_request import DescribeClusterRequest
from kwire.codec.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic


def metadata(wire: Wire, topics: Sequence[TopicReference] | None, version: int = 13, **fields: Any) -> Any:
    """The whole response, with topics sorted."""
    wanted = None
    if topics is not None:
        wanted = [MetadataRequestTopic(**name_and_id(topic)) for topic in topics]
    if version >= 4:
        fields.setdefault("allow_auto_topic_creation", False)
    response = wire.call(MetadataRequest(topics=wanted, **fields), version)
    if response == "closed":
        return response
    found = facts(response)
    found["topics"] = sorted(found["topics"], key=str)
    found["brokers"] = len(found["brokers"])
    return found


@pytest.mark.parametrize("version", range(14))
def test_every_version_tells_the_same(
    wire: Wire, made: Callable[..., str], observe: Observations, version: int
) -> None:
    name = made(3)
    observe("topic", metadata(wire, [name], version))
    if version >= 4:
        observe("missing", metadata(wire, [name, "not-there", "a/b"], version))
    if version >= 1:
        observe("none", metadata(wire, [], version))
    everything = metadata(wire, [] if version == 0 else None, version)
    observe("among all", [topic for topic in everything["topics"] if topic["name"] == name])


@pytest.mark.parametrize("version", [8, 9, 10, 11, 13])
def test_authorised_operations(wire: Wire, made: Callable[..., str], observe: Observations, version: int) -> None:
    fields = {"include_topic_authorized_operations": True}
    if version <= 10:
        fields["include_cluster_authorized_operations"] = True
    observe("response", metadata(wire, [made(), "not-there"], version, **fields))


def test_topics_by_id(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name, other = made(), made()
    topic_id = wire.id_of(name)
    unknown = bytes(range(16))
    for version in (12, 13):
        observe(f"known {version}", metadata(wire, [topic_id], version))
        observe(f"unknown {version}", metadata(wire, [unknown, topic_id], version))
        observe(f"with its name {version}", metadata(wire, [(name, topic_id)], version))
        observe(f"another's name {version}", metadata(wire, [(other, topic_id)], version))
        observe(f"beside a name {version}", metadata(wire, [topic_id, other], version))
    observe("before ids were known", [metadata(wire, [("", topic_id)], version) for version in (10, 11)])


def test_names_that_come_twice_and_names_that_cannot_be(
    wire: Wire, made: Callable[..., str], observe: Observations
) -> None:
    name = made()
    observe("twice", metadata(wire, [name, name]))
    observe("impossible", metadata(wire, ["", ".", "a/b", "x" * 250, "x" * 249]))


@pytest.mark.parametrize("version", [0, 1, 3, 4, 9, 13])
def test_topics_are_created_when_they_are_asked_for(
    wire: Wire, new_name: Names, observe: Observations, version: int
) -> None:
    name = new_name()
    fields = {"allow_auto_topic_creation": True} if version >= 4 else {}
    first = metadata(wire, [name, "a/b"], version, **fields)["topics"]
    assert [topic["error_code"] for topic in first if topic["name"] == "a/b"] == [17]
    # Apache Kafka creates the topic after its response; the next response of either broker has it.
    wait_until(lambda: wire.describe(name)[name]["error_code"] == 0, 10, "the topic is created")
    observe("afterwards", wire.describe(name))


@pytest.mark.parametrize("version", [4, 13])
def test_topics_are_not_created_when_the_client_forbids_it(
    wire: Wire, new_name: Names, observe: Observations, version: int
) -> None:
    name = new_name()
    observe("responses", [metadata(wire, [name], version) for _ in range(2)])


def test_internal_topics_are_created_as_they_must_be(wire: Wire, observe: Observations) -> None:
    name = "__transaction_state"
    metadata(wire, [name], allow_auto_topic_creation=True)
    wait_until(lambda: wire.describe(name)[name]["error_code"] == 0, 10, "the topic is created")
    observe("afterwards", wire.describe(name))


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("operations", [False, True])
def test_the_cluster(wire: Wire, observe: Observations, version: int, operations: bool) -> None:
    def describe(**fields: Any) -> Any:
        return facts(
            wire.call(DescribeClusterRequest(include_cluster_authorized_operations=operations, **fields), version)
        )

    observe("brokers", describe())
    if version >= 1:
        observe("other kinds of endpoints", [describe(endpoint_type=kind) for kind in (0, 2, 3)])
    if version >= 2:
        observe("fenced", describe(include_fenced_brokers=True))


def page(wire: Wire, topics: Sequence[str], cursor: tuple[str, int] | None = None, limit: int = 2000) -> Any:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in topics],
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        response_partition_limit=limit,
    )
    response = wire.call(request, 0)
    return response if response == "closed" else facts(response)


def test_pages_of_partitions(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    one, two = sorted((made(3), made(5)))
    observe("all at once", page(wire, [two, one]))
    observe("limits", [page(wire, [two, one], limit=limit) for limit in (4, 3, 1, 0, -5, 2001)])
    observe("cursors", [page(wire, [one, two], (one, index), 4) for index in (0, 1, 2, 3, 9)])
    observe("later cursor", page(wire, [one, two], (two, 1), 4))
    observe("twice", page(wire, [one, one]))


def test_cursors_that_fit_nothing(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    one, two = sorted((made(3), made(5)))
    cursors = [(one, -1), ("", 0), ("not-there", 0), ("a/b", 0)]
    observe("responses", [page(wire, [one, two], cursor) for cursor in cursors])
    observe("not asked for", page(wire, [one], (two, 0)))


def test_pages_with_topics_that_are_not_there(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name = made(3)
    observe("between", page(wire, ["aa-not-there", name, "zz-not-there", "a/b"]))
    observe("after the limit", page(wire, ["aa-not-there", name, "zz-not-there"], limit=3))
    observe("only", page(wire, ["n1", "n2", "n3"], limit=2))
    observe("as cursor", page(wire, ["n1", "n2", "n3"], ("n2", 5)))


def test_all_topics_in_pages(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    name = made(3)
    cursor: tuple[str, int] | None = ("", 0)
    seen = []
    first = page(wire, [], None, 2)
    assert sum(len(topic["partitions"]) for topic in first["topics"]) <= 2
    while cursor is not None:
        found = page(wire, [], (cursor[0], cursor[1]), 7)
        seen += [(topic["name"], each["partition_index"]) for topic in found["topics"] for each in topic["partitions"]]
        following = found["next_cursor"]
        cursor = None if following is None else (following["topic_name"], following["partition_index"])
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)
    observe("mine", [each for each in seen if each[0] == name])

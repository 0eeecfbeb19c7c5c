"""Internal topics of Kafka Streams are created in the client's name: what its members are told, and what is created."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from compat_tests.comparisons.access.acls import (
    CLUSTER,
    CREATE,
    DESCRIBE,
    GROUP,
    PREFIXED,
    READ,
    TOPIC,
    Acl,
    Acls,
)
from compat_tests.comparisons.access.answers import log_in_as_alice
from compat_tests.comparisons.admin.requests import Wire, new_topic
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import wait_until
from harness.processes.secured import SecuredBroker
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from kwire.codec.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

MISSING_INTERNAL_TOPICS = 3
SEEN_S = 1.0
"""Apache Kafka's coordinator sees a change in the metadata later than Metadata shows it, and no response tells when."""


@pytest.fixture
def alice(guarded: SecuredBroker) -> Iterator[WireClient]:
    """A connection of alice."""
    with log_in_as_alice(guarded.address("SASL_PLAINTEXT")) as client:
        yield client


@pytest.mark.parametrize("grant", ["nothing", "one topic", "all topics", "cluster"])
def test_internal_topics_need_create(
    guarded: SecuredBroker, acls: Acls, alice: WireClient, new_name: Names, observe: Observations, grant: str
) -> None:
    topic, group = new_name(), new_name("g")
    changelogs = [f"{topic}-{name}" for name in ("a", "b")]
    with closing(Wire(guarded.bootstrap)) as wire:
        wire.create(new_topic(topic))
        find = FindCoordinatorRequest(key=group)
        wait_until(lambda: wire.call(find, 2).error_code == 0, 20, "a coordinator")
        if guarded.kind == "kafka":
            time.sleep(SEEN_S)
        granted = {
            "nothing": [],
            "one topic": [Acl(TOPIC, changelogs[0], operation=CREATE)],
            "all topics": [Acl(TOPIC, f"{topic}-", PREFIXED, operation=CREATE)],
            "cluster": [Acl(CLUSTER, "kafka-cluster", operation=CREATE)],
        }[grant]
        acls.create(Acl(GROUP, group, operation=READ), Acl(TOPIC, topic, PREFIXED, operation=DESCRIBE), *granted)
        part = Subtopology(
            subtopology_id="0",
            source_topics=[topic],
            state_changelog_topics=[TopicInfo(name=name) for name in changelogs],
        )
        request = StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id="member",
            rebalance_timeout_ms=600_000,
            topology=Topology(subtopologies=[part]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        answer: StreamsGroupHeartbeatResponse = alice.call(request, 0)
        while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            answer = alice.call(request, 0)
        observe("joined", answer.error_code)
        details = [one.status_detail for one in answer.status or () if one.status_code == MISSING_INTERNAL_TOPICS]
        observe("told", [detail.replace(topic, "T") for detail in details])
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in changelogs], allow_auto_topic_creation=False
        )
        if grant in ("all topics", "cluster"):
            wait_until(lambda: not any(one.error_code for one in wire.call(asked, 12).topics), 20, "the topics")
        observe("there", [one.error_code for one in wire.call(asked, 12).topics])

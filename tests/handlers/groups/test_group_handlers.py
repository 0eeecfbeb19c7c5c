"""The group APIs as clients see them: versions, missing topics, authorisation. On a coordinator with fakes.

The coordinator is tested in `tests/coordinator`, against Apache Kafka in `compat_tests/comparisons/groups`.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from harness.services import services_with
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codec.messages.leave_group_request import LeaveGroupRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kwire.codec.messages.sync_group_request import SyncGroupRequest
from kwire.codec.protocol import ApiKey, decode, encode, request_class, response_class
from kwire.coordinator.groups import shard
from kwire.handlers.api import Api
from kwire.handlers.context import Authorizer, RequestContext
from kwire.handlers.groups import (
    delete_groups,
    describe_groups,
    find_coordinator,
    group_calls,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from kwire.security.acls.operations import Operation, ResourceType
from tests.coordinator.fakes import FakeMetadata, FakePartition
from tests.coordinator.groups.test_group_coordinator import Service

MODULES = (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
APIS: list[Api] = [module.API for module in MODULES]


class Only(Authorizer):
    """Allows what is listed."""

    allows_all = False

    def __init__(self, *allowed: tuple[ResourceType, str]) -> None:
        self.allowed = allowed

    def authorize(self, context: RequestContext, operation: Operation, purpose: object = None) -> bool:
        return (operation.resource_type, operation.resource_name) in self.allowed


class Controller:
    """Creates the topic of offsets, or fails to."""

    def __init__(self, metadata: FakeMetadata, *, works: bool = True) -> None:
        self.metadata = metadata
        self.works = works

    active = True

    async def auto_create(self, names: list[str]) -> None:
        if self.works:
            self.metadata.image.topics |= FakeMetadata(4).image.topics


class Broker:
    def __init__(self, service: Service) -> None:
        self.service = service
        self.services = services_with(
            groups=service.groups,
            image_source=lambda: service.metadata.image,
            broker_id=1,
            controller=Controller(service.metadata),
        )

    def replace_services(self, **parts: Any) -> None:
        self.services = dataclasses.replace(self.services, **parts)

    def context(self, version: int, **changes: Any) -> RequestContext:
        return RequestContext(self.services, api_version=version, client_id="c", **changes)

    async def ask(self, api: Api, request: Any, version: int) -> Any:
        """As the dispatcher does, through the codec in both directions."""
        context = self.context(version)
        kind = request_class(api.key)
        request = decode(kind, version, encode(request, version))[0]
        try:
            response = await resolved(api.handle(request, context))
        except KafkaError as error:
            response = api.error_response(request, version, error.code, error.message)
        assert response is not None
        return decode(response_class(api.key), version, encode(response, version))[0]


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    service = Service(FakePartition())
    await service.groups.start()
    yield Broker(service)
    await service.groups.close()


def commit_request(version: int, topics: dict[str, list[int]], **fields: Any) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=name if version < 10 else "",
                topic_id=name.encode().ljust(16, b"-") if version >= 10 else bytes(16),
                partitions=[OffsetCommitRequestPartition(partition_index=i, committed_offset=i + 5) for i in indexes],
            )
            for name, indexes in topics.items()
        ],
        **fields,
    )


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.key.name)
async def test_every_version_of_every_api_responds_without_a_coordinator(broker: Broker, api: Api) -> None:
    await broker.service.groups.close()
    for version in range(api.served[0], api.served[1] + 1):
        request = example(api.key, version)
        response = await broker.ask(api, request, version)
        assert ErrorCode.COORDINATOR_NOT_AVAILABLE in codes(response) or api.key == ApiKey.FIND_COORDINATOR


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.key.name)
async def test_every_version_of_every_api_has_a_well_formed_error(broker: Broker, api: Api) -> None:
    for version in range(api.served[0], api.served[1] + 1):
        response = api.error_response(example(api.key, version), version, ErrorCode.GROUP_AUTHORIZATION_FAILED, "no")
        again = decode(response_class(api.key), version, encode(response, version))[0]
        assert ErrorCode.GROUP_AUTHORIZATION_FAILED in codes(again)


def test_served_versions_are_all_of_kafkas() -> None:
    for api in APIS:
        assert api.served == request_class(api.key).VALID_VERSIONS
        assert api.advertised == api.served


def example(key: ApiKey, version: int) -> Any:
    """A request with one of everything."""
    if key == ApiKey.OFFSET_COMMIT:
        return commit_request(version, {"t": [0]})
    if key == ApiKey.OFFSET_FETCH and version >= 8:
        topics = [OffsetFetchRequestTopics(name="t" if version < 10 else "", partition_indexes=[0])]
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id="g", topics=None if version > 9 else topics)]
        )
    if key == ApiKey.OFFSET_FETCH:
        return OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    if key == ApiKey.DELETE_GROUPS:
        return DeleteGroupsRequest(groups_names=["g"])
    if key == ApiKey.DESCRIBE_GROUPS:
        return DescribeGroupsRequest(groups=["g"])
    if key == ApiKey.LIST_GROUPS:
        return ListGroupsRequest()
    if key == ApiKey.FIND_COORDINATOR:
        return FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g"])
    if key == ApiKey.SYNC_GROUP and version >= 5:
        return SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range")
    request: Any = request_class(key)
    return request(group_id="g")


def codes(message: Any) -> set[int]:
    """All error codes in a response."""
    found: set[int] = set()
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "error_code":
            found.add(value)
        for item in value if isinstance(value, list) else ():
            if hasattr(item, "__slots__"):
                found |= codes(item)
    return found


# --- single APIs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
async def test_a_failed_join_has_a_protocol_name_only_before_version_7(broker: Broker, version: int) -> None:
    request = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="m")
    response = await broker.ask(join_group.API, request, version)
    assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert response.member_id == "m"
    assert response.protocol_name == ("" if version < 7 else None)
    request.group_id = ""
    response = await broker.ask(join_group.API, request, version)
    assert response.error_code == ErrorCode.INVALID_GROUP_ID and response.protocol_name == ("" if version < 7 else None)


async def test_a_client_without_an_id_joins(broker: Broker) -> None:
    context = broker.context(3)
    context.client_id = None
    protocols = [JoinGroupRequestProtocol(name="range")]
    request = JoinGroupRequest(group_id="g", session_timeout_ms=100, protocol_type="consumer", protocols=protocols)
    response = await resolved(join_group.handle(request, context))
    assert response.member_id.startswith("-")


async def test_a_sync_without_protocol_is_refused_from_version_5_on(broker: Broker) -> None:
    assert (await broker.ask(sync_group.API, SyncGroupRequest(group_id="g"), 5)).error_code == 23
    assert (await broker.ask(sync_group.API, SyncGroupRequest(group_id="g"), 4)).error_code == 25


async def test_heartbeats_are_fine_while_the_coordinator_loads(broker: Broker) -> None:
    def loading(request: HeartbeatRequest) -> None:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    broker.replace_services(groups=SimpleNamespace(heartbeat=loading))
    assert (await broker.ask(heartbeat.API, HeartbeatRequest(group_id="g"), 4)).error_code == 0


async def test_before_version_3_one_member_leaves_with_the_responses_error(broker: Broker) -> None:
    response = await broker.ask(leave_group.API, LeaveGroupRequest(group_id="g", member_id="m"), 2)
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(2, 11))
async def test_commits_have_an_error_for_each_missing_partition(broker: Broker, version: int) -> None:
    response = await broker.ask(offset_commit.API, commit_request(version, {"t": [0, 7, 1], "none": [0]}), version)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    seen = {
        (topic.name or topic.topic_id.decode().rstrip("-"), partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
    assert seen == {("t", 0): 0, ("t", 1): 0, ("t", 7): 3, ("none", 0): missing}
    assert len(response.topics) == 2
    assert broker.service.committed() == [5, 6]


async def test_commits_store_the_topics_id(broker: Broker) -> None:
    await broker.ask(offset_commit.API, commit_request(8, {"t": [0]}), 8)
    topics = [OffsetFetchRequestTopics(topic_id=b"t".ljust(16, b"-"), partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)]
    response = await broker.ask(offset_fetch.API, OffsetFetchRequest(groups=groups), 10)
    assert response.groups[0].topics[0].partitions[0].committed_offset == 5


async def test_by_topic_id_an_offset_of_an_earlier_topic_counts_as_none(broker: Broker) -> None:
    await broker.ask(offset_commit.API, commit_request(8, {"t": [0]}), 8)
    image = broker.service.metadata.image
    image.topics_by_id = {b"2" * 16: image.topics["t"]}
    image.topics["t"].id = b"2" * 16
    for version, expected in ((9, 5), (10, -1)):
        named = OffsetFetchRequestTopics(name="t", topic_id=b"2" * 16, partition_indexes=[0])
        if version == 10:
            named.name = ""
        else:
            named.topic_id = bytes(16)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[named])])
        response = await broker.ask(offset_fetch.API, request, version)
        assert response.groups[0].topics[0].partitions[0].committed_offset == expected


@pytest.mark.parametrize("version", range(1, 11))
async def test_offsets_are_read_in_every_version(broker: Broker, version: int) -> None:
    await broker.ask(offset_commit.API, commit_request(8, {"t": [0]}), 8)
    if version < 8:
        request = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])])
    else:
        named = {"topic_id": b"t".ljust(16, b"-")} if version >= 10 else {"name": "t"}
        topics = [OffsetFetchRequestTopics(partition_indexes=[0, 1], **named)]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    response = await broker.ask(offset_fetch.API, request, version)
    partitions = (response if version < 8 else response.groups[0]).topics[0].partitions
    assert [(p.partition_index, p.committed_offset) for p in partitions] == [(0, 5), (1, -1)]


async def test_of_all_offsets_only_existing_topics_have_an_id(broker: Broker) -> None:
    await broker.ask(offset_commit.API, commit_request(8, {"t": [0]}), 8)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert len((await broker.ask(offset_fetch.API, request, 10)).groups[0].topics) == 1
    del broker.service.metadata.image.topics["t"]
    assert (await broker.ask(offset_fetch.API, request, 10)).groups[0].topics == []
    assert len((await broker.ask(offset_fetch.API, request, 9)).groups[0].topics) == 1


async def test_a_group_error_is_at_the_level_that_the_version_has(broker: Broker) -> None:
    await broker.service.groups.close()
    old = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
    response = await broker.ask(offset_fetch.API, old, 1)
    assert response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    response = await broker.ask(offset_fetch.API, old, 2)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE and response.topics == []


async def test_deleting_offsets_has_an_error_for_each_missing_partition(broker: Broker) -> None:
    await broker.ask(offset_commit.API, commit_request(8, {"t": [0, 1]}), 8)
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in (0, 9)]
        )
        for name in ("t", "none")
    ]
    response = await broker.ask(offset_delete.API, OffsetDeleteRequest(group_id="g", topics=topics), 0)
    seen = {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}
    assert seen == {("t", 0): 0, ("t", 9): 3, ("none", 0): 3, ("none", 9): 3}
    assert broker.service.committed() == [6]


async def test_a_group_named_twice_is_deleted_once(broker: Broker) -> None:
    broker.service.commit(5)
    response = await broker.ask(delete_groups.API, DeleteGroupsRequest(groups_names=["g", "x", "g"]), 2)
    assert [(r.group_id, r.error_code) for r in response.results] == [("g", 0), ("x", ErrorCode.GROUP_ID_NOT_FOUND)]


async def test_results_of_many_groups_wait_for_their_commits(broker: Broker) -> None:
    import asyncio

    broker.service.commit(5)
    broker.service.partition.hold = True
    request = DeleteGroupsRequest(groups_names=["g", "x"])
    asking = asyncio.ensure_future(broker.ask(delete_groups.API, request, 2))
    await asyncio.sleep(0)
    assert not asking.done()
    broker.service.partition.commit()
    assert [r.error_code for r in (await asking).results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]


async def test_authorized_operations_on_request(broker: Broker) -> None:
    broker.service.commit(5)
    asked = DescribeGroupsRequest(groups=["g", "x"], include_authorized_operations=True)
    response = await broker.ask(describe_groups.API, asked, 6)
    assert [group.authorized_operations for group in response.groups] == [3400, -(2**31)]
    asked.include_authorized_operations = False
    assert (await broker.ask(describe_groups.API, asked, 6)).groups[0].authorized_operations == -(2**31)


# --- FindCoordinator -----------------------------------------------------------------------------------------------


async def test_the_coordinator_is_found_under_the_clients_address(broker: Broker) -> None:
    response = await broker.ask(find_coordinator.API, FindCoordinatorRequest(key="g"), 3)
    assert (response.node_id, response.host, response.port, response.error_message) == (1, "localhost", 9092, "NONE")
    many = await broker.ask(find_coordinator.API, FindCoordinatorRequest(coordinator_keys=["g", ""]), 4)
    assert [(c.key, c.node_id, c.error_message) for c in many.coordinators] == [("g", 1, ""), ("", 1, "")]


async def test_the_topic_of_offsets_is_created_when_it_is_needed(broker: Broker) -> None:
    del broker.service.metadata.image.topics["__consumer_offsets"]
    assert (await broker.ask(find_coordinator.API, FindCoordinatorRequest(key="g"), 0)).error_code == 0


async def test_without_a_leader_there_is_no_coordinator(broker: Broker) -> None:
    del broker.service.metadata.image.topics["__consumer_offsets"]
    broker.services.controller.works = False  # type: ignore[attr-defined]
    response = await broker.ask(find_coordinator.API, FindCoordinatorRequest(key="g"), 3)
    assert (response.error_code, response.node_id, response.host, response.port) == (15, -1, "", -1)


@pytest.mark.parametrize(
    ("version", "key_type", "key", "error"),
    [
        (3, 2, "g:AAAAAAAAAAAAAAAAAAAAAA:0", ErrorCode.INVALID_REQUEST),
        (3, 9, "t", ErrorCode.INVALID_REQUEST),
        (5, 2, "g:AAAAAAAAAAAAAAAAAAAAAA:0", ErrorCode.INVALID_REQUEST),
        (6, 2, "bad", ErrorCode.INVALID_REQUEST),
        (6, 2, "g:bad:0", ErrorCode.INVALID_REQUEST),
        (6, -1, "t", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_other_keys(broker: Broker, version: int, key_type: int, key: str, error: ErrorCode) -> None:
    if version < 4:
        request = FindCoordinatorRequest(key=key, key_type=key_type)
        response = await broker.ask(find_coordinator.API, request, version)
    else:
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
        [response] = (await broker.ask(find_coordinator.API, request, version)).coordinators
    assert (response.error_code, response.node_id, response.port) == (error, -1, -1)


# --- access --------------------------------------------------------------------------------------------------------


async def test_without_access_to_a_topic_its_offsets_are_refused(broker: Broker) -> None:
    await broker.ask(offset_commit.API, commit_request(8, {"t": [0]}), 8)
    broker.replace_services(authorizer=Only((ResourceType.GROUP, "g")))
    for version, request in ((8, commit_request(8, {"t": [0], "none": [0]})), (10, commit_request(10, {"t": [0]}))):
        assert codes(await broker.ask(offset_commit.API, request, version)) == {29}
    for version in (7, 9):
        assert 29 in codes(await broker.ask(offset_fetch.API, example(ApiKey.OFFSET_FETCH, version), version))
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert (await broker.ask(offset_fetch.API, everything, 8)).groups[0].topics == []
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    deleting = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])
    assert 29 in codes(await broker.ask(offset_delete.API, deleting, 0))
    assert broker.service.committed() == [5]


async def test_without_access_to_a_group_it_is_neither_shown_nor_changed(broker: Broker) -> None:
    broker.service.commit(5)
    broker.service.commit(6, group="open")
    broker.replace_services(authorizer=Only((ResourceType.GROUP, "open"), (ResourceType.TOPIC, "t")))
    assert codes(await broker.ask(describe_groups.API, DescribeGroupsRequest(groups=["g", "open"]), 6)) == {30, 0}
    listed = await broker.ask(list_groups.API, ListGroupsRequest(), 5)
    assert [group.group_id for group in listed.groups] == ["open"]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "open")])
    assert [group.error_code for group in (await broker.ask(offset_fetch.API, request, 8)).groups] == [30, 0]
    deleted = await broker.ask(delete_groups.API, DeleteGroupsRequest(groups_names=["g", "open"]), 2)
    assert [result.error_code for result in deleted.results] == [30, 0]
    found = await broker.ask(find_coordinator.API, FindCoordinatorRequest(coordinator_keys=["g", "open"]), 4)
    assert [coordinator.error_code for coordinator in found.coordinators] == [30, 0]


def test_requests_about_one_group_name_the_access_they_need(broker: Broker) -> None:
    for api in APIS:
        if api.operations is not None:
            [needed] = api.operations(example(api.key, api.served[1]), broker.context(api.served[1]))
            assert (needed.resource_type, needed.resource_name) == (ResourceType.GROUP, "g")


NAMES = [f"g{number}" for number in range(7)]
ABOUT_GROUPS = [
    (describe_groups.API, DescribeGroupsRequest(groups=NAMES), 6),
    (offset_fetch.API, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=g, topics=None) for g in NAMES]), 9),
    (list_groups.API, ListGroupsRequest(), 5),
    (delete_groups.API, DeleteGroupsRequest(groups_names=NAMES), 2),
]


async def test_requests_about_very_many_groups_are_handled_in_slices(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting(Only):
        """Allows what is about a group, and counts the decisions."""

        decisions = 0

        def authorize(self, context: RequestContext, operation: Operation, purpose: object = None) -> bool:
            self.decisions += operation.resource_type is ResourceType.GROUP
            return operation.resource_type is not ResourceType.CLUSTER

    async def all_responses() -> list[Any]:
        for name in NAMES[:-1]:
            broker.service.commit(5, group=name)
        return [await broker.ask(*each) for each in ABOUT_GROUPS]

    broker.replace_services(authorizer=Counting())
    at_once = await all_responses()
    assert codes(at_once[-1]) == {0, ErrorCode.GROUP_ID_NOT_FOUND}
    done: list[int] = []
    sleep = asyncio.sleep

    async def noted(delay: float) -> None:
        done.append(guard.decisions)
        await sleep(delay)

    monkeypatch.setattr(group_calls, "SLICE_GROUPS", 3)
    monkeypatch.setattr(delete_groups, "SLICE_DELETED", 3)
    monkeypatch.setattr(list_groups, "SLICE_NAMES", 3)
    monkeypatch.setattr(shard, "GROUPS_PER_STEP", 3)
    monkeypatch.setattr(asyncio, "sleep", noted)
    for name in NAMES[:-1]:
        broker.service.commit(5, group=name)
    for (api, request, version), expected in zip(ABOUT_GROUPS, at_once, strict=True):
        guard = Counting()
        broker.replace_services(authorizer=guard)
        done.clear()
        assert await broker.ask(api, request, version) == expected
        # the list is made in two steps before it is decided about it
        assert done == ([0, 0, 3] if api is list_groups.API else [3, 6]), api.key

"""What alice is answered with every set of the ACLs that a request needs, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from compat_tests.comparisons.access.acls import Acl, Acls
from compat_tests.comparisons.access.requests import MISSING, ONE, TWO, Case, World
from compat_tests.comparisons.admin.requests import Wire, new_topic
from compat_tests.comparisons.security.sasl import ALICE
from harness.processes.brokers import wait_until
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.codec.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kwire.codec.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from kwire.codec.protocol import ApiKey

VARIABLE = frozenset(
    """assignment base_offset brokers cluster_id controller_id end_offset error_message expiry_timestamp
    expiry_timestamp_ms high_watermark hmac host issue_timestamp issue_timestamp_ms last_caught_up_timestamp
    last_fetch_timestamp last_stable_offset last_timestamp log_append_time_ms log_dir log_end_offset max_timestamp
    max_timestamp_ms member_id members node_endpoints node_id nodes offset port producer_epoch producer_id records
    throttle_time_ms timestamp token_id total_bytes unknown_tags usable_bytes""".split()  # noqa: SIM905
)
"""Fields in which the brokers differ, or may."""

GROUP_CONFIGS = 32
"""The resource type of a group's properties."""

BEING_CREATED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)

PLACES = frozenset(["leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "replica_directory_id"])
"""Fields that say where partitions are, which the controller chooses at random, and in which directories."""


def subsets(needs: tuple[Acl, ...]) -> Iterator[tuple[Acl, ...]]:
    for size in range(len(needs) + 1):
        yield from combinations(needs, size)


def plain(value: Any, names: Mapping[bytes, str], hidden: frozenset[str] = VARIABLE) -> Any:
    """An answer as plain data: ids of topics are names, lists of results are in the order of their texts."""
    if isinstance(value, list | tuple):
        return sorted((plain(each, names, hidden) for each in value), key=repr)
    if isinstance(value, bytes | bytearray | memoryview) and len(value) == 16:
        return names.get(bytes(value), "another id")
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    if not slots or isinstance(value, int | str | bytes):
        return value
    return {name: plain(getattr(value, name), names, hidden) for name in slots if name not in hidden}


def lasting_answer(client: WireClient, message: Any, version: int) -> Any:
    """The answer once there are producer ids, and topics that Metadata creates."""
    creates = getattr(message, "topics", None) and getattr(message, "allow_auto_topic_creation", False)
    while True:
        answer = client.call(message, version)
        if creates and answer.topics[0].error_code in BEING_CREATED:
            continue
        if getattr(answer, "error_code", 0) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return answer


def answers_with_every_set(
    case: Case,
    ids: Mapping[str, bytes],
    wire: Wire,
    acls: Acls,
    alice: WireClient,
    hidden: frozenset[str] = VARIABLE,
    *,
    only_all: bool = False,
) -> Iterator[tuple[str, Any]]:
    """Give alice every subset of a case's ACLs (``only_all``: none and all of them) and send its request: what she has,
    and what she is answered."""
    chosen = list(dict.fromkeys([(), case.needs])) if only_all else list(subsets(case.needs))
    victims = [f"victim{number}" for number in range(len(chosen))] if case.api is ApiKey.DELETE_TOPICS else []
    if victims:
        wire.create(*(new_topic(each) for each in victims))
    for number, entries in enumerate(chosen):
        acls.clear()
        if entries:
            acls.create(*entries)
        answer = lasting_answer(alice, case.message(World(ids, number)), case.version)
        granted = ", ".join(f"{each.resource_type}/{each.operation}/{each.name}" for each in entries)
        yield f"with {granted or 'nothing'}", plain(answer, names_of(ids), hidden)
    if victims:
        wire.call(DeleteTopicsRequest(topic_names=victims, timeout_ms=5000), 5)


def names_of(ids: Mapping[str, bytes]) -> dict[bytes, str]:
    """The names of topics by their ids."""
    return {**{each: name for name, each in ids.items()}, bytes(16): "no id"}


def log_in_as_alice(address: str) -> WireClient:
    """A connection of alice, who logs in with PLAIN."""
    client = WireClient(address, client_id="alice")
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert client.call(SaslAuthenticateRequest(auth_bytes=ALICE), 2).error_code == 0
    return client


def prepared(wire: Wire) -> dict[str, bytes]:
    """The ids of the topics, which exist already, once there are groups."""
    _await_coordinators(wire)
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition(committed_offset=5)])
        for name in (ONE, TWO)
    ]
    for group in ("group", "empty"):
        _call_until_done(wire, OffsetCommitRequest(group_id=group, topics=topics), 9)
    request = ConsumerGroupHeartbeatRequest(
        group_id="described",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=600_000,
        subscribed_topic_names=[ONE, TWO],
        topic_partitions=[],
    )
    _call_until_done(wire, request, 1)
    _prepare_streams_groups(wire)
    _prepare_share_groups(wire)
    return {ONE: wire.id_of(ONE), TWO: wire.id_of(TWO), MISSING: b"m" * 16}


def _prepare_streams_groups(wire: Wire) -> None:
    """A group with a member, and one whose members get their tasks at once."""
    for group in ("streamed", "streams"):
        at_once = [
            AlterableConfig(name=f"streams.{name}", value="0")
            for name in ("initial.rebalance.delay.ms", "assignment.interval.ms")
        ]
        resource = AlterConfigsResource(resource_type=GROUP_CONFIGS, resource_name=group, configs=at_once)
        wire.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    part = Subtopology(subtopology_id="0", source_topics=[ONE, TWO])
    request = StreamsGroupHeartbeatRequest(
        group_id="streamed",
        member_id="member",
        rebalance_timeout_ms=600_000,
        topology=Topology(subtopologies=[part]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    _call_until_done(wire, request, 0)


def _prepare_share_groups(wire: Wire) -> None:
    """Groups whose partitions are known to the share coordinators, and whose members get them at once."""
    for group in ("shared", "share"):
        at_once = [AlterableConfig(name="share.assignment.interval.ms", value="0")]
        resource = AlterConfigsResource(resource_type=GROUP_CONFIGS, resource_name=group, configs=at_once)
        wire.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        request = ShareGroupHeartbeatRequest(group_id=group, member_id="member", subscribed_topic_names=[ONE, TWO])
        _call_until_done(wire, request, 1)

        def has_partitions() -> bool:
            answer = wire.call(request, 1)  # noqa: B023
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)  # others may have some

        wait_until(has_partitions, 30, "the partitions of a share group")


def _call_until_done(wire: Wire, request: Any, version: int) -> None:
    """Repeat a request while its coordinator is being loaded."""

    def is_done() -> bool:
        answer = wire.call(request, version)
        parts = [each for topic in getattr(answer, "topics", ()) for each in topic.partitions]
        return not any(each.error_code for each in parts or [answer])

    wait_until(is_done, 30, f"an answer to {type(request).__name__}")


def _await_coordinators(wire: Wire) -> None:
    for key_type, key in ((0, "group"), (1, "txn"), (2, "g:AAECAwQFBgcICQoLDA0ODw:0")):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        wait_until(lambda: not wire.call(request, 6).coordinators[0].error_code, 30, "a coordinator")  # noqa: B023

"""Every API with every set of the ACLs that it needs: what alice is answered, and what she is refused.

The cases are in `requests`. For each case, alice gets every subset of its ACLs in turn and sends the request; the
answers of both brokers must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import pytest

from compat_tests.comparisons.access.acls import Acl, Acls
from compat_tests.comparisons.access.requests import CASES, MISSING, ONE, TWO, WITHOUT_ACCESS_CONTROL, Case, World
from compat_tests.comparisons.admin.requests import Wire, new_topic
from compat_tests.comparisons.security.sasl import ALICE
from harness.observations import Observations
from harness.processes.secured import SecuredBroker
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.errors import CodecError
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.codec.protocol import ApiKey, encode
from kwire.handlers.registry import Registry

VARIABLE = frozenset(
    """assignment base_offset brokers cluster_id controller_id end_offset error_message expiry_timestamp
    expiry_timestamp_ms high_watermark hmac host issue_timestamp issue_timestamp_ms last_caught_up_timestamp
    last_fetch_timestamp last_stable_offset last_timestamp log_append_time_ms log_dir log_end_offset max_timestamp
    max_timestamp_ms member_id members node_endpoints node_id nodes offset port producer_epoch producer_id records
    throttle_time_ms timestamp token_id total_bytes unknown_tags usable_bytes""".split()  # noqa: SIM905
)
"""Fields in which the brokers differ, or may."""

BY_ID_SINCE = {ApiKey.PRODUCE: 13, ApiKey.OFFSET_COMMIT: 10}
NAMES_LEADER_SINCE = 16
"""Fetch: from this version on, kwire names no leader to a replica that it does not know, because it is the leader."""
BEING_CREATED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


def subsets(needs: tuple[Acl, ...]) -> Iterator[tuple[Acl, ...]]:
    for size in range(len(needs) + 1):
        yield from combinations(needs, size)


def plain(value: Any, names: Mapping[bytes, str]) -> Any:
    """An answer as plain data: ids of topics are names, lists of results are in the order of their texts."""
    if isinstance(value, list | tuple):
        return sorted((plain(each, names) for each in value), key=repr)
    if isinstance(value, bytes | bytearray | memoryview) and len(value) == 16:
        return names.get(bytes(value), "another id")
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    if not slots or isinstance(value, int | str | bytes):
        return value
    return {name: plain(getattr(value, name), names) for name in slots if name not in VARIABLE}


def lasting_answer(client: WireClient, message: Any, version: int) -> Any:
    """The answer once there are producer ids, and topics that Metadata creates."""
    creates = getattr(message, "topics", None) and getattr(message, "allow_auto_topic_creation", False)
    while True:
        answer = client.call(message, version)
        if creates and answer.topics[0].error_code in BEING_CREATED:
            continue
        if getattr(answer, "error_code", 0) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return answer


@pytest.fixture(scope="module")
def ids(guarded: SecuredBroker) -> dict[str, bytes]:
    """The ids of the topics, once there are topics and groups."""
    wire = Wire(guarded.bootstrap)
    wire.create(new_topic(ONE), new_topic(TWO))
    _await_coordinators(wire)
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition(committed_offset=5)])
        for name in (ONE, TWO)
    ]
    for group in ("group", "empty"):
        wire.call(OffsetCommitRequest(group_id=group, topics=topics), 9)
    request = ConsumerGroupHeartbeatRequest(
        group_id="described",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=600_000,
        subscribed_topic_names=[ONE, TWO],
        topic_partitions=[],
    )
    wire.call(request, 1)
    found = {ONE: wire.id_of(ONE), TWO: wire.id_of(TWO), MISSING: b"m" * 16}
    wire.close()
    return found


def _await_coordinators(wire: Wire) -> None:
    from harness.processes.brokers import wait_until

    for key_type, key in ((0, "group"), (1, "txn")):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        wait_until(lambda: not wire.call(request, 4).coordinators[0].error_code, 30, "a coordinator")  # noqa: B023


@pytest.fixture
def alice(guarded: SecuredBroker) -> Iterator[WireClient]:
    """A connection of alice."""
    with WireClient(guarded.address("SASL_PLAINTEXT"), client_id="alice") as client:
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert client.call(SaslAuthenticateRequest(auth_bytes=ALICE), 2).error_code == 0
        yield client


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_answers_with_every_set_of_acls(
    guarded: SecuredBroker, ids: dict[str, bytes], acls: Acls, alice: WireClient, observe: Observations, case: Case
) -> None:
    names = {**{each: name for name, each in ids.items()}, bytes(16): "no id"}
    wire = Wire(guarded.bootstrap)
    chosen = list(subsets(case.needs))
    if case.api is ApiKey.DELETE_TOPICS:
        wire.create(*(new_topic(f"victim{number}") for number in range(len(chosen))))
    for number, entries in enumerate(chosen):
        acls.clear()
        if entries:
            acls.create(*entries)
        answer = lasting_answer(alice, case.message(World(ids, number)), case.version)
        granted = [f"{each.resource_type}/{each.operation}/{each.name}" for each in entries]
        observe(f"with {', '.join(granted) or 'nothing'}", plain(answer, names))
    if case.api is ApiKey.DELETE_TOPICS:
        from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest

        wire.call(DeleteTopicsRequest(topic_names=[f"victim{n}" for n in range(len(chosen))], timeout_ms=5000), 5)
    wire.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_answers_in_every_version(
    guarded: SecuredBroker, ids: dict[str, bytes], acls: Acls, alice: WireClient, observe: Observations, case: Case
) -> None:
    """What alice is answered without ACLs and with all, in the versions that can say what the case says."""
    names = {**{each: name for name, each in ids.items()}, bytes(16): "no id"}
    message = case.message(World(ids, 1000))
    for entries in ((), case.needs) if case.needs and case.api is not ApiKey.JOIN_GROUP else ((),):
        if entries:
            acls.create(*entries)
        for version in versions_of(case, message):
            answer = lasting_answer(alice, message, version)
            observe(f"version {version} {'with' if entries else 'without'} ACLs", plain(answer, names))


def versions_of(case: Case, message: Any) -> Iterator[int]:
    """The versions in which a message can be encoded and names topics as the case does."""
    low, high = next((low, high) for key, low, high in Registry().advertised() if key == case.api)
    for version in range(low, high + 1):
        by_id = BY_ID_SINCE.get(case.api, 0)
        if (version >= by_id) != (case.version >= by_id) or (case.name == "replica" and version >= NAMES_LEADER_SINCE):
            continue
        try:
            encode(message, version)
        except CodecError:
            continue
        yield version


def test_every_served_api_has_a_case() -> None:
    served = {ApiKey(key) for key, _, _ in Registry().advertised()}
    assert served - {case.api for case in CASES} == WITHOUT_ACCESS_CONTROL

"""`AclAuthorizer`: it follows the image, keeps decisions with connections, and forgets them when entries change."""

from __future__ import annotations

from typing import Any

import pytest

from harness.services import services_with
from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.acls import acl_key
from kwire.cluster.metadata.image import ClusterImage
from kwire.handlers.acl_authorizer import KEPT_MAX, KEPT_NAME_MAX, AclAuthorizer
from kwire.handlers.authorization import CREATE_IN_CLUSTER
from kwire.handlers.context import Decisions, RequestContext
from kwire.security.acls.bindings import AclBinding, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, Operation, ResourceType
from kwire.security.principals import Principal

WRITE_ORDERS = Operation(AclOperation.WRITE, ResourceType.TOPIC, "orders")
ALICE = Principal("User", "alice")


def entry(name: str = "orders", principal: str = "User:alice", host: str = "*", *, deny: bool = False) -> AclBinding:
    permission = PermissionType.DENY if deny else PermissionType.ALLOW
    return AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, principal, host, AclOperation.WRITE, permission)


def image(*entries: AclBinding) -> ClusterImage:
    return ClusterImage(acls={acl_key(each): each for each in entries})


def context(authorizer: AclAuthorizer, principal: Principal = ALICE, host: str = "/10.0.0.1") -> Any:
    return RequestContext(services_with(authorizer=authorizer), principal=principal, client_host=host)


def test_the_newest_image_decides() -> None:
    authorizer = AclAuthorizer()
    request = context(authorizer)
    assert not authorizer.authorize(request, WRITE_ORDERS)
    authorizer.follow(image(entry()))
    assert authorizer.authorize(request, WRITE_ORDERS)
    authorizer.follow(image(entry(), entry(deny=True), entry("others")))
    assert not authorizer.authorize(request, WRITE_ORDERS)
    authorizer.follow(image(entry("others")))
    assert not authorizer.authorize(request, WRITE_ORDERS)


def test_an_entry_that_remains_on_a_resource_still_decides() -> None:
    """CVE-2024-27309: deleting one of two entries made Apache Kafka forget the other."""
    authorizer = AclAuthorizer(open_without_entries=True)
    remaining = entry(principal="User:bob")
    authorizer.follow(image(entry(), remaining))
    authorizer.follow(image(remaining))
    assert not authorizer.authorize(context(authorizer), WRITE_ORDERS)
    assert authorizer.authorize(context(authorizer, Principal("User", "bob")), WRITE_ORDERS)


def test_the_address_is_compared_without_the_slash_that_kafka_shows() -> None:
    authorizer = AclAuthorizer()
    authorizer.follow(image(entry(host="10.0.0.1")))
    assert authorizer.authorize(context(authorizer), WRITE_ORDERS)
    assert not authorizer.authorize(context(authorizer, host="/10.0.0.2"), WRITE_ORDERS)


def test_a_decision_is_known_until_an_entry_changes() -> None:
    authorizer = AclAuthorizer()
    before = image(entry())
    authorizer.follow(before)
    request = context(authorizer)
    assert not authorizer.has_allowed(request.decisions, WRITE_ORDERS)
    authorizer.authorize(request, WRITE_ORDERS)
    assert authorizer.has_allowed(request.decisions, WRITE_ORDERS)
    unchanged = ClusterImage(revision=9, acls=before.acls)
    authorizer.follow(unchanged)
    assert authorizer.has_allowed(request.decisions, WRITE_ORDERS)
    authorizer.follow(image(entry(), entry("others")))
    assert not authorizer.has_allowed(request.decisions, WRITE_ORDERS)


def test_what_is_refused_is_not_known_to_be_allowed() -> None:
    authorizer = AclAuthorizer()
    request = context(authorizer)
    authorizer.authorize(request, WRITE_ORDERS)
    assert not authorizer.has_allowed(request.decisions, WRITE_ORDERS)
    assert not authorizer.has_allowed(Decisions(), WRITE_ORDERS)


def test_a_connection_keeps_a_limited_number_of_decisions() -> None:
    authorizer = AclAuthorizer()
    authorizer.follow(image(entry()))
    request = context(authorizer)
    for number in range(KEPT_MAX + 10):
        authorizer.authorize(request, WRITE_ORDERS._replace(resource_name=f"t{number}"))
    assert len(request.decisions.made) < KEPT_MAX
    assert authorizer.authorize(request, WRITE_ORDERS)


def test_operations_on_some_resource_are_decided_apart_from_those_on_one() -> None:
    authorizer = AclAuthorizer(super_users={"User:root"})
    authorizer.follow(image(entry()))
    request = context(authorizer)
    for _ in range(2):
        assert authorizer.authorize_some(request, AclOperation.WRITE, ResourceType.TOPIC)
        assert not authorizer.authorize_some(request, AclOperation.WRITE, ResourceType.GROUP)
    assert authorizer.authorize_some(
        context(authorizer, Principal("User", "root")), AclOperation.READ, ResourceType.GROUP
    )


@pytest.mark.parametrize(
    ("operation", "code", "text"),
    [
        (WRITE_ORDERS, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
        (
            CREATE_IN_CLUSTER,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            "The request needs CREATE permission on the cluster.",
        ),
        (
            Operation(AclOperation.READ, ResourceType.GROUP, "billing"),
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            "Group authorization failed.",
        ),
        (
            Operation(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "copier"),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "Transactional Id authorization failed.",
        ),
    ],
)
def test_a_refusal_says_what_is_refused(operation: Operation, code: ErrorCode, text: str) -> None:
    """An empty message would be all that Kafka's tools show."""
    authorizer = AclAuthorizer()
    with pytest.raises(KafkaError) as raised:
        authorizer.require(context(authorizer), operation)
    assert (raised.value.code, raised.value.message) == (code, text)


def test_decisions_about_impossible_names_are_not_kept() -> None:
    """They could be 32,767 characters long, times `KEPT_MAX`, for each connection."""
    authorizer = AclAuthorizer()
    request = context(authorizer)
    for size in (KEPT_NAME_MAX, KEPT_NAME_MAX + 1):
        assert not authorizer.authorize(request, Operation(AclOperation.WRITE, ResourceType.TOPIC, "x" * size))
    assert len(request.decisions.made) == 1

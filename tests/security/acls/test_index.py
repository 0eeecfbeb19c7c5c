"""The rules by which ACLs decide. That they are Kafka's in every combination: `campaigns.acls.decisions`."""

from __future__ import annotations

import pytest

from kwire.security.acls.bindings import AclBinding, PatternType, PermissionType
from kwire.security.acls.index import AclIndex
from kwire.security.acls.operations import CLUSTER_NAME, AclOperation, ResourceType

HOST = "10.0.0.1"
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC = ResourceType.TOPIC


def entry(
    name: str,
    operation: AclOperation,
    principal: str = "User:alice",
    *,
    host: str = "*",
    deny: bool = False,
    prefix: bool = False,
    kind: ResourceType = TOPIC,
) -> AclBinding:
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    permission = PermissionType.DENY if deny else PermissionType.ALLOW
    return AclBinding(kind, name, pattern, principal, host, operation, permission)


def allows(
    index: AclIndex, operation: AclOperation, name: str, principal: str = "User:alice", host: str = HOST
) -> bool:
    return index.allows(principal, host, operation, TOPIC, name)


def test_nothing_is_allowed_without_an_entry_unless_that_is_configured() -> None:
    assert not allows(AclIndex.of(), READ, "orders")
    assert allows(AclIndex.of(open_without_entries=True), READ, "orders")


def test_an_entry_for_somebody_closes_a_resource_that_was_open() -> None:
    index = AclIndex.of([entry("orders", READ)], open_without_entries=True)
    assert not allows(index, READ, "orders", "User:bob")
    assert not allows(index, WRITE, "orders")
    assert allows(index, READ, "invoices", "User:bob")


def test_one_denial_outweighs_every_permission() -> None:
    index = AclIndex.of([entry("*", READ), entry("orders", READ), entry("ord", READ, "User:*", deny=True, prefix=True)])
    assert not allows(index, READ, "orders")
    assert allows(index, READ, "invoices")


def test_super_users_may_do_what_is_denied() -> None:
    index = AclIndex.of([entry("*", AclOperation.ALL, "User:*", deny=True)], super_users={"User:alice"})
    assert allows(index, WRITE, "orders")
    assert not allows(index, WRITE, "orders", "User:alice2")
    assert not allows(index, WRITE, "orders", "Group:alice")


@pytest.mark.parametrize(("name", "covered"), [("ord", True), ("orders", True), ("or", False), ("Orders", False)])
def test_a_prefix_covers_names_that_begin_with_it(name: str, covered: bool) -> None:
    index = AclIndex.of([entry("ord", READ, prefix=True), entry("orders.eu", READ, prefix=True)])
    assert allows(index, READ, name) is covered


def test_a_prefix_that_is_an_asterisk_is_no_wildcard() -> None:
    assert not allows(AclIndex.of([entry("*", READ, prefix=True)]), READ, "orders")


def test_the_host_and_the_principal_of_an_entry_must_be_the_clients() -> None:
    index = AclIndex.of([entry("orders", READ, host="10.0.0.2"), entry("orders", WRITE, "User:*", host=HOST)])
    assert not allows(index, READ, "orders")
    assert allows(index, READ, "orders", host="10.0.0.2")
    assert allows(index, WRITE, "orders", "Group:any")
    assert not allows(index, WRITE, "orders", host="10.0.0.2")


@pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_who_may_read_or_change_may_describe(operation: AclOperation) -> None:
    assert allows(AclIndex.of([entry("orders", operation)]), DESCRIBE, "orders")
    assert not allows(AclIndex.of([entry("orders", DESCRIBE)]), operation, "orders")


def test_who_may_alter_configs_may_describe_them_and_no_more() -> None:
    index = AclIndex.of([entry("orders", AclOperation.ALTER_CONFIGS)])
    assert allows(index, AclOperation.DESCRIBE_CONFIGS, "orders")
    assert not allows(index, DESCRIBE, "orders")


def test_a_denied_read_does_not_deny_describe() -> None:
    index = AclIndex.of([entry("orders", READ, deny=True), entry("orders", WRITE)])
    assert allows(index, DESCRIBE, "orders")


def test_all_covers_every_operation() -> None:
    index = AclIndex.of([entry("orders", AclOperation.ALL), entry("orders", WRITE, deny=True)])
    assert allows(index, AclOperation.ALTER_CONFIGS, "orders")
    assert not allows(index, WRITE, "orders")


def test_types_of_resources_are_apart() -> None:
    index = AclIndex.of([entry("orders", READ, kind=ResourceType.GROUP), entry(CLUSTER_NAME, WRITE)])
    assert not allows(index, READ, "orders")
    assert index.allows("User:alice", HOST, READ, ResourceType.GROUP, "orders")


def test_the_wildcard_covers_names_that_begin_with_an_asterisk() -> None:
    """Kafka does not find the entries of the name ``*`` for a resource such as the group ``*x``, not even if they
    deny. kwire does."""
    index = AclIndex.of([entry("*", READ, deny=True), entry("*x", READ)])
    assert not allows(index, READ, "*x")
    assert allows(AclIndex.of([entry("*", READ)]), READ, "*x")


class TestSomeResource:
    """Authorisation by the type of a resource (KIP-679)."""

    @staticmethod
    def some(*entries: AclBinding, operation: AclOperation = WRITE) -> bool:
        return AclIndex.of(entries).allows_some("User:alice", HOST, operation, TOPIC)

    def test_one_permission_is_enough(self) -> None:
        assert not self.some()
        assert self.some(entry("orders", WRITE))
        assert self.some(entry("ord", WRITE, prefix=True))
        assert not self.some(entry("orders", WRITE, "User:bob"))
        assert not self.some(entry("orders", READ))

    def test_a_permission_that_a_denial_covers_is_none(self) -> None:
        allowed = entry("orders", WRITE)
        assert not self.some(allowed, entry("ord", WRITE, deny=True, prefix=True))
        assert not self.some(allowed, entry("orders", WRITE, deny=True))
        assert not self.some(allowed, entry("*", WRITE, deny=True))
        assert self.some(allowed, entry("orders.eu", WRITE, deny=True, prefix=True))
        assert self.some(allowed, entry("orders", WRITE, "User:bob", deny=True))

    def test_a_prefix_is_not_covered_by_the_denial_of_one_name(self) -> None:
        assert self.some(entry("ord", WRITE, prefix=True), entry("ord", WRITE, deny=True))

    def test_super_users_and_openness_count(self) -> None:
        assert AclIndex.of(super_users={"User:alice"}).allows_some("User:alice", HOST, WRITE, TOPIC)
        assert AclIndex.of(open_without_entries=True).allows_some("User:alice", HOST, WRITE, TOPIC)

"""Filters of ACLs: which entries they select."""

from __future__ import annotations

import pytest

from kwire.security.acls.bindings import AclBinding, AclFilter, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType

TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
BINDINGS = [
    AclBinding(TOPIC, "orders", LITERAL, "User:alice", "*", AclOperation.READ, PermissionType.ALLOW),
    AclBinding(TOPIC, "ord", PREFIXED, "User:bob", "10.0.0.1", AclOperation.ALL, PermissionType.DENY),
    AclBinding(TOPIC, "*", LITERAL, "User:*", "*", AclOperation.DESCRIBE, PermissionType.ALLOW),
    AclBinding(ResourceType.GROUP, "orders", LITERAL, "User:alice", "*", AclOperation.READ, PermissionType.ALLOW),
]


@pytest.mark.parametrize(
    ("chosen", "selected"),
    [
        (AclFilter(), [0, 1, 2, 3]),
        (AclFilter(TOPIC), [0, 1, 2]),
        (AclFilter(resource_name="orders"), [0, 3]),
        (AclFilter(TOPIC, "orders", PatternType.MATCH), [0, 1, 2]),
        (AclFilter(TOPIC, "invoices", PatternType.MATCH), [2]),
        (AclFilter(TOPIC, None, PatternType.MATCH), [0, 1, 2]),
        (AclFilter(TOPIC, "ord", LITERAL), []),
        (AclFilter(TOPIC, "ord", PREFIXED), [1]),
        (AclFilter(TOPIC, "*"), [2]),
        (AclFilter(principal="User:alice"), [0, 3]),
        (AclFilter(host="*"), [0, 2, 3]),
        (AclFilter(operation=AclOperation.READ), [0, 3]),
        (AclFilter(operation=AclOperation.ALL), [1]),
        (AclFilter(permission=PermissionType.DENY), [1]),
    ],
    ids=str,
)
def test_filters_select_the_entries_that_have_what_they_name(chosen: AclFilter, selected: list[int]) -> None:
    assert [number for number, binding in enumerate(BINDINGS) if chosen.matches(binding)] == selected

"""The three requests for ACLs over one connection, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from compat_tests.comparisons.admin.requests import Wire
from harness.processes.brokers import wait_until
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.codec.messages.describe_acls_request import DescribeAclsRequest

LATEST = 3
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = 2, 3, 4, 5, 6, 7
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS = (
    9,
    10,
    11,
    12,
    13,
    14,
)
DENY, ALLOW = 2, 3

LASTING_SESSIONS: Final = {
    f"group.{kind}.{limit}session.timeout.ms": "3600000"
    for kind in ("consumer", "share", "streams")
    for limit in ("", "max.")
} | {f"group.{kind}.assignment.interval.ms": "0" for kind in ("consumer", "share", "streams")}
"""Members that never send a heartbeat stay in their groups, however long the tests take, and get assignments at
once."""


class Acl(NamedTuple):
    """An entry of CreateAcls, or (with `ANY` and None) a filter; plain codes, so that they can be wrong."""

    resource_type: int = TOPIC
    name: str | None = "orders"
    pattern: int = LITERAL
    principal: str | None = "User:alice"
    host: str | None = "*"
    operation: int = READ
    permission: int = ALLOW

    @property
    def creation(self) -> AclCreation:
        """This entry in CreateAcls."""
        return AclCreation(
            resource_type=self.resource_type,
            resource_name=self.name or "",
            resource_pattern_type=self.pattern,
            principal=self.principal or "",
            host=self.host or "",
            operation=self.operation,
            permission_type=self.permission,
        )

    @property
    def filter_fields(self) -> dict[str, Any]:
        """This filter in DescribeAcls and DeleteAcls."""
        return {
            "resource_type_filter": self.resource_type,
            "resource_name_filter": self.name,
            "pattern_type_filter": self.pattern,
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": self.operation,
            "permission_type": self.permission,
        }


ANYTHING = Acl(ANY, None, ANY, None, None, ANY, ANY)


class Acls:
    """The requests. Apache Kafka describes what it has written a moment later, so `create` and `delete` wait, also for
    the ``others``: connections to other brokers."""

    def __init__(self, wire: Wire, *others: Wire) -> None:
        self._wire = wire
        self._others = [Acls(each) for each in others]

    def create(self, *entries: Acl, version: int = LATEST) -> Any:
        """(code, message) of each result in order, once those without an error are described."""
        response = self._wire.call(CreateAclsRequest(creations=[each.creation for each in entries]), version)
        if response == "closed":
            return response
        results = [[each.error_code, each.error_message] for each in response.results]
        there = {tuple(entry) for entry, (code, _) in zip(entries, results, strict=True) if not code}
        for each in (self, *self._others):
            wait_until(lambda: there <= each._all(), 20, "ACLs created")  # noqa: B023
        return results

    def describe(self, chosen: Acl = ANYTHING, version: int = LATEST) -> Any:
        """(code, message, entries in alphabetical order): neither broker promises an order."""
        response = self._wire.call(DescribeAclsRequest(**chosen.filter_fields), version)
        if response == "closed":
            return response
        found = sorted(
            [*_pattern(each), acl.principal, acl.host, acl.operation, acl.permission_type]
            for each in response.resources
            for acl in each.acls
        )
        patterns = [_pattern(each) for each in response.resources]
        assert len(set(patterns)) == len(patterns)
        return [response.error_code, response.error_message, found]

    def delete(self, *filters: Acl, version: int = LATEST) -> Any:
        """(code, message, entries in alphabetical order) for each filter, once they are no more described."""
        request = DeleteAclsRequest(filters=[DeleteAclsFilter(**each.filter_fields) for each in filters])
        response = self._wire.call(request, version)
        if response == "closed":
            return response
        results = [
            [each.error_code, each.error_message, sorted(_matched(acl) for acl in each.matching_acls)]
            for each in response.filter_results
        ]
        gone = {tuple(acl[:7]) for _, _, found in results for acl in found}
        for each in (self, *self._others):
            wait_until(lambda: not gone & each._all(), 20, "ACLs deleted")  # noqa: B023
        return results

    def clear(self) -> None:
        """Delete all entries."""
        self.delete(ANYTHING)

    def await_number(self, number: int) -> None:
        """Wait until there are so many entries."""
        wait_until(lambda: len(self._all()) == number, 20, f"{number} ACLs")

    def _all(self) -> set[tuple[Any, ...]]:
        return {tuple(each) for each in self.describe()[2]}


def _pattern(resource: Any) -> tuple[int, str, int]:
    return resource.resource_type, resource.resource_name, resource.pattern_type


def _matched(acl: Any) -> list[Any]:
    fields: Sequence[str] = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation")
    return [*(getattr(acl, name) for name in fields), acl.permission_type, acl.error_code, acl.error_message]

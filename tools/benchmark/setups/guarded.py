"""Workloads on brokers with an authorizer: the client is no super user, and one of a thousand ACLs allows what it does.

Compare these rows with those of the same workloads without an authorizer.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from harness.processes.brokers import wait_until
from harness.processes.production import production_broker
from harness.wire_client import WireClient
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.describe_acls_request import DescribeAclsRequest
from kwire.security.acls.bindings import PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType
from tools.benchmark.targets import Target
from tools.benchmark.workloads import (
    GUARDED,
    KIB,
    AtOnce,
    Consume,
    OneRecord,
    Produce,
    Workload,
)

AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""The client may do what no ACL is about: change ACLs, for example."""
ACLS: Final = 1000
AT_ONCE: Final = 500


class GuardedTarget(Target):
    """A broker with an authorizer under measurement."""

    def __init__(self, kind: str, home: Path) -> None:
        super().__init__(production_broker(kind, home, AUTHORIZER))

    def start(self) -> None:
        """Start the broker, and add the ACLs."""
        super().start()
        with self.client() as client:
            add_acls(client, "bench-")


def add_acls(client: WireClient, prefix: str) -> None:
    """Allow everybody everything on the topics of a prefix, beside entries on other topics; wait until they hold."""
    entries = [*_others(ACLS - 1), _entry(prefix, PatternType.PREFIXED, "User:*", AclOperation.ALL)]
    for start in range(0, ACLS, AT_ONCE):
        answer = client.call(CreateAclsRequest(creations=entries[start : start + AT_ONCE]), 3)
        assert not any(each.error_code for each in answer.results), answer
    names: dict[str, Any] = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    every = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        pattern_type_filter=PatternType.ANY,
        operation=AclOperation.ANY,
        permission_type=PermissionType.ANY,
        **names,
    )
    wait_until(lambda: sum(len(each.acls) for each in client.call(every, 3).resources) == ACLS, 60, "the ACLs")


def _others(number: int) -> Iterable[AclCreation]:
    """Entries of other users on other topics, one in ten on a prefix."""
    for each in range(number):
        pattern = PatternType.LITERAL if each % 10 else PatternType.PREFIXED
        yield _entry(f"topic-{each}", pattern, f"User:u{each % 50}", AclOperation.READ)


def _entry(name: str, pattern: PatternType, principal: str, operation: AclOperation) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=PermissionType.ALLOW,
    )


def guarded() -> list[Workload]:
    """The workloads on the brokers with an authorizer."""

    def line(key: str, title: str, measure: Any, rate: str, cost: str) -> Workload:
        return Workload(f"acl-{key}", title, GUARDED, measure, rate, cost)

    records, requests = ("records_s", "cpu_s_per_million"), ("requests_s", "cpu_s_per_thousand")
    return [
        line("base", "base: produce, 16 KiB batches", Produce(), *records),
        line("consume", "consume, 1 partition", Consume(), *records),
        line("both-128k", "at once, 128 KiB batches", AtOnce(128 * KIB), *records),
        line("one-1", "one record a request, 1 connection", OneRecord(1), *requests),
        line("one-50", "one record a request, 50 connections", OneRecord(50, 30_000), *requests),
    ]

"""ACLs are created, described and deleted by the administration clients of librdkafka, kafka-python, franz-go and
sarama."""

from __future__ import annotations

import re
from typing import Any

import pytest

from compat_tests.clients.languages.test_go import build, need_go
from compat_tests.clients.languages.toolchains import built, scenarios
from compat_tests.comparisons.access.acls import Acls
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.secured import SecuredBroker


def test_confluent(guarded: SecuredBroker, acls: Acls, observe: Observations) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    def entry(name: str, operation: AclOperation = AclOperation.READ, principal: str = "User:alice") -> AclBinding:
        literal = ResourcePatternType.LITERAL
        return AclBinding(ResourceType.TOPIC, name, literal, principal, "*", operation, AclPermissionType.ALLOW)

    def results(futures: dict[Any, Any]) -> list[str]:
        told = []
        for future in futures.values():
            try:
                told.append(str(sorted(str(each) for each in future.result(30) or ())))
            except KafkaException as error:
                told.append(f"{error.args[0].name()}: {error.args[0].str()}")
        return told

    admin = AdminClient({"bootstrap.servers": guarded.bootstrap, "broker.address.family": "v4", "log_level": 0})
    unusual = entry("orders", AclOperation.IDEMPOTENT_WRITE)  # not an operation on topics; no broker minds
    refused = entry("orders", principal="alice")
    observe("created", results(admin.create_acls([entry("orders"), entry("others"), unusual, refused])))
    acls.await_number(3)
    anything: Any = None  # which the types of confluent-kafka do not know
    some = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        "User:alice",
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    observe("described", sorted(str(each) for each in admin.describe_acls(some).result(30)))
    observe("deleted", results(admin.delete_acls([some])))
    acls.await_number(0)


def test_kafka_python(guarded: SecuredBroker, acls: Acls, observe: Observations) -> None:
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        KafkaAdminClient,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )
    from kafka.admin import ACLResourcePatternType as PatternType

    def entry(operation: ACLOperation) -> ACL:
        pattern = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.PREFIXED)
        return ACL("User:alice", "*", operation, ACLPermissionType.DENY, pattern)

    def parts(result: object) -> list[str]:
        return sorted(re.findall(r"<ACL principal=User:.*?, host=\*>|kafka\.errors\.\w+", str(result)))

    admin = KafkaAdminClient(bootstrap_servers=guarded.bootstrap)
    try:
        created = admin.create_acls([entry(ACLOperation.READ), entry(ACLOperation.IDEMPOTENT_WRITE)])
        observe("created", parts(created))
        acls.await_number(2)
        anywhere = ResourcePatternFilter(ResourceType.ANY, "orders-1", PatternType.MATCH)
        some = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, anywhere)
        observe("described", parts(admin.describe_acls(some)))
        observe("deleted", parts(admin.delete_acls([some])))
        acls.await_number(0)
    finally:
        admin.close()


@pytest.mark.timeout(1500)  # the first run builds them
@pytest.mark.parametrize("client", ["franz", "sarama"])
def test_clients_in_go(guarded: SecuredBroker, acls: Acls, new_name: Names, client: str) -> None:
    need_go()
    program = built("go", build) / "clients"
    found = scenarios(str(program), guarded.bootstrap, new_name("go"), f"{client}-acls")
    assert found == ["creating", "describing", "deleting"]
    assert acls.describe()[2] == []

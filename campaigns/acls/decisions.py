"""Random ACLs and questions through Kafka's `StandardAuthorizer` and kwire's `AclIndex`: no difference is allowed.

    .venv/bin/python -m campaigns.acls.decisions --cases 1000000 --seed 1

A case is a set of up to 20 ACLs, super users, and six questions: what a principal at an address may do to a resource,
or to some resource of a type (KIP-679); and two filters, which must match the same ACLs. The names are few and are
prefixes of each other, so that several ACLs apply to a question. Names such as ``*x`` are left out: Kafka does not
apply ACLs of the name ``*`` to them, even if they deny (kwire does). A line of JSON is printed, then the first
differences. The exit status is 1 if there is any.
"""

from __future__ import annotations

import json
import random
from typing import Any, Final

from campaigns.java.oracle import OracleCampaign
from harness.paths import ROOT
from kwire.security.acls.bindings import AclBinding, AclFilter, PatternType, PermissionType
from kwire.security.acls.index import AclIndex
from kwire.security.acls.operations import AclOperation, ResourceType
from kwire.security.principals import Principal, parse_principals

SOURCE: Final = ROOT / "campaigns" / "java" / "AclOracle.java"
NAMES: Final = ("a", "ab", "abc", "abcd", "abd", "b", "ba", "*", "hardcode", "hard", "h", "é", "éa", "\U0001f600", "A")
TYPES: Final = [each for each in ResourceType if each > ResourceType.ANY]
OPERATIONS: Final = [each for each in AclOperation if each > AclOperation.ALL]
PRINCIPAL_TYPES: Final = ("User", "User", "User", "Group", "user")
PRINCIPAL_NAMES: Final = ("alice", "bob", "a:b", "CN=x,O=y", "é", "ANONYMOUS")
HOSTS: Final = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
SUPER_USERS: Final = ("", "", "User:root", " User:alice ; User:a:b ", "User:CN=x,O=y;Group:bob", "User:*;")


class Case:
    """A set of ACLs, with questions and filters."""

    def __init__(self, chance: random.Random) -> None:
        self.open = chance.random() < 0.3
        self.super_users = chance.choice(SUPER_USERS)
        types = chance.sample(TYPES, chance.choice((1, 1, 2)))
        operations = chance.sample(OPERATIONS, chance.choice((1, 2, 4)))
        deny = chance.choice((0.1, 0.3, 0.6))
        drawn = [_binding(chance, types, operations, deny) for _ in range(chance.randrange(21))]
        self.bindings = list(dict.fromkeys(drawn))
        self.asked = [_asked(chance, types, operations) for _ in range(6)]
        self.filters = [_filter(chance, types, operations) for _ in range(2)]

    def question(self) -> str:
        """The line that asks Java."""
        acls = [_fields(binding) for binding in self.bindings]
        filters = [_fields(each) for each in self.filters]
        return json.dumps([self.open, self.super_users, acls, self.asked, filters])

    def answer(self) -> str:
        """kwire's answer, in the oracle's form."""
        supers = {str(each) for each in parse_principals(self.super_users)}
        index = AclIndex.of(self.bindings, super_users=supers, open_without_entries=self.open)
        words = ["".join("01"[_decide(index, asked)] for asked in self.asked)]
        words += ["".join("01"[each.matches(binding)] for binding in self.bindings) for each in self.filters]
        return " ".join(words)


def _decide(index: AclIndex, asked: list[Any]) -> bool:
    kind, name, host, operation, resource_type, resource = asked
    who, operation, resource_type = str(Principal(kind, name)), AclOperation(operation), ResourceType(resource_type)
    if resource is None:
        return index.allows_some(who, host, operation, resource_type)
    return index.allows(who, host, operation, resource_type, resource)


def _fields(each: AclBinding | AclFilter) -> list[Any]:
    return [
        each.resource_type,
        each.pattern_type,
        each.resource_name,
        each.principal,
        each.host,
        each.operation,
        each.permission,
    ]


def _binding(
    chance: random.Random, types: list[ResourceType], operations: list[AclOperation], deny: float
) -> AclBinding:
    pattern_type = chance.choice((PatternType.LITERAL, PatternType.PREFIXED))
    principal = "User:*" if chance.random() < 0.2 else str(_principal(chance))
    return AclBinding(
        chance.choice(types),
        chance.choice(NAMES),
        pattern_type,
        principal,
        "*" if chance.random() < 0.6 else chance.choice(HOSTS),
        AclOperation.ALL if chance.random() < 0.15 else chance.choice(operations),
        PermissionType.DENY if chance.random() < deny else PermissionType.ALLOW,
    )


def _principal(chance: random.Random) -> Principal:
    return Principal(chance.choice(PRINCIPAL_TYPES), chance.choice(PRINCIPAL_NAMES))


def _asked(chance: random.Random, types: list[ResourceType], operations: list[AclOperation]) -> list[Any]:
    operation = chance.choice(operations)
    if chance.random() < 0.3:
        operation = chance.choice((AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS))
    name = None if chance.random() < 0.3 else chance.choice(NAMES) + chance.choice(("", "", "x", "bc"))
    if name is not None and name.startswith("*"):
        name = "*"
    return [*_principal(chance), chance.choice(HOSTS), operation, chance.choice(types), name]


def _filter(chance: random.Random, types: list[ResourceType], operations: list[AclOperation]) -> AclFilter:
    def sometimes(value: Any, otherwise: Any) -> Any:
        return value if chance.random() < 0.3 else otherwise

    pattern_types = (PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED)
    return AclFilter(
        sometimes(chance.choice(types), ResourceType.ANY),
        None if chance.random() < 0.3 else chance.choice(NAMES),
        chance.choice(pattern_types),
        sometimes(str(_principal(chance)), None),
        sometimes(chance.choice((*HOSTS, "*")), None),
        sometimes(chance.choice((*operations, AclOperation.ALL)), AclOperation.ANY),
        sometimes(chance.choice((PermissionType.DENY, PermissionType.ALLOW)), PermissionType.ANY),
    )


def _counts(answer: str) -> dict[str, int]:
    decisions = answer.partition(" ")[0]
    return {"allowed": decisions.count("1"), "denied": decisions.count("0")}


CAMPAIGN: Final = OracleCampaign("acls.decisions", __doc__, SOURCE, Case, _counts, "ACLs")
run, run_seeds = CAMPAIGN.run, CAMPAIGN.run_seeds

if __name__ == "__main__":
    raise SystemExit(CAMPAIGN.main())

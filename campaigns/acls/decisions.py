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
import time
from collections import Counter
from typing import Any, Final

from campaigns.command_line import campaign_parser
from harness.paths import ROOT
from harness.processes.java_oracle import JavaOracle
from kwire.security.acls.bindings import AclBinding, AclFilter, PatternType, PermissionType
from kwire.security.acls.index import AclIndex
from kwire.security.acls.operations import AclOperation, ResourceType
from kwire.security.principals import Principal, parse_principals

SOURCE: Final = ROOT / "campaigns" / "java" / "AclOracle.java"
BATCH: Final = 500
DIFFERENCES_MAX: Final = 20
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


def run(cases: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Ask about so many cases; what the decisions were, and the differences."""
    counts: Counter[str] = Counter()
    differences: list[str] = []
    with JavaOracle(SOURCE) as oracle:
        for number, start in enumerate(range(0, cases, BATCH)):
            chance = random.Random(f"{seed}/{number}")
            batch = [Case(chance) for _ in range(min(BATCH, cases - start))]
            questions = [case.question() for case in batch]
            for case, question, theirs in zip(batch, questions, oracle.ask(questions), strict=True):
                ours = case.answer()
                decisions = ours.partition(" ")[0]
                counts["allowed"] += decisions.count("1")
                counts["denied"] += decisions.count("0")
                if ours != theirs:
                    differences.append(f"{question}: Kafka {theirs}, kwire {ours}")
            if len(differences) >= DIFFERENCES_MAX:
                break
    return counts, differences


def run_seeds(first: int, count: int) -> tuple[Counter[str], list[str]]:
    """`run` with a batch of cases for each seed from ``first`` on, until one has differences; for mutants."""
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        more, differences = run(BATCH, seed)
        counts += more
        if differences:
            return counts, differences
    return counts, []


def main() -> int:
    """Run from the command line; return the exit status."""
    parser = campaign_parser("acls.decisions", __doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="how many sets of ACLs")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.monotonic()
    counts, differences = run(arguments.cases, arguments.seed)
    seconds = round(time.monotonic() - started, 1)
    summary = {"campaign": "acls.decisions", "seed": arguments.seed, "seconds": seconds, "cases": arguments.cases}
    print(json.dumps({**summary, **counts, "different": len(differences)}))
    for difference in differences[:DIFFERENCES_MAX]:
        print(difference)
    return 1 if differences else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""CreateAcls, DescribeAcls and DeleteAcls: the same requests to both brokers, valid and not."""

from __future__ import annotations

import random

import pytest

from compat_tests.comparisons.access.acls import (
    ALL,
    ALLOW,
    ANY,
    ANYTHING,
    CLUSTER,
    DENY,
    DESCRIBE,
    GROUP,
    LITERAL,
    MATCH,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    Acl,
    Acls,
)
from compat_tests.comparisons.admin.requests import Wire
from harness.observations import Observations
from harness.processes.brokers import Broker

CODES = (-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 100)
VERSIONS = [1, 2, 3]


@pytest.mark.parametrize("version", VERSIONS)
def test_entries_are_created_described_and_deleted(acls: Acls, observe: Observations, version: int) -> None:
    entries = [Acl(), Acl(GROUP, "g", PREFIXED, "User:*", "10.0.0.1", ALL, DENY), Acl(operation=DESCRIBE)]
    observe("created", acls.create(*entries, version=version))
    observe("again", acls.create(*entries, Acl(operation=WRITE), version=version))
    observe("described", acls.describe(version=version))
    observe("of a topic", acls.describe(Acl(TOPIC, "orders", MATCH, None, None, ANY, ANY), version))
    observe("of nobody", acls.describe(ANYTHING._replace(principal="User:nobody"), version))
    observe("deleted", acls.delete(Acl(TOPIC, None, ANY, None, None, READ, ANY), ANYTHING, version=version))
    observe("gone", acls.describe(version=version))
    observe("nothing", [acls.create(version=version), acls.delete(version=version)])


def changed(entry: Acl, field: str, code: int) -> Acl:
    return Acl._make(code if name == field else value for name, value in entry._asdict().items())


@pytest.mark.parametrize("field", ["resource_type", "pattern", "operation", "permission"])
def test_codes(acls: Acls, observe: Observations, field: str) -> None:
    for code in CODES:
        name = "kafka-cluster" if field == "resource_type" and code == CLUSTER else "orders"
        entry = changed(Acl(name=name), field, code)
        observe(f"create {code}", acls.create(entry))
        observe(f"create beside a valid one {code}", acls.create(Acl(name="other"), entry))
        observe(f"described {code}", acls.describe())
        chosen = changed(ANYTHING, field, code)
        observe(f"describe {code}", acls.describe(chosen))
        observe(f"delete {code}", acls.delete(chosen, ANYTHING._replace(name="nothing")))


def test_names_principals_and_hosts(acls: Acls, observe: Observations) -> None:
    names = ["", " ", "*", "*x", "a/b", "é漢😀", "x" * 300, "kafka-cluster", "a\x00b"]
    for name in names:
        observe(f"name {name!r}", acls.create(Acl(GROUP, name), Acl(TOPIC, name, PREFIXED)))
        observe(f"cluster {name!r}", acls.create(Acl(CLUSTER, name), Acl(CLUSTER, name, PREFIXED)))
    for principal in ["", "alice", ":", "User:", ":alice", "User:a:b", "*", "*:*", "User:*", "Group:g", "Us er:x y"]:
        observe(f"principal {principal!r}", acls.create(Acl(principal=principal)))
    for host in ["", "*", "localhost", "10.0.0.1", "::1", "0:0:0:0:0:0:0:1", "999.1.1.1", "10.0.0.0/8", "not a host"]:
        observe(f"host {host!r}", acls.create(Acl(host=host)))
    observe("described", acls.describe())


def test_the_same_entry_twice_in_a_request(acls: Acls, observe: Observations) -> None:
    observe("twice", acls.create(Acl(), Acl(), Acl(permission=DENY)))
    observe("described", acls.describe())
    observe("deleted twice", acls.delete(Acl(), Acl(), ANYTHING))


def test_pattern_types_in_filters(acls: Acls, observe: Observations) -> None:
    acls.create(*(Acl(TOPIC, name, pattern) for name in ("a", "ab", "abc", "*") for pattern in (LITERAL, PREFIXED)))
    for pattern in (ANY, MATCH, LITERAL, PREFIXED):
        for name in (None, "", "a", "ab", "abx", "b", "*"):
            observe(f"{pattern} {name!r}", acls.describe(Acl(ANY, name, pattern, None, None, ANY, ANY)))


@pytest.mark.parametrize("seed", range(4))
def test_random_entries_and_filters(acls: Acls, observe: Observations, seed: int) -> None:
    chance = random.Random(seed)

    def entry() -> Acl:
        return Acl(
            chance.choice((2, 3, 5, 6, 7)),
            chance.choice(("a", "ab", "b", "*", "")),
            chance.choice((3, 4)),
            chance.choice(("User:alice", "User:*", "User:bob")),
            chance.choice(("*", "10.0.0.1")),
            chance.randrange(2, 16),
            chance.choice((DENY, ALLOW)),
        )

    def chosen() -> Acl:
        wide = [each if chance.random() < 0.35 else any_ for each, any_ in zip(entry(), ANYTHING, strict=True)]
        return Acl._make(wide)._replace(pattern=chance.choice((ANY, MATCH, LITERAL, PREFIXED)))

    for step in range(15):
        observe(f"create {step}", acls.create(*(entry() for _ in range(chance.randrange(1, 8)))))
        observe(f"describe {step}", acls.describe(chosen()))
        if chance.random() < 0.5:
            observe(f"delete {step}", acls.delete(*(chosen() for _ in range(chance.randrange(1, 3)))))
    observe("described", acls.describe())


def test_without_an_authorizer(broker: Broker, observe: Observations) -> None:
    acls = Acls(Wire(broker.bootstrap))
    observe("described", acls.describe())
    observe("deleted", acls.delete(ANYTHING, ANYTHING))
    observe("created", acls.create(Acl(), Acl(CLUSTER)))
    observe("ANY", acls.create(Acl(ANY)))
    observe("UNKNOWN", [acls.create(Acl(0)), acls.describe(Acl(0)), acls.delete(Acl(0))])
    observe("no meaning", [acls.describe(Acl(9)), acls.delete(Acl(9))])


def test_many_entries_in_a_request(acls: Acls, observe: Observations) -> None:
    def create(prefix: str, count: int) -> list[tuple[int, str]]:
        return sorted(set(map(tuple, acls.create(*(Acl(name=f"{prefix}{number}") for number in range(count))))))

    def delete(*filters: Acl) -> list[tuple[int, str, int]]:
        return [(code, message, len(gone)) for code, message, gone in acls.delete(*filters)]

    observe("too many", create("x", 10_001))
    observe("created", create("t", 9_900))
    observe("few of them are new", create("t", 10_001))
    observe("too many at once", delete(ANYTHING, ANYTHING._replace(name="t1")))
    observe("one", delete(ANYTHING._replace(name="t1")))
    observe("all", delete(ANYTHING))
    observe("described", acls.describe())

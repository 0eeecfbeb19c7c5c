"""DescribeClientQuotas and AlterClientQuotas, with valid and invalid filters, entities and limits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from compat_tests.comparisons.configs.quotas import DEFAULT, EXACT, SPECIFIED, Filter, Limits, Names, Quotas
from harness.observations import Observations

FILTERS: list[Filter] = [
    [],
    [("user", EXACT, "alice")],
    [("user", DEFAULT, None)],
    [("user", SPECIFIED, None)],
    [("client-id", SPECIFIED, None)],
    [("client-id", EXACT, "app")],
    [("user", DEFAULT, None), ("client-id", SPECIFIED, None)],
    [("client-id", DEFAULT, None), ("user", SPECIFIED, None)],
    [("user", EXACT, "alice"), ("client-id", EXACT, "app")],
    [("ip", SPECIFIED, None)],
    [("ip", DEFAULT, None)],
    [("ip", EXACT, "127.0.0.1")],
    [("ip", EXACT, "0:0:0:0:0:0:0:1")],
    [("", EXACT, "x")],
    [("user", EXACT, None)],
    [("user", EXACT, "")],
    [("user", DEFAULT, "x")],
    [("user", SPECIFIED, "x")],
    [("user", 3, None)],
    [("user", -1, "x")],
    [("host", EXACT, "x")],
    [("User", EXACT, "x")],
    [("user", EXACT, "x"), ("user", EXACT, "y")],
    [("user", SPECIFIED, None), ("user", EXACT, "x")],
    [("host", EXACT, "x"), ("host", EXACT, "x")],
    [("ip", EXACT, "x"), ("user", EXACT, "x")],
    [("client-id", SPECIFIED, None), ("ip", DEFAULT, None)],
    [("ip", DEFAULT, None), ("", EXACT, "x")],
]

PRODUCE, CONSUME, CPU = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATE, CONNECT = "controller_mutation_rate", "connection_creation_rate"
KEYS = (PRODUCE, CONSUME, CPU, MUTATE, CONNECT, "no_such_rate", "")

# Large enough that no other test notices them.
VALID: list[tuple[Names, Limits]] = [
    ({"user": "alice"}, {PRODUCE: 2e9, CONSUME: 3e9}),
    ({"user": "alice", "client-id": "app"}, {CPU: 12345.5}),
    ({"user": "alice", "client-id": None}, {MUTATE: 1234.25}),
    ({"user": None, "client-id": "app"}, {PRODUCE: 1e9}),
    ({"user": None, "client-id": None}, {PRODUCE: 1e12}),
    ({"user": None}, {CPU: 98765.0}),
    ({"client-id": "app"}, {CONSUME: 9.007199254740993e15}),
    ({"client-id": None}, {CONSUME: 2.0**62}),
    ({"ip": "127.0.0.1"}, {CONNECT: 100000.0}),
    ({"ip": "::1"}, {CONNECT: 2147483647.0}),
    ({"ip": None}, {CONNECT: 1000000.0}),
    ({"user": "<default>"}, {PRODUCE: 1e9}),
    ({"client-id": "höher/%25 =,"}, {PRODUCE: 1e9}),
]

ENTITIES: list[Names] = [
    {},
    {"user": ""},
    {"client-id": ""},
    {"ip": ""},
    {"host": "x"},
    {"User": "x"},
    {"": None},
    {"user": "x", "host": "y"},
    {"user": "", "host": "y"},
    {"user": "", "client-id": ""},
    {"user": "x", "ip": "127.0.0.1"},
    {"client-id": None, "ip": None},
    {"user": "x", "client-id": "y", "ip": None},
    {"ip": "not an address"},
    {"ip": "999.1.1.1"},
    [("user", "first"), ("user", "second")],
]

VALUES = [0.0, -0.0, -1.0, 0.5, 1.5, 1.0000001, 1.00001, 0.0000001, 1e300, 2.0**31, 2.0**31 - 1, 2.0**63, 2.0**64]
STRANGE = [float("inf"), float("-inf"), float("nan")]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
def test_filters(quotas: Quotas, observe: Observations, version: int, filled: bool) -> None:
    if filled:
        observe("altered", quotas.alter(*VALID, version=version))
    for strict in (False, True):
        for components in FILTERS:
            found = quotas.describe(*components, strict=strict, version=version)
            observe(f"{components} {strict}", found)


@pytest.mark.parametrize("version", [0, 1])
def test_limits_are_set_replaced_and_removed(quotas: Quotas, observe: Observations, version: int) -> None:
    def step(name: str, *entries: tuple[Names, Limits], **options: Any) -> None:
        observe(name, quotas.alter(*entries, version=version, **options))
        observe(f"after {name}", quotas.describe(version=version))

    alice: Names = {"user": "alice"}
    step("nothing")
    step("no limits", (alice, {}))
    step("validated only", *VALID, validate_only=True)
    step("set", (alice, {PRODUCE: 2e9, CPU: 1e4}), ({"client-id": "app"}, {CONSUME: 1e9}))
    step("replaced", (alice, {PRODUCE: 3e9}))
    step("removed and set", (alice, {CPU: None, MUTATE: 1e4}))
    step("removed what is not there", (alice, {CPU: None, "no_such_rate": None}), ({"user": "bob"}, {CPU: None}))
    step("one of two is wrong", (alice, {PRODUCE: 4e9, CONSUME: -1.0}))
    step("one of two entities is wrong", (alice, {PRODUCE: 5e9}), ({"user": ""}, {PRODUCE: 5e9}))
    step("twice", (alice, {PRODUCE: 6e9}), (alice, {CONSUME: 6e9}))
    both = {"client-id": None, "user": "alice"}
    step("twice in another order", (both, {PRODUCE: 6e9}), ({"user": "alice", "client-id": None}, {CONSUME: 6e9}))
    step("a key twice", (alice, [(PRODUCE, 7e9), (PRODUCE, 8e9)]))
    step("a key twice, removed", (alice, [(PRODUCE, 7e9), (PRODUCE, None)]))
    step("wrong and twice", ({"user": ""}, {PRODUCE: 1e9}), ({"user": ""}, {PRODUCE: 1e9}))
    step("all removed", (alice, {PRODUCE: None, MUTATE: None}), ({"client-id": "app"}, {CONSUME: None}))


@pytest.mark.parametrize("version", [0, 1])
def test_wrong_entities_limits_and_values(quotas: Quotas, observe: Observations, version: int) -> None:
    for names in ENTITIES:
        observe(f"{names}", quotas.alter((names, {PRODUCE: 1e9}), version=version))
    for kind in ("user", "ip"):
        names = {kind: "127.0.0.9"}
        for key in KEYS:
            results = [quotas.alter((names, {key: value}), version=version, validate_only=True) for value in VALUES]
            observe(f"{names} {key}", results)
            strange = [quotas.alter((names, {key: each}), version=version, validate_only=True) for each in STRANGE]
            observe(f"{names} {key} strange", strange)
        observe(f"{names} several wrong limits", quotas.alter((names, dict.fromkeys(KEYS, -1.0)), version=version))
        observe(f"{names} several wrong keys", quotas.alter((names, dict.fromkeys("dcba", 1.0)), version=version))
    observe("nothing", quotas.describe(version=version))


def test_too_many_limits_at_once(quotas: Quotas, observe: Observations) -> None:
    keys = {PRODUCE: 1e9, CONSUME: 1e9, CPU: 1e4, MUTATE: 1e4}
    many: list[tuple[Names, Limits]] = [({"user": f"user-{number}"}, keys) for number in range(2501)]
    results = quotas.alter(*many)
    observe("more than 10,000", [len(results), sorted({(code, message) for _, code, message in results})])
    results = quotas.alter(*many, validate_only=True)
    observe("validated only", [len(results), sorted({(code, message) for _, code, message in results})])
    observe("nothing", quotas.describe())
    results = quotas.alter(*many[:2500])
    observe("10,000", [len(results), sorted({(code, message) for _, code, message in results})])
    observe("all of them", len(quotas.describe()[2]))


@pytest.mark.parametrize("seed", range(2))
def test_the_same_random_alterations_on_both_brokers(quotas: Quotas, observe: Observations, seed: int) -> None:
    draw = random.Random(seed)

    def names() -> Names:
        kinds = draw.choice((("user",), ("client-id",), ("user", "client-id"), ("ip",), ("ip", "user"), ("host",), ()))
        name = {"ip": ("127.0.0.1", "::1", None, "x"), "user": ("alice", "bob", None, None, "")}
        return {kind: draw.choice(name.get(kind, ("app", None, "b", ""))) for kind in kinds}

    def limits() -> Limits:
        chosen = draw.sample(KEYS[:5], draw.randint(1, 3)) if draw.random() < 0.9 else draw.choices(KEYS, k=3)
        values = (None, None, 1e9, 2e9, 1e5, 123456.0, 1e6 + 0.5, -1.0)
        return [(key, draw.choice(values)) for key in chosen]

    for number in range(60):
        entries = [(names(), limits()) for _ in range(draw.choice((1, 1, 2, 5)))]
        results = quotas.alter(*entries, version=draw.randint(0, 1), validate_only=draw.random() < 0.1)
        components = draw.choice(FILTERS[:13])
        found = quotas.describe(*components, strict=draw.random() < 0.5, version=draw.randint(0, 1))
        observe(f"{number}", [[str(each) for each in entries], results, [str(components), found]])

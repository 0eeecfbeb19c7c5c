"""Which limit applies to a client."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from random import Random
from typing import TypeAlias

import pytest

from kwire.quotas.entities import CLIENT_ID, IP, USER, ClientQuotas, QuotaEntity
from kwire.quotas.limits import ClientLimits, Limit, _Levels

KEY = "producer_byte_rate"
Names: TypeAlias = Mapping[str, str | None]

LEVELS: list[tuple[Names, str | None, str | None]] = [
    ({USER: "alice", CLIENT_ID: "app"}, "alice", "app"),
    ({USER: "alice", CLIENT_ID: None}, "alice", "app"),
    ({USER: "alice"}, "alice", None),
    ({USER: None, CLIENT_ID: "app"}, "alice", "app"),
    ({USER: None, CLIENT_ID: None}, "alice", "app"),
    ({USER: None}, "alice", None),
    ({CLIENT_ID: "app"}, None, "app"),
    ({CLIENT_ID: None}, None, "app"),
]
"""In order of precedence, with whose usage is measured together for the client id "app" of "alice"."""


def limits(*quotas: tuple[Names, Mapping[str, float]]) -> ClientLimits:
    mapping: ClientQuotas = {QuotaEntity.of(names): values for names, values in quotas}
    return ClientLimits(mapping)


def test_the_first_of_the_eight_levels_decides() -> None:
    for size in range(1, len(LEVELS) + 1):
        for chosen in combinations(range(len(LEVELS)), size):
            index = limits(*((LEVELS[level][0], {KEY: level + 1.0}) for level in reversed(chosen)))
            first = chosen[0]
            assert index.limit(KEY, "alice", "app") == Limit(first + 1.0, *LEVELS[first][1:])


def test_a_level_counts_only_for_the_keys_that_it_has() -> None:
    index = limits(({USER: "alice"}, {"request_percentage": 5.0}), ({CLIENT_ID: None}, {KEY: 7.0}))
    assert index.limit(KEY, "alice", "app") == Limit(7.0, None, "app")
    assert index.limit("request_percentage", "alice", "app") == Limit(5.0, "alice", None)
    assert index.limit("consumer_byte_rate", "alice", "app") is None
    assert index.has(KEY)
    assert not index.has("consumer_byte_rate")


def test_everybody_has_a_default_limit_for_themselves() -> None:
    index = limits(({USER: None}, {KEY: 1.0}))
    assert index.limit(KEY, "alice", "app") == Limit(1.0, "alice", None)
    assert index.limit(KEY, "bob", "app") == Limit(1.0, "bob", None)


def test_a_client_without_a_client_id_has_limits_of_its_user_only() -> None:
    every = [(names, {KEY: float(level)}) for level, (names, _, _) in enumerate(LEVELS, 1)]
    assert limits(*every).limit(KEY, "alice", "") == Limit(3.0, "alice", None)
    assert limits(*every).limit(KEY, "bob", "") == Limit(6.0, "bob", None)
    assert limits(*every[:2], *every[3:5], *every[6:]).limit(KEY, "alice", "") is None


def test_a_user_without_a_name_has_limits_of_client_ids_only() -> None:
    users: tuple[Names, Mapping[str, float]] = ({USER: None}, {KEY: 6.0})
    clients: tuple[Names, Mapping[str, float]] = ({CLIENT_ID: None}, {KEY: 8.0})
    assert limits(clients).limit(KEY, "", "app") == Limit(8.0, None, "app")
    assert limits(users, clients).limit(KEY, "", "app") is None
    both: tuple[Names, Mapping[str, float]] = ({USER: None, CLIENT_ID: None}, {KEY: 5.0})
    assert limits(users, clients, both).limit(KEY, "", "app") == Limit(8.0, None, "app")
    assert limits(users, clients, both).limit(KEY, "", "") is None


def test_without_quotas_nobody_has_a_limit() -> None:
    assert limits().empty
    assert limits().limit(KEY, "alice", "app") is None
    assert limits().ip_limit("127.0.0.1") is None
    assert not limits(({IP: None}, {"connection_creation_rate": 1.0})).empty


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::1", "2001:db8:0::1"),
    ],
)
def test_an_address_is_the_same_however_it_is_written(name: str, address: str) -> None:
    rates = {"connection_creation_rate": 3.0}
    index = limits(({IP: name}, rates), ({IP: None}, {"connection_creation_rate": 9.0}))
    assert index.ip_limit(address) == 3.0
    assert index.ip_limit("10.9.9.9") == 9.0
    assert limits(({IP: name}, rates)).ip_limit("10.9.9.9") is None


@pytest.mark.parametrize("seed", range(20))
def test_an_index_of_changed_quotas_is_that_of_all(seed: int) -> None:
    random = Random(seed)
    every: list[Names] = [names for names, _, _ in LEVELS]
    every += [{USER: f"u{number}"} for number in range(4)]
    if seed % 2:
        every += [{IP: None}, {IP: "::1"}, {IP: "0:0:0:0:0:0:0:1"}]
    present: dict[QuotaEntity, Mapping[str, float]] = {}
    index = ClientLimits(present)
    for _ in range(30):
        after = dict(present)
        for names in random.sample(every, 3):
            keys = ["connection_creation_rate"] if IP in names else random.sample([KEY, "request_percentage"], 1)
            if random.random() < 0.5:
                after.pop(QuotaEntity.of(names), None)
            else:
                after[QuotaEntity.of(names)] = {key: float(random.randrange(1, 9)) for key in keys}
        index, present = index.changed(present, after), after
        whole = ClientLimits(after)
        assert index.empty == whole.empty
        for key in (KEY, "request_percentage", "consumer_byte_rate"):
            assert index.has(key) == whole.has(key)
            for user in ("alice", "u0", "u3", ""):
                for client_id in ("app", "other", ""):
                    assert index.limit(key, user, client_id) == whole.limit(key, user, client_id)
        assert [index.ip_limit(each) for each in ("::1", "10.0.0.1")] == [
            whole.ip_limit(each) for each in ("::1", "10.0.0.1")
        ]


def test_unchanged_quotas_are_not_indexed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    present = {QuotaEntity.of({USER: f"u{number}"}): {KEY: 1.0} for number in range(50)}
    index = ClientLimits(present)
    added: list[object] = []
    add = _Levels.add

    def noted(levels: _Levels, names: dict[str, str | None], value: float) -> None:
        added.append((names, value))
        add(levels, names, value)

    monkeypatch.setattr(_Levels, "add", noted)
    after = {**present, QuotaEntity.of({USER: "u7"}): {KEY: 2.0}}
    del after[QuotaEntity.of({USER: "u8"})]
    changed = index.changed(present, after)
    assert added == [({USER: "u7"}, 2.0)]
    assert [changed.limit(KEY, each, "") for each in ("u7", "u8")] == [Limit(2.0, "u7", None), None]
    assert index.limit(KEY, "u8", "") == Limit(1.0, "u8", None)

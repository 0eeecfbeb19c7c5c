"""Entities that have quotas."""

from __future__ import annotations

from kwire.quotas.entities import CLIENT_ID, USER, QuotaEntity


def test_the_order_of_types_makes_no_difference() -> None:
    one = QuotaEntity.of({USER: "alice", CLIENT_ID: None})
    other = QuotaEntity.of({CLIENT_ID: None, USER: "alice"})
    assert one == other
    assert hash(one) == hash(other)
    assert one.by_type() == {USER: "alice", CLIENT_ID: None}


def test_a_default_entity_differs_from_any_name() -> None:
    assert QuotaEntity.of({USER: None}) != QuotaEntity.of({USER: ""})
    assert QuotaEntity.of({USER: None}) != QuotaEntity.of({USER: "<default>"})
    assert QuotaEntity.of({USER: "x"}) != QuotaEntity.of({CLIENT_ID: "x"})

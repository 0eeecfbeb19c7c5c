"""Quotas in the store and in the image."""

from __future__ import annotations

import pytest

from kwire.cluster.metadata.client_quotas import ENTITIES_MAX, changed_quotas, pack_quotas, quota_key, unpack_quotas
from kwire.cluster.store.store import StoreFormatError
from kwire.quotas.entities import QuotaEntity

ALICE = QuotaEntity.of({"user": "alice"})
BOTH = QuotaEntity.of({"user": "ä/%", "client-id": None})


def test_a_value_says_whose_quotas_it_has() -> None:
    for entity in (ALICE, BOTH):
        quotas = {"producer_byte_rate": 0.1, "request_percentage": 9007199254740993.0}
        value = pack_quotas(entity, quotas)
        assert unpack_quotas(quota_key(entity), value) == (entity, quotas)
        assert quota_key(entity).startswith("quotas/")
    assert quota_key(ALICE) != quota_key(BOTH)


def test_integers_in_a_value_are_numbers_like_others() -> None:
    value = b'{"v":1,"names":{"user":"alice"},"quotas":{"producer_byte_rate":5},"later":1}'
    assert repr(unpack_quotas("quotas/x", value)[1]) == "{'producer_byte_rate': 5.0}"


def test_a_value_of_a_newer_kwire_is_refused() -> None:
    with pytest.raises(StoreFormatError):
        unpack_quotas("quotas/x", b'{"v":2}')


def test_changes_leave_the_quotas_before_as_they_were() -> None:
    limits = {"producer_byte_rate": 1.0}
    before = {ALICE: limits}
    after = changed_quotas(before, [(quota_key(BOTH), pack_quotas(BOTH, limits)), (quota_key(ALICE), None)])
    assert before == {ALICE: limits}
    assert after == {BOTH: limits}
    assert changed_quotas(after, [(quota_key(BOTH), None), (quota_key(ALICE), None)]) == {}


def test_quotas_are_deleted_by_keys_that_have_not_been_seen_before() -> None:
    """Also more of them than are kept, and keys of nobody."""
    entities = [QuotaEntity.of({"user": f"u{number}"}) for number in range(ENTITIES_MAX + 10)]
    present = {entity: {"producer_byte_rate": 1.0} for entity in entities}
    for deleted in (entities[:3], entities[-3:]):
        after = changed_quotas(present, [*((quota_key(each), None) for each in deleted), ("quotas/nobody", None)])
        assert after == {entity: present[entity] for entity in entities if entity not in deleted}

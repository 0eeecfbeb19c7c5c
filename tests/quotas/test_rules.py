"""What a quota may be. Kafka's own objections are compared in compat_tests/comparisons/configs."""

from __future__ import annotations

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.quotas.rules import NAME_BYTES_MAX, check_quotas


def objection(names: dict[str, str | None], **changes: float | None) -> str | None:
    with pytest.raises(KafkaError) as raised:
        check_quotas(names, changes)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
    return raised.value.message


def test_limits_of_clients_and_addresses() -> None:
    check_quotas({"user": "a", "client-id": None}, {"producer_byte_rate": 1.0, "request_percentage": 0.5})
    check_quotas({"client-id": "a"}, {"consumer_byte_rate": 2.0**63, "controller_mutation_rate": 1e300})
    for address in ("127.0.0.1", "::1", None):
        check_quotas({"ip": address}, {"connection_creation_rate": 2.0**31 - 1})


def test_a_removal_needs_no_known_key() -> None:
    check_quotas({"user": "a"}, {"no_such_rate": None, "connection_creation_rate": None})


def test_wrong_limits() -> None:
    user: dict[str, str | None] = {"user": "a"}
    assert objection(user, producer_byte_rate=0.0) == "Quota producer_byte_rate must be greater than 0"
    assert objection(user, producer_byte_rate=1.5) == "producer_byte_rate cannot be a fractional value."
    too_large = "Proposed value for consumer_byte_rate is too large for a LONG."
    assert objection(user, consumer_byte_rate=2.0**64) == too_large
    assert objection(user, connection_creation_rate=1.0) == "Invalid configuration key connection_creation_rate"
    too_large = "Proposed value for connection_creation_rate is too large for an INT."
    assert objection({"ip": None}, connection_creation_rate=2.0**31) == too_large
    assert objection({"ip": None}, producer_byte_rate=1.0) == "Invalid configuration key producer_byte_rate"


def test_wrong_entities() -> None:
    assert objection({}) == "Invalid empty client quota entity"
    assert objection({"user": ""}) == "Empty user not supported"
    assert objection({"group": None}) == "Unhandled client quota entity type: group"
    assert "should" in str(objection({"ip": None, "user": None}))


@pytest.mark.parametrize("address", ["localhost", "broker.example.com", "1.2.3", "300.1.1.1", "x"])
def test_the_entity_of_an_address_is_an_address(address: str) -> None:
    assert objection({"ip": address}) == f"{address} is not a valid IP or resolvable host."


def test_names_are_at_most_16_KiB_together() -> None:
    half = "x" * (NAME_BYTES_MAX // 2)
    check_quotas({"user": half, "client-id": half}, {})
    assert "longer than 16384 bytes" in str(objection({"user": half, "client-id": half + "ä"}))

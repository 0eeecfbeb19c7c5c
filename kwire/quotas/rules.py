"""What a quota may be: the objections of Kafka's `ClientQuotaControlManager`, in its words.

Other than in Kafka, the entity of an address is an address, never the name of a host, and names have a limit of length.
What lives elsewhere: reading requests (`kwire.handlers.configs`), writing the store (`kwire.cluster`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fmod
from typing import Final, TypeAlias

from kwire.base.errors import ErrorCode, KafkaError
from kwire.quotas.entities import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITY_TYPES,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

Changes: TypeAlias = Mapping[str, float | None]
"""New limits by quota key; None removes a limit."""

NAME_BYTES_MAX: Final = 16 * 1024
"""The names of an entity together, so that values in the metadata store stay small."""

_CLIENT_KEYS: Final[dict[str, tuple[float, str] | None]] = {
    PRODUCER_BYTE_RATE: (2.0**63, "a LONG"),
    CONSUMER_BYTE_RATE: (2.0**63, "a LONG"),
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""The keys of users and client ids, with the largest value and the type of those that are integers."""

_ADDRESS_KEYS: Final[dict[str, tuple[float, str] | None]] = {CONNECTION_CREATION_RATE: (2.0**31 - 1, "an INT")}

_FRACTION_MAX: Final = 1e-6
"""What may be left of an integer after the point."""


def check_quotas(names: Mapping[str, str | None], changes: Changes) -> None:
    """Whether the entity of these names may get these limits: the first objection in the order of both, as
    INVALID_REQUEST."""
    _check_names(names)
    keys = _ADDRESS_KEYS if IP in names else _CLIENT_KEYS
    for key, value in changes.items():
        if value is not None:
            _check_limit(keys, key, value)


def _check_names(names: Mapping[str, str | None]) -> None:
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP in names and len(names) > 1:  # without the space, as in Kafka
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = names.get(IP)
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    if sum(len(name.encode()) for name in names.values() if name) > NAME_BYTES_MAX:
        raise _invalid(f"The names of the quota entity are longer than {NAME_BYTES_MAX} bytes")


def _check_limit(keys: Mapping[str, tuple[float, str] | None], key: str, value: float) -> None:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    integer = keys[key]
    if integer is None:
        return
    largest, kind = integer
    if value > largest:
        raise _invalid(f"Proposed value for {key} is too large for {kind}.")
    if fmod(value, 1) > _FRACTION_MAX:
        raise _invalid(f"{key} cannot be a fractional value.")


def _is_address(text: str) -> bool:
    from ipaddress import ip_address

    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)

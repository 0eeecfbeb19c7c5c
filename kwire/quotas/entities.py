"""Whom a quota is for: a user, a client id, a user with a client id, or an address (KIP-546).

What lives elsewhere: which limit applies to a request (`limits`), where quotas are stored (`kwire.cluster.metadata`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

Quotas: TypeAlias = Mapping[str, float]
"""The limits of an entity by quota key."""


class QuotaEntity(NamedTuple):
    """An entity that has quotas: Kafka's `ClientQuotaEntity`.

    ``names``: pairs of entity type and name, sorted by type. A name of None is the default of its type: all names that
    have no quota of their own.
    """

    names: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, names: Mapping[str, str | None]) -> QuotaEntity:
        """The entity of names by type."""
        return cls(tuple(sorted(names.items())))

    def by_type(self) -> dict[str, str | None]:
        """The names by entity type."""
        return dict(self.names)


def listing_order(entity: QuotaEntity) -> list[tuple[str, bool, str]]:
    """The key by which entities are sorted for people: by types, then by names; a default comes first."""
    return [(kind, name is not None, name or "") for kind, name in reversed(entity.names)]


ClientQuotas: TypeAlias = Mapping[QuotaEntity, Quotas]
"""All quotas of a cluster."""

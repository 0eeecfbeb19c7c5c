"""Quotas of clients in the metadata store: their keys and values, and their part of the image.

There is one key per entity, a digest of its names. The image imports this module when the store has such keys. What
lives elsewhere: who has which limit (`kwire.quotas`), decisions about them (`kwire.cluster.controller.client_quotas`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kwire.cluster.store import keys
from kwire.quotas.entities import ClientQuotas, QuotaEntity, Quotas

ENTITIES_MAX: Final = 1 << 14
"""Entities whose keys are kept."""

_entities: dict[str, QuotaEntity] = {}
"""Entities by their keys, for deletions, which have only the key. To compute those of thousands takes milliseconds."""


@lru_cache(maxsize=ENTITIES_MAX)
def quota_key(entity: QuotaEntity) -> str:
    """The key of an entity's quotas."""
    return keys.digest_key(keys.CLIENT_QUOTAS, *entity.names)


def pack_quotas(entity: QuotaEntity, quotas: Quotas) -> bytes:
    """The value of an entity's quotas."""
    return keys.pack(names=entity.by_type(), quotas=dict(quotas))


def unpack_quotas(key: str, value: bytes) -> tuple[QuotaEntity, dict[str, float]]:
    """The inverse of `pack_quotas`. `StoreFormatError`."""
    fields = keys.unpack(key, value)
    return QuotaEntity.of(fields["names"]), {name: float(limit) for name, limit in fields["quotas"].items()}


def changed_quotas(present: ClientQuotas, changes: Iterable[tuple[str, bytes | None]]) -> dict[QuotaEntity, Quotas]:
    """The quotas after changes of their keys (None: deleted)."""
    after, deleted = dict(present), []
    for key, value in changes:
        if value is None:
            deleted.append(key)
        else:
            entity, quotas = unpack_quotas(key, value)
            after[entity] = quotas
            _keep({key: entity})
    known = _entities
    if not all(key in known for key in deleted):
        known = {quota_key(entity): entity for entity in present}
        _keep(known)
    for key in deleted:
        if key in known:
            after.pop(known[key], None)
    return after


def _keep(entities: dict[str, QuotaEntity]) -> None:
    if len(_entities) + len(entities) > ENTITIES_MAX:
        _entities.clear()
    if len(entities) <= ENTITIES_MAX:
        _entities.update(entities)

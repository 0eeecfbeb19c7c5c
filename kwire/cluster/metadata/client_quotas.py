"""Quotas of clients in the metadata store: their keys and values, and their part of the image.

There is one key per entity, a digest of its names. The image imports this module when the store has such keys. What
lives elsewhere: who has which limit (`kwire.quotas`), decisions about them (`kwire.cluster.controller.client_quotas`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from kwire.cluster.store import keys
from kwire.quotas.entities import ClientQuotas, QuotaEntity, Quotas


@lru_cache(maxsize=1 << 14)  # deletions look up the entities of all keys
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
    after = dict(present)
    deleted = []
    for key, value in changes:
        if value is None:
            deleted.append(key)
        else:
            entity, quotas = unpack_quotas(key, value)
            after[entity] = quotas
    if deleted:
        entities = {quota_key(entity): entity for entity in present}
        for key in deleted:
            if key in entities:
                del after[entities[key]]
    return after

"""Decisions about the quotas of clients (KIP-546): which are written and removed.

What lives elsewhere: what a quota may be (`kwire.quotas.rules`), which of them applies (`kwire.quotas.limits`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.controller.plan import chunks
from kwire.cluster.metadata.client_quotas import pack_quotas, quota_key
from kwire.quotas.entities import QuotaEntity, Quotas

if TYPE_CHECKING:
    from kwire.cluster.controller.decisions import Decisions
    from kwire.cluster.controller.plan import Plan
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.quotas.rules import Changes

Alterations: TypeAlias = Mapping[QuotaEntity, "Changes"]

CHANGES_MAX: Final = 10_000
"""Limits that one request may change, as in Kafka."""

_NONE: Final[Quotas] = {}

_logger = get_logger("kwire.cluster.client_quotas")


class QuotaDecisions:
    """Alters quotas. Only the controller does."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def alter(self, alterations: Alterations, *, validate_only: bool = False) -> None:
        """Set and remove limits; POLICY_VIOLATION if they are too many. If this fails otherwise, those of some entities
        may have been altered."""
        if await self._decisions.decide(partial(_count, alterations)) > CHANGES_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Request parameters do not satisfy the configured policy.")
        if validate_only:
            return
        for chunk in chunks(alterations, _bytes_of):
            for entity, quotas in (await self._decisions.decide(partial(_alter, chunk))).items():
                _logger.info("client quotas altered", **_named(entity), quotas=dict(quotas))


def altered(present: Quotas, changes: Changes) -> dict[str, float]:
    """The limits of an entity after changes."""
    after = {**present, **changes}
    return {key: value for key, value in after.items() if value is not None}


def _bytes_of(entity: QuotaEntity, changes: Changes) -> int:
    """What an entity's new limits take in the store, about."""
    return len(pack_quotas(entity, altered(_NONE, changes)))


def _count(alterations: Alterations, image: ClusterImage, _plan: Plan) -> int:
    """How many limits would change."""
    changed = 0
    for entity, changes in alterations.items():
        present = image.client_quotas.get(entity, _NONE)
        changed += sum(present.get(key) != value for key, value in changes.items())
    return changed


def _alter(alterations: Alterations, image: ClusterImage, plan: Plan) -> dict[QuotaEntity, Quotas]:
    """Plan to write what changes; the new limits."""
    written: dict[QuotaEntity, Quotas] = {}
    for entity, changes in alterations.items():
        present = image.client_quotas.get(entity, _NONE)
        quotas = altered(present, changes)
        if quotas != present:
            written[entity] = quotas
            plan.write(quota_key(entity), pack_quotas(entity, quotas) if quotas else None)
    return written


def _named(entity: QuotaEntity) -> dict[str, str]:
    """The names of an entity as fields of a log line."""
    return {kind.replace("-", "_"): "<default>" if name is None else name for kind, name in entity.names}

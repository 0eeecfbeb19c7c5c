"""Decisions about the quotas of clients (KIP-546): which are written and removed.

What lives elsewhere: what a quota may be (`kwire.quotas.rules`), which of them applies (`kwire.quotas.limits`).
"""

from __future__ import annotations

import asyncio
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

ENTITIES_MAX: Final = 250
"""Entities that are altered by one commit: planning it takes two or three milliseconds, and so does applying it."""

LINES_PER_TURN: Final = 50
"""Lines about altered quotas that are logged in one turn of the event loop: one or two milliseconds."""

COUNTED_MAX: Final = 1000
"""Entities whose changed limits are counted in one turn of the event loop: a millisecond."""

_NONE: Final[Quotas] = {}

_logger = get_logger("kwire.cluster.client_quotas")


class QuotaDecisions:
    """Alters quotas. Only the controller does."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def alter(self, alterations: Alterations, *, validate_only: bool = False) -> None:
        """Set and remove limits; POLICY_VIOLATION if they are too many. If this fails otherwise, those of some entities
        may have been altered."""
        if await self._changed(alterations) > CHANGES_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Request parameters do not satisfy the configured policy.")
        if validate_only:
            return
        for chunk in chunks(alterations, _bytes_of, ENTITIES_MAX):
            await _log(await self._decisions.decide(partial(_alter, chunk)))

    async def _changed(self, alterations: Alterations) -> int:
        """How many limits would change; of very many entities, some are examined in one turn of the event loop."""
        changed = 0
        entities = list(alterations)
        for start in range(0, len(entities), COUNTED_MAX):
            if start:
                await asyncio.sleep(0)
            part = {entity: alterations[entity] for entity in entities[start : start + COUNTED_MAX]}
            changed += await self._decisions.decide(partial(_count, part))
        return changed


async def _log(written: Mapping[QuotaEntity, Quotas]) -> None:
    """A line for each entity, few of them in one turn of the event loop."""
    for count, (entity, quotas) in enumerate(written.items(), 1):
        _logger.info("client quotas altered", **_named(entity), quotas=dict(quotas))
        if count % LINES_PER_TURN == 0:
            await asyncio.sleep(0)


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

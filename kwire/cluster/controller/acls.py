"""Decisions about access control entries: which are added and deleted.

What lives elsewhere: what an entry may say (`kwire.handlers.security`), how entries decide (`kwire.security.acls`), how
the brokers confirm a change (`acl_confirmations`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.cluster.controller.plan import chunks, value_bytes
from kwire.cluster.metadata.acls import acl_key, pack_acl
from kwire.cluster.store import keys

if TYPE_CHECKING:
    from kwire.cluster.controller.decisions import Decisions
    from kwire.cluster.controller.plan import Plan
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.security.acls.bindings import AclBinding, AclFilter

CHANGES_MAX: Final = 10_000
"""Entries that one request may add or delete, as in Kafka."""

_logger = get_logger("kwire.cluster.acls")


class AclDecisions:
    """Adds and deletes entries. Only the controller does. ``confirmed()`` returns when all brokers decide by the newest
    entries."""

    def __init__(self, decisions: Decisions, confirmed: Callable[[], Awaitable[None]]) -> None:
        self._decisions = decisions
        self._confirmed = confirmed

    async def create(self, bindings: Iterable[AclBinding]) -> None:
        """Add the entries that are not there yet; all brokers decide by them when this returns. POLICY_VIOLATION if
        they are too many. If this fails otherwise, some may have been added."""
        wanted = {acl_key(binding): binding for binding in bindings}
        new = await self._decisions.decide(partial(_missing, wanted))
        if len(new) > CHANGES_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        for chunk in chunks({key: pack_acl(wanted[key]) for key in new}, value_bytes):
            added = await self._decisions.decide(partial(_add, chunk))
            _report("ACL created", (wanted[key] for key in added))
        await self._confirmed()

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[AclBinding]]:
        """Delete the entries that any of the filters selects; which each of them selects. No broker decides by them
        when this returns. INVALID_REQUEST if they are too many. If this fails otherwise, some may have been deleted."""
        found = await self._decisions.decide(partial(_select, filters))
        selected = {key: b"" for each in found for key in each}
        if len(selected) > CHANGES_MAX:
            text = f"Cannot remove more than {CHANGES_MAX} acls in a single delete operation."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        for chunk in chunks(selected, value_bytes):
            _report("ACL deleted", await self._decisions.decide(partial(_remove, chunk)))
        await self._confirmed()
        return [list(each.values()) for each in found]


def _missing(wanted: Iterable[str], image: ClusterImage, _plan: Plan) -> list[str]:
    """The keys of entries that are not there yet."""
    return [key for key in wanted if key not in image.acls]


def _add(values: dict[str, bytes], image: ClusterImage, plan: Plan) -> list[str]:
    """Plan to write the entries that are not there yet; their keys."""
    new = _missing(values, image, plan)
    for key in new:
        plan.write(key, values[key])
    if new:
        plan.write(keys.ACL_CHANGE, keys.pack())
    return new


def _select(filters: Sequence[AclFilter], image: ClusterImage, _plan: Plan) -> list[dict[str, AclBinding]]:
    """The entries that each filter selects, by key."""
    return [{key: acl for key, acl in image.acls.items() if each.matches(acl)} for each in filters]


def _remove(selected: Iterable[str], image: ClusterImage, plan: Plan) -> list[AclBinding]:
    """Plan to delete the entries that are still there; which they are."""
    present = [key for key in selected if key in image.acls]
    for key in present:
        plan.write(key, None)
    if present:
        plan.write(keys.ACL_CHANGE, keys.pack())
    return [image.acls[key] for key in present]


def _report(event: str, bindings: Iterable[AclBinding]) -> None:
    for each in bindings:
        _logger.info(
            event,
            resource=f"{each.resource_type.name}:{each.pattern_type.name}:{each.resource_name}",
            principal=each.principal,
            host=each.host,
            operation=each.operation.name,
            permission=each.permission.name,
        )

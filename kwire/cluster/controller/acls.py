"""Decisions about access control entries: which are added and deleted.

What lives elsewhere: what an entry may say (`kwire.handlers.security`), how entries decide (`kwire.security.acls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.base.logging import get_logger
from kwire.cluster.metadata.acls import acl_key, pack_acl

if TYPE_CHECKING:
    from kwire.cluster.controller.decisions import Decisions
    from kwire.cluster.controller.plan import Plan
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.security.acls.bindings import AclBinding, AclFilter

WRITES_MAX: Final = 500
BYTES_MAX: Final = 256 * 1024
"""What one commit writes at most; ZooKeeper refuses commits of about 1 MiB, and brokers apply one between requests."""

_logger = get_logger("kwire.cluster.acls")


class AclDecisions:
    """Adds and deletes entries. Only the controller does."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def create(self, bindings: Iterable[AclBinding]) -> None:
        """Add the entries that are not there yet. If this fails, some may have been added."""
        wanted = {acl_key(binding): binding for binding in bindings}
        for chunk in chunks({key: pack_acl(binding) for key, binding in wanted.items()}):
            added = await self._decisions.decide(partial(_add, chunk))
            _report("ACL created", (wanted[key] for key in added))

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[AclBinding]]:
        """Delete the entries that any of the filters selects; which each of them selects. If this fails, some may have
        been deleted."""
        found = await self._decisions.decide(partial(_select, filters))
        for chunk in chunks({key: b"" for each in found for key in each}):
            _report("ACL deleted", await self._decisions.decide(partial(_remove, chunk)))
        return [list(each.values()) for each in found]


def _add(values: dict[str, bytes], image: ClusterImage, plan: Plan) -> list[str]:
    """Plan to write the entries that are not there yet; their keys."""
    new = [key for key in values if key not in image.acls]
    for key in new:
        plan.write(key, values[key])
    return new


def _select(filters: Sequence[AclFilter], image: ClusterImage, _plan: Plan) -> list[dict[str, AclBinding]]:
    """The entries that each filter selects, by key."""
    return [{key: acl for key, acl in image.acls.items() if each.matches(acl)} for each in filters]


def _remove(keys: Iterable[str], image: ClusterImage, plan: Plan) -> list[AclBinding]:
    """Plan to delete the entries that are still there; which they are."""
    present = [key for key in keys if key in image.acls]
    for key in present:
        plan.write(key, None)
    return [image.acls[key] for key in present]


def chunks(values: dict[str, bytes]) -> Iterator[dict[str, bytes]]:
    """Keys with their values, in parts that one commit may write."""
    chunk: dict[str, bytes] = {}
    size = 0
    for key, value in values.items():
        if len(chunk) >= WRITES_MAX or (chunk and size + len(value) > BYTES_MAX):
            yield chunk
            chunk, size = {}, 0
        chunk[key] = value
        size += len(value)
    if chunk:
        yield chunk


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

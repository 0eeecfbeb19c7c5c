"""Decisions about access control entries: which are added and deleted.

What lives elsewhere: what an entry may say (`kwire.handlers.security`), how entries decide (`kwire.security.acls`), how
the brokers confirm a change (`acl_confirmations`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import in_turns
from kwire.base.logging import get_logger
from kwire.cluster.controller.plan import chunks, value_bytes
from kwire.cluster.metadata.acls import acl_key, pack_acl
from kwire.cluster.store import keys

if TYPE_CHECKING:
    from kwire.cluster.controller.decisions import Decisions
    from kwire.cluster.controller.plan import Plan
    from kwire.cluster.metadata.acls import Acls
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.security.acls.bindings import AclBinding, AclFilter

CHANGES_MAX: Final = 10_000
"""Entries that one request may add or delete, as in Kafka."""

ENTRIES_MAX: Final = 250
"""Entries that are added or deleted by one commit: applying it takes some milliseconds."""

PREPARED_PER_TURN: Final = 200
"""Entries whose keys or values are made in one turn of the event loop: two or three milliseconds."""

COUNTED_PER_TURN: Final = 5000
"""Entries that are looked up in one turn of the event loop: a millisecond or two."""

MATCHED_PER_TURN: Final = 1000
"""Entries that are compared with a filter in one turn of the event loop: two milliseconds."""

LINES_PER_TURN: Final = 50
"""Lines about entries that are logged in one turn of the event loop: two milliseconds."""

_logger = get_logger("kwire.cluster.acls")


class AclDecisions:
    """Adds and deletes entries. Only the controller does. ``confirmed()`` returns when all brokers decide by the newest
    entries."""

    def __init__(self, decisions: Decisions, confirmed: Callable[[], Awaitable[None]]) -> None:
        self._decisions = decisions
        self._confirmed = confirmed

    async def create(self, bindings: Sequence[AclBinding]) -> None:
        """Add the entries that are not there yet; all brokers decide by them when this returns. POLICY_VIOLATION if
        they are too many. If this fails otherwise, some may have been added."""
        wanted = await in_turns(_by_key(bindings))
        new = await self._new(list(wanted))
        if len(new) > CHANGES_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        for chunk in chunks(await in_turns(_packed(wanted, new)), value_bytes, ENTRIES_MAX):
            added = await self._decisions.decide(partial(_add, chunk))
            await _report("ACL created", [wanted[key] for key in added])
        await self._confirmed()

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[AclBinding]]:
        """Delete the entries that any of the filters selects; which each of them selects. No broker decides by them
        when this returns. INVALID_REQUEST if they are too many. If this fails otherwise, some may have been deleted."""
        image = await self._decisions.decide(_present)
        found = await in_turns(_select(filters, image.acls))
        selected = {key: b"" for each in found for key in each}
        if len(selected) > CHANGES_MAX:
            text = f"Cannot remove more than {CHANGES_MAX} acls in a single delete operation."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        for chunk in chunks(selected, value_bytes, ENTRIES_MAX):
            await _report("ACL deleted", await self._decisions.decide(partial(_remove, chunk)))
        await self._confirmed()
        return [list(each.values()) for each in found]

    async def _new(self, wanted: Sequence[str]) -> list[str]:
        """The keys of entries that are not there yet."""
        new = await self._decisions.decide(partial(_missing, wanted[:COUNTED_PER_TURN]))
        for start in range(COUNTED_PER_TURN, len(wanted), COUNTED_PER_TURN):
            await asyncio.sleep(0)
            new += await self._decisions.decide(partial(_missing, wanted[start : start + COUNTED_PER_TURN]))
        return new


def _by_key(bindings: Sequence[AclBinding]) -> Generator[None, None, dict[str, AclBinding]]:
    """The entries by their keys, in steps."""
    wanted: dict[str, AclBinding] = {}
    for start in range(0, len(bindings), PREPARED_PER_TURN):
        if start:
            yield
        wanted.update((acl_key(each), each) for each in bindings[start : start + PREPARED_PER_TURN])
    return wanted


def _packed(wanted: Mapping[str, AclBinding], new: Sequence[str]) -> Generator[None, None, dict[str, bytes]]:
    """The values of new entries, in steps."""
    values: dict[str, bytes] = {}
    for start in range(0, len(new), PREPARED_PER_TURN):
        if start:
            yield
        values.update((key, pack_acl(wanted[key])) for key in new[start : start + PREPARED_PER_TURN])
    return values


def _present(image: ClusterImage, _plan: Plan) -> ClusterImage:
    """The newest image; nothing is written."""
    return image


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


def _select(filters: Sequence[AclFilter], acls: Acls) -> Generator[None, None, list[dict[str, AclBinding]]]:
    """The entries that each filter selects, by key, in steps. The entries of an image do not change."""
    found: list[dict[str, AclBinding]] = []
    compared = 0
    for each in filters:
        entries = iter(acls.items())
        selected: dict[str, AclBinding] = {}
        while part := list(islice(entries, MATCHED_PER_TURN)):
            if compared + len(part) > MATCHED_PER_TURN:
                yield
                compared = 0
            compared += len(part)
            selected.update((key, acl) for key, acl in part if each.matches(acl))
        found.append(selected)
    return found


def _remove(selected: Iterable[str], image: ClusterImage, plan: Plan) -> list[AclBinding]:
    """Plan to delete the entries that are still there; which they are."""
    present = [key for key in selected if key in image.acls]
    for key in present:
        plan.write(key, None)
    if present:
        plan.write(keys.ACL_CHANGE, keys.pack())
    return [image.acls[key] for key in present]


async def _report(event: str, bindings: Sequence[AclBinding]) -> None:
    """A line for each entry, few of them in one turn of the event loop."""
    for count, each in enumerate(bindings):
        if count and count % LINES_PER_TURN == 0:
            await asyncio.sleep(0)
        _logger.info(
            event,
            resource=f"{each.resource_type.name}:{each.pattern_type.name}:{each.resource_name}",
            principal=each.principal,
            host=each.host,
            operation=each.operation.name,
            permission=each.permission.name,
        )

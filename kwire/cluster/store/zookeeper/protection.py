"""The ACLs of nodes that were created before `zookeeper.set.acl`.

ZooKeeper sets a node's ACL when the node is created. So a cluster that is secured later leaves its old nodes, users'
credentials among them, open to everybody until they are given the ACL of new ones (as Kafka's
``zookeeper-security-migration`` did).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kwire.cluster.store.zookeeper.client import Connection

AT_ONCE: Final = 200
"""Requests under way at the same time."""

EVERYBODY: Final = "world"
"""ZooKeeper's scheme of whoever has not logged in."""


async def is_open_to_everybody(connection: Connection, path: str) -> bool:
    """Whether clients without a login may use a node. `StoreUnavailable`."""
    entries, _ = await connection.call("get_acls", path)
    return any(each.id.scheme == EVERYBODY for each in entries)


async def protect(connection: Connection, base: str) -> int:
    """Give a node and all below it the ACL with which only this login may use them; how many there were.
    `StoreUnavailable`. Nodes that are deleted meanwhile are left out."""
    import kazoo.exceptions
    import kazoo.security

    count, level = 0, [base]
    while level:
        below: list[str] = []
        for start in range(0, len(level), AT_ONCE):
            part = level[start : start + AT_ONCE]
            children = await _gathered(connection, "get_children", [(path,) for path in part])
            done = await _gathered(
                connection, "set_acls", [(path, list(kazoo.security.CREATOR_ALL_ACL)) for path in part]
            )
            for result in (*children, *done):
                if isinstance(result, BaseException) and not isinstance(result, kazoo.exceptions.NoNodeError):
                    raise result
            count += sum(not isinstance(result, BaseException) for result in done)
            for path, names in zip(part, children, strict=True):
                if not isinstance(names, BaseException):
                    below += [f"{path}/{name}" for name in names]
        level = below
    return count


async def _gathered(connection: Connection, method: str, calls: list[tuple[Any, ...]]) -> list[Any]:
    return await asyncio.gather(*(connection.call(method, *each) for each in calls), return_exceptions=True)


__all__ = ["is_open_to_everybody", "protect"]
